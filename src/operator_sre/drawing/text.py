"""Text for people: spans, figures and counts, and what is hidden made visible. Pure."""

from __future__ import annotations

from html import escape

from operator_protocols.domain.observation import Value

__all__ = ["escape_text", "figure", "plural", "span", "visible"]

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
