"""Text from outside, shown so that no terminal obeys it."""

from __future__ import annotations

__all__ = ["clean"]


def clean(text: str) -> str:
    """Text without anything a terminal would obey; what it hides is shown instead."""
    if text.isprintable():
        return text
    return "".join(
        letter
        if letter.isprintable() or letter == "\t"
        else letter.encode("unicode_escape").decode()
        for letter in text
    )
