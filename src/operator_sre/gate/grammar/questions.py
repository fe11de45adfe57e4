"""`curl --get` puts its data into the address: what is asked then is a question like any other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import quote

import msgspec

from operator_sre.shell.words import Word

__all__ = ["as_question"]

_DATA = frozenset({"-d", "--data", "--data-ascii", "--data-raw", "--data-binary"})
_ENCODED = "--data-urlencode"


def as_question(words: Sequence[Word], options: Mapping[str, str]) -> Sequence[Word]:
    """The words with the data in each address, where the line asks for that and all is known.

    Elsewhere the words as they are, of which data is not known to only read.
    """
    rest: list[Word] = []
    places: list[int] = []
    data: list[str] = []
    asks, at = False, 0
    while at < len(words):
        word = words[at]
        text = word.text
        at += 1
        if text in _DATA or text == _ENCODED:
            part = _read_data(words[at], encoded=text == _ENCODED) if at < len(words) else None
            if part is None:
                return words
            data.append(part)
            at += 1
            continue
        rest.append(word)
        if text[:1] != "-":
            places.append(len(rest) - 1)
            continue
        read = _read_option(text, options)
        if read is None:
            return words
        asks, takes = asks or read[0], read[1]
        if takes and at < len(words):
            rest.append(words[at])
            at += 1
            if text == "--url":
                places.append(len(rest) - 1)
    if not (asks and data and places):
        return words
    for place in places:
        word = rest[place]
        if word.opaque or word.glob or "#" in word.text:
            return words
        sign = "&" if "?" in word.text else "?"
        rest[place] = msgspec.structs.replace(word, text=f"{word.text}{sign}{'&'.join(data)}")
    return rest


def _read_data(word: Word, *, encoded: bool) -> str | None:
    """The data as it stands in the address; None where it is a file, or not known."""
    name, sign, value = word.text.partition("=")
    if word.opaque or word.splits or word.glob or "@" in name:
        return None
    if not encoded:
        return quote(word.text, safe="=&%+:/,;.")
    return f"{quote(name)}={quote(value, safe='')}" if sign and name else quote(value or name)


def _read_option(text: str, options: Mapping[str, str]) -> tuple[bool, bool] | None:
    """Whether it asks for a GET, and whether the next word is its value; None if not known."""
    asks = text == "--get"
    if text[:2] == "--":
        kind = options.get(text.partition("=")[0])
        if kind is None or kind[:1] == "?":
            return None
        return asks, bool(kind) and "=" not in text
    for place, letter in enumerate(text[1:], start=2):
        kind = options.get(f"-{letter}")
        if kind is None or kind[:1] == "?":
            return None
        if kind:
            return asks, place == len(text)
        asks = asks or letter == "G"
    return asks, False
