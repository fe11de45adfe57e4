"""Words as the index has them: what people search for in commands, paths, logs and sentences."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

from operator_sre.chain import record_from

__all__ = ["Words", "parts_of", "text_of_body", "words_of"]

TEXT_CHARS_MAX = 16_384
WORD_CHARS_MAX = 128
# Letters, digits and what holds names, options and paths together, but no full stop at the end.
# The limit keeps a long line of dashes from being looked at again from each of them.
_WORD = re.compile(r"[./-]{0,64}+\w++(?:[./-]++\w++)*+")
_PIECE = re.compile(r"[^\W_]{2,}")

Words = list[str]


def words_of(text: str) -> Words:
    """The words of a text in their order, in lower case and without accents.

    `ls -la /var/log/app.log.` has the words `ls`, `-la` and `/var/log/app.log`.
    """
    short = text[:TEXT_CHARS_MAX]
    if not short.isascii():
        apart = unicodedata.normalize("NFKD", short)
        short = "".join(one for one in apart if not unicodedata.combining(one)).casefold()
    words = _WORD.findall(short.lower())
    if max(map(len, words), default=0) > WORD_CHARS_MAX:
        return [word[:WORD_CHARS_MAX].rstrip("./-") for word in words]
    return words


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


def text_of_body(body: bytes | None) -> str:
    """The text of an entry: its kind, its run, who did it, and every value in its payload."""
    if body is None:
        return ""
    try:
        record = record_from(bytes(body))
        found = [record["kind"], record["run"], record["actor"]["id"]]
        _add_values(found, record["payload"])
        return " ".join(found)
    except (ValueError, TypeError, KeyError, RecursionError):
        return ""  # damaged: verifying tells, searching goes on


def _add_values(found: list[str], payload: object) -> None:
    """Every string and number in it, in their order, until there is enough."""
    waiting = [payload]
    left = TEXT_CHARS_MAX
    while waiting and left > 0:
        value = waiting.pop()
        if isinstance(value, str):
            found.append(value)
            left -= len(value)
        elif isinstance(value, dict):
            waiting.extend(reversed(value.values()))
        elif isinstance(value, list):
            waiting.extend(reversed(value))
        elif value is not None and value is not True and value is not False:
            found.append(str(value))
