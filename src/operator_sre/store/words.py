"""Words as the index has them: what people search for in commands, paths, logs and sentences."""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import msgspec

from operator_sre.chain import record_from

__all__ = ["Words", "parts_of", "text_of_body", "words_of"]

TEXT_CHARS_MAX = 16_384
WORD_CHARS_MAX = 128
# Letters, digits and what holds names, options and paths together, but no full stop at the end.
# The limit keeps a long line of dashes from being looked at again from each of them.
_LEADING_MAX = 64
_GLUE = "./-"
_WORD = re.compile(rf"[{_GLUE}]{{0,{_LEADING_MAX}}}+\w++(?:[{_GLUE}]++\w++)*+")
_PIECE = re.compile(r"[^\W_]{2,}")
# The same for ASCII: what may be in a word in lower case, and blanks for the rest.
_WORDLY = frozenset(string.ascii_letters + string.digits + "_" + _GLUE)
_PLAIN = bytes(ord(chr(code).lower()) if chr(code) in _WORDLY else 32 for code in range(256))

Words = list[str]


def words_of(text: str) -> Words:
    """The words of a text in their order, in lower case and without accents.

    `ls -la /var/log/app.log.` has the words `ls`, `-la` and `/var/log/app.log`.
    """
    short = text[:TEXT_CHARS_MAX]
    if short.isascii():
        # Nearly always, and every entry is asked: several times as fast as the expression.
        plain = f"{short} ".encode().translate(_PLAIN).decode()
        if ". " in plain:
            plain = plain.replace(". ", "  ")  # the ends of sentences
        runs = plain.split()
        if not runs or len(max(runs, key=len)) <= _LEADING_MAX:
            if ". " in plain or "- " in plain or "/ " in plain:
                return [word for run in runs if (word := run.rstrip(_GLUE))]
            return runs
    else:
        apart = unicodedata.normalize("NFKD", short)
        short = "".join(one for one in apart if not unicodedata.combining(one)).casefold()
    words = _WORD.findall(short.lower())
    return [word[:WORD_CHARS_MAX].rstrip(_GLUE) for word in words]


def parts_of(words: Iterable[str]) -> set[str]:
    """What is inside of words, so that `app.log`, `force` and `restart` are found as well."""
    found: set[str] = set()
    for word in words:
        if not word.isalnum():
            found.update(_parts(word))
    return found


@lru_cache(maxsize=8192)
def _parts(word: str) -> tuple[str, ...]:
    pieces: list[str] = _PIECE.findall(word)
    if "/" in word:
        names = (name.lstrip(".-") for name in word.split("/"))
        pieces += [name for name in names if len(name) > 1 and name != word]
    return tuple(pieces)


class _Who(msgspec.Struct):
    id: str


class _Said(msgspec.Struct):
    """What of an entry is text."""

    kind: str
    run: str
    actor: _Who
    payload: Any


_SAID = msgspec.json.Decoder(_Said)


def text_of_body(body: bytes | None) -> str:
    """The text of an entry: its kind, its run, who did it, and every value in its payload."""
    if body is None:
        return ""
    try:
        said = _said(bytes(body))
        found = [said.kind, said.run, said.actor.id]
        _add_values(found, said.payload)
        return " ".join(found)
    except (ValueError, TypeError, RecursionError):
        return ""  # damaged: verifying tells, searching goes on


def _said(body: bytes) -> _Said:
    try:
        return _SAID.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return msgspec.convert(record_from(body), _Said)  # perhaps only a lone surrogate


def _add_values(found: list[str], payload: Any) -> None:
    """Every string and number in it, in their order, until there is enough."""
    waiting = [payload]
    left = TEXT_CHARS_MAX
    while waiting and left > 0:
        value = waiting.pop()
        kind = type(value)  # what a decoder makes has no other classes than these
        if kind is str:
            found.append(value)
            left -= len(value)
        elif kind is dict:
            waiting.extend(reversed(value.values()))
        elif kind is list:
            waiting.extend(reversed(value))
        elif kind is not bool and value is not None:
            found.append(str(value))
