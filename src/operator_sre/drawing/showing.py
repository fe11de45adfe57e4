"""Text from outside as text that is seen and does nothing. Pure."""

from __future__ import annotations

from html import escape

__all__ = ["escaped", "visible"]


def visible(text: str, *, lines: bool = False) -> str:
    """What no terminal and no page obeys: what is hidden is shown; line ends only with `lines`."""
    if text.isprintable():
        return text
    kept = "\n\t" if lines else "\t"
    return "".join(
        one if one.isprintable() or one in kept else one.encode("unicode_escape").decode()
        for one in text.replace("\r\n", "\n")
    )


def escaped(text: str, *, lines: bool = False) -> str:
    """The same for a page, in an element or in the quotes of an attribute."""
    return escape(visible(text, lines=lines), quote=True)
