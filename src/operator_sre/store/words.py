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
PART_CHARS_MIN = 2
# Letters, digits and what holds names, options and paths together.
_WORD = re.compile(r"[\w./-]+")
_JOINTS = re.compile(r"[_./-]+")

Words = list[str]


def words_of(text: str) -> Words:
    """The words of a text in their order, in lower case and without accents.

    `ls -la /var/log/app.log.` has the words `ls`, `-la` and `/var/log/app.log`.
    """
    short = text[:TEXT_CHARS_MAX]
    if not short.isascii():
        apart = unicodedata.normalize("NFKD", short)
        short = "".join(one for one in apart if not unicodedata.combining(one)).casefold()
    found = (word.rstrip("./-")[:WORD_CHARS_MAX] for word in _WORD.findall(short.lower()))
    return [word for word in found if word]


def parts_of(words: Iterable[str]) -> set[str]:
    """What is inside of words, so that `app.log`, `force` and `restart` are found as well."""
    found: set[str] = set()
    for word in set(words):
        if not word.isalnum():
            found |= _parts(word)
    return found


@lru_cache(maxsize=8192)
def _parts(word: str) -> frozenset[str]:
    names = {name.strip("./-") for name in word.split("/")}
    pieces = {*names, *_JOINTS.split(word)}
    return frozenset(part for part in pieces if len(part) >= PART_CHARS_MIN and part != word)


def text_of_body(body: bytes | None) -> str:
    """The text of an entry: its kind, who did it, and every value in its payload."""
    if body is None:
        return ""
    try:
        record = record_from(bytes(body))
        head = (record["kind"], record["run"], record["actor"]["id"])
        return " ".join((*head, *_values(record["payload"])))
    except (ValueError, TypeError, KeyError, RecursionError):
        return ""  # damaged: verifying tells, searching goes on


def _values(payload: object) -> list[str]:
    """Every string and number in it; a nested payload is no deeper than its writer could go."""
    found: list[str] = []
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
        elif value is not None and not isinstance(value, bool):
            found.append(str(value))
            left -= len(found[-1])
    return found
