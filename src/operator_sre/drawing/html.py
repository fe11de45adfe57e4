"""HTML and text for people: escaped texts, figures, elements, and whole pages. Pure."""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Iterable, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from typing import NewType

from operator_protocols.domain.observation import Value
from operator_protocols.kit.units import format_bytes, format_duration

__all__ = [
    "EMPTY",
    "Html",
    "badge",
    "block",
    "code",
    "details",
    "escape_text",
    "facts",
    "figure",
    "format_reading",
    "heading",
    "join",
    "link",
    "page",
    "paragraph",
    "plural",
    "policy_of",
    "section",
    "small",
    "span",
    "style_of",
    "table",
    "text",
    "visible",
]

_UNITS = (("d", 86_400), ("h", 3600), ("min", 60))
FIGURE_DIGITS = 4
LARGE = 100_000.0
_SCALES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
TEXT_CHARACTERS_MAX = 60


def span(seconds: float | None) -> str:
    """How long: `4.2 s`, `3 min 20 s`, `2 h 5 min`; a dash if unknown."""
    if seconds is None:
        return "-"
    if seconds < 60:
        return f"{max(0.0, seconds):.1f} s"
    left, parts = round(seconds), []
    for unit, size in (*_UNITS, ("s", 1)):
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2])


def figure(value: Value) -> str:
    """A reading, short enough for a table."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "-"
    if isinstance(value, str):
        return value if len(value) <= TEXT_CHARACTERS_MAX else f"{value[:TEXT_CHARACTERS_MAX]}..."
    if abs(value) >= LARGE:
        for size, unit in _SCALES:
            if abs(value) >= size:
                return f"{value / size:.{FIGURE_DIGITS}g} {unit}"
    if value == int(value):
        return str(int(value))
    return f"{value:.{FIGURE_DIGITS}g}"


def format_reading(name: str, value: Value) -> str:
    """A reading with the unit that its name carries, such as `db_bytes` or `p99_ms`."""
    if isinstance(value, bool | str) or value is None or not 0 <= value < math.inf:
        return figure(value)
    match name.rsplit("_", 2)[-2:]:
        case ["per", "s"]:
            return f"{figure(value)}/s"
        case [*_, "bytes"]:
            return format_bytes(value)
        case [*_, "s"]:
            return format_duration(value)
        case [*_, "ms"]:
            return format_duration(value / 1000)
        case [*_, "ratio"]:
            return f"{figure(value * 100)} %"
        case [*_, "percent"]:
            return f"{figure(value)} %"
        case _:
            return figure(value)


def plural(count: int, noun: str, nouns: str = "") -> str:
    """A count with its noun."""
    return f"{count} {noun if count == 1 else nouns or noun + 's'}"


def visible(text: str, *, lines: bool = False) -> str:
    """The text without control characters, which are shown as escapes; `lines` keeps line ends."""
    if text.isprintable():
        return text
    kept = "\n\t" if lines else "\t"
    return "".join(
        letter
        if letter.isprintable() or letter in kept
        else letter.encode("unicode_escape").decode()
        for letter in text.replace("\r\n", "\n")
    )


def escape_text(text: str, *, lines: bool = False) -> str:
    """Visible text for a page, in an element or in the quotes of an attribute."""
    return escape(visible(text, lines=lines), quote=True)


Html = NewType("Html", str)
EMPTY = Html("")
# A page shows at most this much of a text; the ledger has all of it.
CHARACTERS_MAX = 20_000
TITLE_CHARACTERS_MAX = 120


@cache
def style_of(*packages: str) -> str:
    """The style of pages; each of these packages adds a `page.css` of its own."""
    every = (__package__ or "", *packages)
    return "".join(files(package).joinpath("page.css").read_text("utf-8") for package in every)


def policy_of(style: str) -> str:
    """What a browser may do with the page: show it, in our own style, and nothing else."""
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def page(title: str, body: str, *, style: str, kind: str = "") -> str:
    """One self-contained page around a body that is HTML already: no script, nothing fetched."""
    word = "".join(letter for letter in kind if letter.isalnum())
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy_of(style)}">',
            '<meta name="referrer" content="no-referrer">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            f"<title>{escape_text(title[:TITLE_CHARACTERS_MAX])}</title>",
            f"<style>{style}</style>",
            "</head>",
            f'<body class="{word}">',
            "<main>",
            body,
            "</main>",
            "</body>",
            "</html>",
            "",
        ]
    )


def text(words: str) -> Html:
    """Words on a line."""
    return Html(escape_text(_shorten(words)))


def code(words: str) -> Html:
    """Words of a machine on a line."""
    return Html(f"<code>{text(words)}</code>")


def block(words: str) -> Html:
    """Lines, as they are."""
    return Html(f"<pre>{escape_text(_shorten(words), lines=True)}</pre>")


def small(words: str) -> Html:
    """A note below something larger."""
    return Html(f'<span class="small">{text(words)}</span>')


def _shorten(words: str) -> str:
    if len(words) <= CHARACTERS_MAX:
        return words
    return f"{words[:CHARACTERS_MAX]} ... {len(words) - CHARACTERS_MAX} more characters"


def join(*parts: Html, by: str = "") -> Html:
    """Several parts as one."""
    return Html(by.join(parts))


def badge(kind: str, words: str) -> Html:
    """A word in a frame; its kind, one of ours, gives the colour and never the meaning."""
    return Html(f'<span class="badge {kind}">{text(words)}</span>')


def link(place: str, inner: Html, *, kind: str = "", label: str = "") -> Html:
    """A link to another page of ours; without a place only its text."""
    if not place:
        return inner
    more = f' class="{kind}"' if kind else ""
    more += f' aria-label="{escape_text(label)}" title="{escape_text(label)}"' if label else ""
    return Html(f'<a href="{escape_text(place)}"{more}>{inner}</a>')


def paragraph(inner: Html, kind: str = "") -> Html:
    """Some sentences."""
    return Html(f'<p class="{kind}">{inner}</p>' if kind else f"<p>{inner}</p>")


def heading(level: int, inner: Html) -> Html:
    """A heading; 1 is the title."""
    return Html(f"<h{level}>{inner}</h{level}>")


def section(title: str, *parts: Html, level: int = 2) -> Html:
    """A part of a page with its heading."""
    return Html(f"<section>{heading(level, text(title))}{join(*parts)}</section>")


def details(title: str, inner: Html) -> Html:
    """Content that is collapsed until the reader opens it."""
    return Html(f"<details><summary>{text(title)}</summary>{inner}</details>")


def table(
    name: str,
    head: Sequence[Html],
    rows: Iterable[Sequence[Html]],
    *,
    kind: str = "",
) -> Html:
    """Rows below a head; the first cell of a row names it. A wide table scrolls by itself.

    A cell that begins with `<td` is taken as it is.
    """
    above = "".join(f'<th scope="col">{cell}</th>' for cell in head)
    below = ""
    for first, *others in rows:
        cells = (cell if cell.startswith("<td") else f"<td>{cell}</td>" for cell in others)
        below += f'<tr><th scope="row">{first}</th>{"".join(cells)}</tr>'
    more = f' class="{kind}"' if kind else ""
    label = escape_text(name)
    return Html(
        f'<div class="wide" tabindex="0" role="region" aria-label="{label}"><table{more}>'
        f"<thead><tr>{above}</tr></thead><tbody>{below}</tbody></table></div>"
    )


def facts(rows: Iterable[tuple[str, Html]]) -> Html:
    """Names and what they are."""
    inner = "".join(f"<div><dt>{text(name)}</dt><dd>{value}</dd></div>" for name, value in rows)
    return Html(f'<dl class="facts">{inner}</dl>')
