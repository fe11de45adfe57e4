"""Splitting a command line that is nothing but plain words. Everything else is not understood."""

from __future__ import annotations

import re

__all__ = ["fragments_of", "words_of"]

COMMAND_BYTES_MAX = 4096
# Bare words hold no character that any shell treats specially; a quoted word holds anything
# printable but the quote. So these words are exactly what the shell will pass on.
_WORD = r"(?:[A-Za-z0-9_./:=,+@%-]+|'[\x20-\x26\x28-\x7e]*')"
_LINE = re.compile(rf" *{_WORD}(?: +{_WORD})* *")
_EACH = re.compile(_WORD)
_APART = re.compile(r"[\s;|&()<>`$\"'{}\\]+")


def words_of(command: str) -> tuple[str, ...] | None:
    """The words of a plain command, or None when it is anything more than that."""
    if len(command) > COMMAND_BYTES_MAX or not _LINE.fullmatch(command):
        return None
    words = tuple(word.strip("'") if word[0] == "'" else word for word in _EACH.findall(command))
    return None if "=" in words[0] else words


def fragments_of(command: str) -> tuple[str, ...]:
    """Everything that could be a word in a line that is not understood, for explaining it."""
    return tuple(part for part in _APART.split(command[:COMMAND_BYTES_MAX]) if part)
