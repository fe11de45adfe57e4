"""Whatever is said in an incident, it is text in its report and nothing else."""

from __future__ import annotations

import re

from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from operator_sre.app.reports import as_html, as_markdown
from operator_sre.app.reports.formats import block, cell, charts_of, code, prose
from operator_sre.drawing import visible
from tests.app.reports.samples import sample
from tests.drawing.hostile import PIECES, Tags

PARSER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
# What renderers make links of although nobody marked it as one.
LINKS = re.compile(r"(?i)(?:https?|ftp)://|www\.[a-z]")
hostile = st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=12)), min_size=1, max_size=6)


def _shape(tokens: list[Token]) -> list[str]:
    """The kinds of all blocks and inlines; texts beside each other are one."""
    found: list[str] = []
    for token in tokens:
        kinds = [token.type, *(one.type for one in token.children or ())]
        for kind in kinds:
            word = "text" if kind.startswith("text") else kind
            if word != "text" or found[-1] != "text":
                found.append(word)
    return found


def _text(tokens: list[Token]) -> str:
    parts = [one.content for token in tokens for one in (token.children or [token])]
    return "".join(parts)


def _said(text: str) -> str:
    """A text that shows something wherever it stands."""
    return f"somebody said {text} and nothing else"


def _tags(text: str) -> list[str]:
    page = Tags()
    page.feed(as_html(sample(_said(text))))
    return page.tags


PLAIN_TAGS = _tags("x")
PLAIN = _shape(PARSER.parse(as_markdown(sample(_said("x")))))


@given(hostile)
@settings(max_examples=25, deadline=None)
@example(["\n# h\n", "| a |", "http://evil.example"])
def test_no_text_changes_the_shape_of_the_markdown(pieces: list[str]) -> None:
    told = as_markdown(sample(_said("".join(pieces))))
    assert _shape(PARSER.parse(told)) == PLAIN


@given(hostile)
@settings(max_examples=25, deadline=None)
def test_no_text_changes_the_shape_of_the_page(pieces: list[str]) -> None:
    page = Tags()
    page.feed(as_html(sample(_said("".join(pieces)))))
    assert page.tags == PLAIN_TAGS
    links = [one for one in page.attributes if one[0] in ("href", "src", "style", "action")]
    assert not links
    assert not [name for name, _ in page.attributes if name.startswith("on")]


@given(hostile)
@settings(max_examples=80, deadline=None)
def test_markdown_says_what_the_text_says_wherever_it_starts(pieces: list[str]) -> None:
    text = "".join(pieces)
    shown = visible(re.sub(r"\s+", " ", text)).strip()
    for line in (prose(text), f"- {prose(text)}", f"- [ ] {prose(text)}", f"> {prose(text)}"):
        tokens = PARSER.parse(line)
        assert {one.type for token in tokens for one in token.children or ()} <= {
            *("text", "text_special")
        }
        said = _text(tokens).removeprefix("[ ]").strip()
        assert re.sub(r"\s+", " ", said) == re.sub(r"\s+", " ", shown or "")
        assert not LINKS.search(line)
    assert cell(text).count("|") == cell(text).count("\\|")


@given(hostile)
@settings(max_examples=80, deadline=None)
def test_code_is_one_span_and_a_block_is_one_block(pieces: list[str]) -> None:
    text = f"a{''.join(pieces)}b"
    (_, inline, _) = PARSER.parse(f"x {code(text)} y")
    assert [one.type for one in inline.children or ()] == ["text", "code_inline", "text"]
    (fence,) = PARSER.parse("\n".join(block(text)))
    assert fence.type == "fence"
    assert fence.content == f"{visible(text, lines=True)}\n"
    table = PARSER.parse(f"| h | i |\n| --- | --- |\n| {code(text, in_cell=True)} | {cell(text)} |")
    assert sum(one.type == "td_open" for one in table) == 2


def test_nothing_that_a_terminal_obeys_is_left() -> None:
    report = sample("a\x1b[31m\x9b31m\u202e\x07\x00b")
    for text in (as_markdown(report), as_html(report), charts_of(report)):
        assert text.replace("\n", "").isprintable()
        assert "\\x1b[31m" in text.replace("\\\\", "\\").replace("\\[", "[")


def test_a_page_is_whole_and_a_browser_may_fetch_nothing_for_it() -> None:
    page = as_html(sample("x"))
    assert "default-src 'none'" in page
    assert "unsafe" not in page
    assert "script-src" not in page
    for reach in ("http://", "https://", "url(", "@import", "<link", "<script", "<iframe", "<img"):
        assert reach not in page, reach
    assert "prefers-color-scheme: dark" in page
