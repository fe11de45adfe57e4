"""Reading the value that begins at a place in text: quoted, escaped, or bare."""

from __future__ import annotations

import re
from dataclasses import dataclass

from operator_sre.ledger.redaction.pattern import Pattern

__all__ = ["Value", "closing", "line_end", "line_start", "read_near", "read_quoted", "read_value"]

# How far a closing quote is looked for. A longer value is still taken, up to the next blank.
QUOTED_BYTES_MAX = 16_384
_QUOTES = b"\"'`"
# Backslashes before a quote, by how often the text was put into a string: 0, 1, 3, 7.
_DEPTHS = (0, 1, 3, 7)
# One class of characters is linear in any engine, and this one starts quicker.
_BARE = re.compile(rb"[^\x00-\x20\x7f\"'`<>]+")
_CUTTING = re.compile(rb"[\\&;,|%)]")
# Where a bare value ends before the next blank: `a=1&b=2`, `a=1;b=2`, `a=1,b=2`, "a=1\nb=2".
_CUT = Pattern(
    rb"\\+[nrt]|\\+u00(?:26|3[ce]|22|27)|&(?:amp|quot|lt|gt|#\d+);|&&|\|\||&[\w.%\[\]-]+="
    rb"|[;,](?:(?:[A-Z]\w* ){0,2}[\w.-]+[=:]|[\[{(])|%26[\w.%-]+%3[dD]|\);|%22|%27"
)
# A value is looked at in windows that double, so that a text of nothing but assignments without
# a blank is still read once, not once for each of them.
_WINDOW_BYTES = 512
_BEYOND_BYTES = 40
_PAIRS = {ord(")"): ord("("), ord("]"): ord("["), ord("}"): ord("{")}


@dataclass(frozen=True, slots=True)
class Value:
    """A value's place, and how it is quoted."""

    start: int
    end: int
    quote: bytes = b""
    # Backslashes before its quotes.
    depth: int = 0

    def of(self, data: bytes) -> bytes:
        """The value as it stands in the text."""
        return data[self.start : self.end]

    def plain(self, data: bytes) -> bytes | None:
        """The value without its escapes, when it is quoted and has some."""
        raw = data[self.start : self.end]
        if self.quote != b'"' or b"\\" not in raw:
            return None
        escape = b"\\" * (self.depth + 1)
        return raw.replace(escape * 2, b"\0").replace(escape, b"").replace(b"\0", b"\\")


def line_start(data: bytes, at: int, most: int = 512) -> int:
    """Where the line of `at` begins, but not more than `most` bytes back."""
    return max(data.rfind(b"\n", max(0, at - most), at) + 1, at - most, 0)


def line_end(data: bytes, at: int, most: int) -> int:
    """Where the line of `at` ends, but not more than `most` bytes on."""
    end = data.find(b"\n", at, at + most)
    return min(at + most, len(data)) if end < 0 else end


def read_value(data: bytes, at: int) -> Value | None:
    """The value that begins at `at`, within its line; None when there is nothing."""
    quoted = read_quoted(data, at)
    if quoted is not None:
        return quoted
    if data[at : at + 1] in (b'"', b"'", b"`"):
        at += 1  # never closed, as in a line that was cut short: what is there counts
    end = _bare_end(data, at)
    return None if end < 0 else _trimmed(data, at, end)


def read_near(data: bytes, at: int) -> Value | None:
    """The same, but None when it is long: then no noun of a sentence is about it."""
    value = read_value(data[at : at + _WINDOW_BYTES], 0)
    if value is None or value.end == _WINDOW_BYTES:
        return None
    return Value(at + value.start, at + value.end, value.quote, value.depth)


def read_quoted(data: bytes, at: int) -> Value | None:
    """The quoted value that begins at `at`; None when there is no quote or it never closes."""
    quote = at
    while data[quote : quote + 1] == b"\\" and quote - at < 8:
        quote += 1
    mark = data[quote : quote + 1]
    if not mark or mark not in _QUOTES or quote - at not in _DEPTHS:
        return None
    end = closing(data, quote + 1, mark, quote - at)
    return None if end < 0 else Value(quote + 1, end, mark, quote - at)


def closing(data: bytes, start: int, mark: bytes, depth: int) -> int:
    """Where the string that began before `start` ends, before the backslashes of its quote."""
    last = line_end(data, start, QUOTED_BYTES_MAX)
    at = data.find(mark, start, last)
    while at >= 0:
        slashes = at
        while slashes > start and data[slashes - 1] == 0x5C:
            slashes -= 1
        # Inside a string every backslash is doubled, so a quote of the string's own level has
        # `depth` of them left over.
        is_own = (at - slashes) % (2 * depth + 2) == depth
        # YAML and SQL write a quote in a string as two.
        is_doubled = mark == b"'" and not depth and data[at + 1 : at + 2] == mark
        if is_own and not (is_doubled and at > start):
            return at - depth
        at = data.find(mark, at + 1 + is_doubled, last)
    return -1


def _bare_end(data: bytes, at: int) -> int:
    size = _WINDOW_BYTES
    while True:
        last = min(at + size, len(data))
        bare = _BARE.match(data, at, last)
        if bare is None:
            return -1
        end = bare.end()
        if _CUTTING.search(data, at, end):
            # `;User Id=` has a blank in it, so the search looks a little beyond the value.
            cut = _CUT.first(data, at, min(end + _BEYOND_BYTES, len(data)))
            if cut and cut[0] < end:
                return cut[0]
        if end < last or last == len(data):
            return end
        size *= 2


def _trimmed(data: bytes, start: int, end: int) -> Value | None:
    """A bare value without brackets that close nothing and the end of a sentence."""
    if data[end : end + 1] in (b'"', b"'", b"`"):
        while end > start and data[end - 1] == 0x5C:
            end -= 1
    for _ in range(4):
        last = data[end - 1]
        opener = _PAIRS.get(last)
        is_loose = opener is not None and data.count(opener, start, end) < data.count(
            last, start, end
        )
        if end == start or not (last in b",;:." or is_loose):
            break
        end -= 1
    return Value(start, end) if end > start else None
