"""Text from outside, shown so that no terminal obeys it."""

from __future__ import annotations

__all__ = ["clean"]


def clean(text: str) -> str:
    """Text without anything a terminal would obey; what it hides is shown instead."""
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() or one == "\t" else one.encode("unicode_escape").decode()
        for one in text
    )
