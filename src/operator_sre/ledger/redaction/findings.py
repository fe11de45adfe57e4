"""A finding of a detector, the patterns that detectors use, and the marker that replaces it."""

from __future__ import annotations

import functools
import hmac
import importlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

__all__ = [
    "Finding",
    "Look",
    "Pattern",
    "any_of",
    "collapse",
    "detector",
    "digest",
    "each",
    "merge",
    "replace",
    "without_markers",
]


class _Match(Protocol):
    def span(self, group: int = 0) -> tuple[int, int]: ...


class _Compiled(Protocol):
    def finditer(self, text: bytes, pos: int, endpos: int) -> Iterator[_Match]: ...
    def fullmatch(self, text: bytes) -> _Match | None: ...
    def match(self, text: bytes, pos: int, endpos: int) -> _Match | None: ...
    def search(self, text: bytes, pos: int, endpos: int) -> _Match | None: ...


@functools.cache
def _compile(source: bytes) -> _Compiled:
    # Loaded here, not above: most commands never redact, and start without this library. It has
    # no types, so the protocols above say what we use of it.
    re2: Any = importlib.import_module("re2")
    options = re2.Options()
    # One byte is one character: text that is not valid UTF-8 is then nothing special.
    options.encoding = re2.Options.Encoding.LATIN1
    options.log_errors = False
    compiled: _Compiled = re2.compile(source, options)
    return compiled


class Pattern:
    """One RE2 pattern over bytes. It has no groups: what matters is where it begins and ends."""

    __slots__ = ("source",)

    def __init__(self, source: bytes) -> None:
        self.source = source

    def spans(
        self, data: bytes, start: int = 0, end: int | None = None
    ) -> Iterator[tuple[int, int]]:
        """Where it matches, left to right, without overlaps."""
        last = len(data) if end is None else end
        for match in _compile(self.source).finditer(data, start, last):
            yield match.span()

    def at(self, data: bytes, start: int, end: int | None = None) -> int:
        """The end of the match that begins exactly at `start`, or -1."""
        match = _compile(self.source).match(data, start, len(data) if end is None else end)
        return -1 if match is None else match.span()[1]

    def first(self, data: bytes, start: int = 0, end: int | None = None) -> tuple[int, int] | None:
        """The first match, or None."""
        match = _compile(self.source).search(data, start, len(data) if end is None else end)
        return None if match is None else match.span()

    def fits(self, value: bytes) -> bool:
        """Whether it matches the whole value."""
        return _compile(self.source).fullmatch(value) is not None


def any_of(*alternatives: bytes, flags: bytes = b"i") -> Pattern:
    """A pattern for one of several shapes, each written on a line of its own."""
    return Pattern(b"(?" + flags + b":" + b"|".join(alternatives) + b")")


HASH_DIGITS = 8
_MARKER = Pattern(rb"\[REDACTED:[a-z0-9_]+:[0-9a-f]{8}\]")


# Reads one match of a pattern, from `start` to `end`.
Look: TypeAlias = Callable[[bytes, int, int], "Iterable[Finding]"]


@dataclass(frozen=True, slots=True)
class Finding:
    """A secret's place; in what detectors return, places are bytes."""

    start: int
    end: int
    kind: str
    # The secret itself where its text is encoded (`%40` in a URL), so that equal ones stay equal.
    plain: bytes | None = field(default=None, repr=False)
    # A number in JSON has no quotes, and its marker needs them: these.
    quote: bytes = b""


def each(data: bytes, pattern: Pattern, look: Look) -> Iterator[Finding]:
    """What `look` finds at each match of a pattern.

    Matches inside of a finding are passed over: a value that is as long as the text would
    otherwise be read again from each of them.
    """
    done = 0
    for start, end in pattern.spans(data):
        if end > done:
            for found in look(data, start, end):
                done = max(done, found.end)
                yield found


def detector(pattern: Pattern) -> Callable[[Look], Callable[[bytes], Iterator[Finding]]]:
    """Turn a reader of one match into a detector for a whole text."""

    def wrap(look: Look) -> Callable[[bytes], Iterator[Finding]]:
        @functools.wraps(look)
        def find(data: bytes) -> Iterator[Finding]:
            return each(data, pattern, look)

        return find

    return wrap


def digest(key: bytes, secret: bytes) -> str:
    """The short keyed hash by which equal secrets are recognised."""
    return hmac.digest(key, secret, "sha256").hex()[:HASH_DIGITS]


def without_markers(data: bytes) -> bytes:
    """The data with NULs in the place of markers: no name, no value, and no change of place."""
    if b"[REDACTED:" not in data:
        return data
    pieces: list[bytes] = []
    at = 0
    for start, end in _MARKER.spans(data):
        pieces += [data[at:start], bytes(end - start)]
        at = end
    return b"".join([*pieces, data[at:]])


def collapse(text: str) -> str:
    """The text with markers in the short form that the contract asks for: `[REDACTED]`."""
    data = text.encode("utf-8", "surrogatepass")
    pieces: list[bytes] = []
    at = 0
    for start, end in _MARKER.spans(data):
        pieces += [data[at:start], b"[REDACTED]"]
        at = end
    return b"".join([*pieces, data[at:]]).decode("utf-8", "surrogatepass")


def merge(findings: Iterable[Finding]) -> list[Finding]:
    """Findings in order and apart: touching findings become one, named by the longest of them.

    Of two that are equally long the later in the list wins, and formats are found last: a token
    whose maker is known is called by it, whatever the name it was assigned to.
    """
    merged: list[Finding] = []
    for finding in sorted(findings, key=lambda found: (found.start, -found.end)):
        if not merged or finding.start > merged[-1].end:
            merged.append(finding)
            continue
        last = merged[-1]
        if (finding.start, finding.end) == (last.start, last.end):
            merged[-1] = Finding(
                finding.start,
                finding.end,
                finding.kind,
                finding.plain or last.plain,
                finding.quote or last.quote,
            )
        elif finding.end > last.end:
            longest = max(last, finding, key=lambda found: found.end - found.start)
            merged[-1] = Finding(last.start, finding.end, longest.kind)
    return merged


def replace(data: bytes, findings: Sequence[Finding], key: bytes) -> tuple[bytes, bytes]:
    """The data with a marker in the place of each finding, and the lines that changed.

    The findings must be merged.
    """
    pieces: list[bytes] = []
    at = 0
    for finding in findings:
        secret = data[finding.start : finding.end] if finding.plain is None else finding.plain
        marker = f"[REDACTED:{finding.kind}:{digest(key, secret)}]".encode()
        pieces += [data[at : finding.start], finding.quote, marker, finding.quote]
        at = finding.end
    replaced = b"".join([*pieces, data[at:]])
    return replaced, b"\n".join(line for line in replaced.split(b"\n") if b"[REDACTED:" in line)
