"""Keep the head and the tail of a stream in a fixed number of bytes, however long it gets."""

from __future__ import annotations

from operator_protocols.domain.excerpt import find_start, keep_first, note_omission

__all__ = ["Capture"]

# Below this a note about what was left out would take more room than the output.
NOTE_BYTES_MAX = 48
NOTED_BYTES_MIN = 4 * NOTE_BYTES_MAX


class Capture:
    """Bounded while it is fed, not afterwards."""

    def __init__(self, bytes_max: int) -> None:
        room = bytes_max - (NOTE_BYTES_MAX if bytes_max >= NOTED_BYTES_MIN else 0)
        self._bytes_max = bytes_max
        self._head_max = (room + 1) // 2
        self._tail_max = bytes_max - self._head_max
        self._head = bytearray()
        self._tail = bytearray()
        self.seen = 0

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes of the stream."""
        self.seen += len(chunk)
        free = self._head_max - len(self._head)
        if free > 0:
            self._head += chunk[:free]
            chunk = chunk[free:]
        if not chunk or not self._tail_max:
            return
        if len(chunk) >= self._tail_max:
            self._tail = bytearray(chunk[-self._tail_max :])
            return
        del self._tail[: max(0, len(self._tail) + len(chunk) - self._tail_max)]
        self._tail += chunk

    @property
    def truncated(self) -> bool:
        """More was seen than could be kept."""
        return self.seen > self._bytes_max

    def kept_bytes(self) -> bytes:
        """What was kept, never more than the limit; a note stands where bytes were left out.

        Both ends are whole lines, so that a secret is never kept without the name before it.
        """
        if not self.truncated:
            return bytes(self._head + self._tail)
        head = keep_first(bytes(self._head) + b"?", len(self._head))
        if self._bytes_max < NOTED_BYTES_MIN:
            return head
        tail = bytes(self._tail[NOTE_BYTES_MAX:])
        tail = tail[find_start(tail, inside=True) :]
        return head + note_omission(self.seen - len(head) - len(tail)) + tail
