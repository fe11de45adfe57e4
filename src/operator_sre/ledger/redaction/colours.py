"""Text without the escape sequences of terminals, and where each of its bytes was."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator

from operator_sre.ledger.redaction.finding import Finding
from operator_sre.ledger.redaction.pattern import Pattern

__all__ = ["Uncoloured"]

# As bytes, and as JSON, shells, syslog and Python write them.
_SEQUENCE = Pattern(rb"(?:\x1b|\\u001[bB]|\\x1[bB]|\\033|\\e|#033)\[[0-9;]{0,16}[A-Za-z]")


class Uncoloured:
    """A text in which a name and its value stand beside each other, whatever colour they have."""

    __slots__ = ("_offsets", "_starts", "data")

    def __init__(self, data: bytes) -> None:
        self.data = data
        # Where each piece begins here, and how many bytes were dropped before it.
        self._starts: list[int] = [0]
        self._offsets: list[int] = [0]
        if _SEQUENCE.first(data) is None:
            return
        pieces: list[bytes] = []
        at = size = 0
        for start, end in _SEQUENCE.spans(data):
            pieces.append(data[at:start])
            size += start - at
            self._starts.append(size)
            self._offsets.append(end - size)
            at = end
        self.data = b"".join([*pieces, data[at:]])

    def restore(self, found: Iterable[Finding]) -> Iterator[Finding]:
        """The findings where they stand in the text with its colours."""
        for one in found:
            if len(self._starts) == 1:
                yield one
                continue
            start = one.start + self._offset(one.start)
            end = one.end - 1 + self._offset(one.end - 1) + 1
            yield Finding(
                start, end, one.kind, one.plain or self.data[one.start : one.end], one.quote
            )

    def _offset(self, at: int) -> int:
        return self._offsets[bisect.bisect_right(self._starts, at) - 1]
