"""Texts from outside that try to instruct whoever reads them: found and reported. Pure.

It is a net, not a wall: what keeps the world safe from a mind that follows such a text is the gate.
Patterns match in linear time whatever the text, and no more than a bounded part of it is read.
"""

from __future__ import annotations

import base64
import binascii
import functools
import importlib
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Protocol

from operator_sre.agent.suspicious import COMMAND_LINE, RULES

__all__ = ["Suspicion", "folded", "suspicions"]

TEXT_CHARS_MAX = 20_000
ALL_CHARS_MAX = 100_000
FOUND_MAX = 20
EXCERPT_CHARS_MAX = 140
ENCODED_MAX = 16
ENCODED_CHARS_MAX = 4_096
HIDDEN_MIN = 4
STRANGE_MAX = 0.05
WHERE_CHARS_MAX = 120

# Letters that look like others, so that a word is not found by how it is written.
_LOOKALIKES = str.maketrans(
    "абвеёзикмнорстухіјѕԁһԛԝАВЕЗКМНОРСТУХІЈЅαβεικνορτυχΑΒΕΖΗΙΚΜΝΟΡΤΥΧıɑɡ",
    "abbee3ukmhopctyxijsdhqwABE3KMHOPCTYXIJSabeikvoptuxABEZHIKMNOPTYXiag",
)
# Letters that nobody sees, each an ASCII letter moved to where no font draws it; and what
# separates words.
_SEEN = {
    **{0xE0000 + code: chr(code) for code in range(0x20, 0x7F)},
    **dict.fromkeys((*range(0x2010, 0x202A), *range(0x2030, 0x2060)), " "),
}
_PRINTABLE = bytes([*range(0x20, 0x7F), 0x09, 0x0A])
_TURNED = re.compile("[\u202a-\u202e\u2066-\u2069]")
_TAGGED = re.compile("[\U000e0020-\U000e007e]")
_ENCODED = re.compile(r"[A-Za-z0-9+/]{24,4096}={0,2}")
_HEXADECIMAL = re.compile(r"(?:[0-9a-fA-F]{2}){16,2048}")
# What could be a secret, or a part of one, is not told a second time.
_LONG = re.compile(r"(?=\S*\d)\S{8,}|\S{20,}")


@dataclass(frozen=True, slots=True)
class Suspicion:
    """A text that tries to instruct: where it stands, what it tries, and the words that say so."""

    where: str
    rule: str
    excerpt: str


class _Match(Protocol):
    def span(self, group: int = 0) -> tuple[int, int]: ...


class _Compiled(Protocol):
    def finditer(self, text: bytes) -> Iterator[_Match]: ...
    def search(self, text: bytes) -> _Match | None: ...


def suspicions(texts: Iterable[tuple[str, str]]) -> tuple[Suspicion, ...]:
    """What is suspicious in these texts, each given with where it stands.

    One for each text and rule, and at most FOUND_MAX.
    """
    told = _bounded(texts)
    lines = [folded(text) for _, text in told]
    found = {(at, "hidden"): "" for at, (_, text) in enumerate(told) if _is_hidden(text)}
    for at, rule, words in _matches(lines):
        found.setdefault((at, rule), words)
    for at, words in _encoded([text for _, text in told]):
        found.setdefault((at, "encoded"), words)
    ordered = sorted(found.items(), key=lambda one: one[0][0])
    return tuple(
        Suspicion(folded(told[at][0])[:WHERE_CHARS_MAX], rule, words)
        for (at, rule), words in ordered[:FOUND_MAX]
    )


def folded(text: str) -> str:
    """The text in one line of plain letters, however it was written."""
    if not text.isascii():
        seen = unicodedata.normalize("NFKD", text.translate(_SEEN)).translate(_LOOKALIKES)
        text = seen.encode("ascii", "ignore").decode()  # accents and all that is invisible go
    return " ".join(text.replace("\\n", " ").replace("\\r", " ").replace("\x00", " ").split())


def _bounded(texts: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """As much of the texts as is read: of a long one its beginning and its end."""
    told: list[tuple[str, str]] = []
    left = ALL_CHARS_MAX
    for where, text in texts:
        if len(text) > TEXT_CHARS_MAX:
            text = f"{text[: TEXT_CHARS_MAX // 2]} {text[-TEXT_CHARS_MAX // 2 :]}"
        if 0 < len(text) <= left:
            left -= len(text)
            told.append((where, text))
    return told


def _is_hidden(text: str) -> bool:
    if text.isascii():
        return False
    return bool(_TURNED.search(text)) or len(_TAGGED.findall(text)) >= HIDDEN_MIN


def _matches(lines: Sequence[str]) -> Iterator[tuple[int, str, str]]:
    """Which line matches which rule, and how. All lines are looked through at once."""
    data = "\n".join(lines).encode("ascii", "replace")
    if _compiled(_any()).search(data) is None:
        return
    starts = [0, *accumulate(len(line) + 1 for line in lines)]
    for rule, source in RULES.items():
        for match in _compiled(source).finditer(data):
            start, end = match.span()
            # The first letter may be the end of the line before.
            yield bisect_right(starts, start + 1) - 1, rule, _excerpt(data[start:end].decode())


def _encoded(texts: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Which text hides one that is suspicious, encoded."""
    decoded: list[tuple[int, str]] = []
    for at, text in enumerate(texts):
        for pattern in (_ENCODED, _HEXADECIMAL):
            for match in pattern.finditer(text):
                if len(decoded) < ENCODED_MAX and (plain := _decoded(match[0])):
                    decoded.append((at, plain))
    lines = [folded(plain) for _, plain in decoded]
    for at, _, words in _matches(lines):
        yield decoded[at][0], words
    for (at, _), line in zip(decoded, lines, strict=True):
        if _compiled(COMMAND_LINE).search(line.encode("ascii", "replace")):
            yield at, _excerpt(line)


def _decoded(text: str) -> str:
    """The text behind an encoded one; "" when there is none."""
    text = text[:ENCODED_CHARS_MAX]
    try:
        if _HEXADECIMAL.fullmatch(text):
            data = bytes.fromhex(text)
        else:
            bare = text.rstrip("=")
            data = base64.b64decode(bare[: len(bare) - (len(bare) % 4 == 1)] + "==")
    except (ValueError, binascii.Error):
        return ""
    strange = len(data.translate(None, _PRINTABLE))
    return data.decode("ascii", "replace") if strange <= STRANGE_MAX * len(data) else ""


def _excerpt(words: str) -> str:
    return _LONG.sub("...", words.strip())[:EXCERPT_CHARS_MAX]


@functools.cache
def _any() -> str:
    return "|".join(f"(?:{source})" for source in RULES.values())


@functools.cache
def _compiled(source: str) -> _Compiled:
    # Loaded here, not above: whoever only watches starts without this library. It has no types.
    re2: Any = importlib.import_module("re2")
    options = re2.Options()
    options.case_sensitive = False
    options.encoding = re2.Options.Encoding.LATIN1
    options.log_errors = False
    compiled: _Compiled = re2.compile(source.encode(), options)
    return compiled
