"""Patterns that match in linear time whatever the text: RE2 over bytes, compiled at first use."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterator
from typing import Any, Protocol

__all__ = ["Pattern", "any_of"]


class _Match(Protocol):
    def span(self, group: int = 0) -> tuple[int, int]: ...


class _Compiled(Protocol):
    def finditer(self, text: bytes, pos: int, endpos: int) -> Iterator[_Match]: ...
    def fullmatch(self, text: bytes) -> _Match | None: ...
    def match(self, text: bytes, pos: int, endpos: int) -> _Match | None: ...
    def search(self, text: bytes, pos: int, endpos: int) -> _Match | None: ...


@functools.cache
def _compiled(source: bytes) -> _Compiled:
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
        for match in _compiled(self.source).finditer(data, start, last):
            yield match.span()

    def at(self, data: bytes, start: int, end: int | None = None) -> int:
        """The end of the match that begins exactly at `start`, or -1."""
        match = _compiled(self.source).match(data, start, len(data) if end is None else end)
        return -1 if match is None else match.span()[1]

    def first(self, data: bytes, start: int = 0, end: int | None = None) -> tuple[int, int] | None:
        """The first match, or None."""
        match = _compiled(self.source).search(data, start, len(data) if end is None else end)
        return None if match is None else match.span()

    def fits(self, value: bytes) -> bool:
        """Whether it matches the whole value."""
        return _compiled(self.source).fullmatch(value) is not None


def any_of(*alternatives: bytes, flags: bytes = b"i") -> Pattern:
    """A pattern for one of several shapes, each written on a line of its own."""
    return Pattern(b"(?" + flags + b":" + b"|".join(alternatives) + b")")
