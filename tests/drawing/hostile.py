"""Words that want to be more than words, and what a page is beside its words."""

from __future__ import annotations

from html.parser import HTMLParser

__all__ = ["PIECES", "Tags"]

PIECES = (
    *(
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "</title>",
        "</style>",
        "</pre>",
    ),
    *("](http://evil.example)", "[x](javascript:alert(1))", "![x](//evil.example/a.png)"),
    *("http://evil.example", "www.evil.example", "mailto:a@b.example", "<http://evil.example>"),
    *("| a | b |", "|", "\\|", "\\", "`", "```", "````", "~~~", "~~x~~", "**", "__", "*", "_"),
    *("# h", "#", "- item", "+ x", "1. one", "2) two", "> quote", "---", "===", ":---:", "- [ ] x"),
    *("&lt;b&gt;", "&#60;b&#62;", "&amp;", "$x$", "<!--", "-->", "<![CDATA[", "]]>", "{{7*7}}"),
    *("\x1b[31mred\x1b[0m", "\x1b]52;c;ZXZpbA==\x07", "\x9b31m", "\u202eevil", "\u2028", "\x00"),
    *("\n", "\r\n", "\r", "\t", "    ", "\n\n", "\n# h\n", "\n```\n", "\n| --- |\n", "\n\n\n---\n"),
    *("' onload='x", '" onload="x', "javascript:alert(1)", "[a]: http://evil.example", "[/x]"),
)


class Tags(HTMLParser):
    """Every element with its attributes' names, in order; nothing of their texts."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(f"<{tag} {' '.join(name for name, _ in attrs)}>")
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        self.tags.append(f"</{tag}>")

    def handle_comment(self, data: str) -> None:
        self.tags.append(f"<!-- {data}")

    def handle_data(self, data: str) -> None:
        self.text.append(data)
