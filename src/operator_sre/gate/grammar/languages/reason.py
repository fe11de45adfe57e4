"""The sentence that says why a program is not proven to only read. One shape for all languages."""

from __future__ import annotations

import re

__all__ = ["TEXT_CHARACTERS_MAX", "TOO_LONG", "quote_word"]

TEXT_CHARACTERS_MAX = 4096
TOO_LONG = "It is too long to be understood."

_WORD_CHARACTERS_MAX = 32
_HIDDEN = re.compile(r"[^\x20-\x7e]")


def quote_word(word: str) -> str:
    """A word in quotes for a sentence: printable, short, on one line."""
    clipped = word[:_WORD_CHARACTERS_MAX] + ("..." if len(word) > _WORD_CHARACTERS_MAX else "")
    return f"'{_HIDDEN.sub('?', clipped)}'"
