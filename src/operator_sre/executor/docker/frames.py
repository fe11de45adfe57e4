"""What a container says, as an engine sends it: frames of stdout and stderr, or plain bytes."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from operator_sre.executor.docker.engine import EngineError

__all__ = ["Frames"]

_HEADER = struct.Struct(">B3xL")
STDOUT, STDERR = 1, 2


class Frames:
    """Takes the stream apart. It keeps at most a header: a frame of any size passes in pieces."""

    def __init__(self, *, is_plain: bool) -> None:
        self._is_plain = is_plain
        self._header = b""
        self._number = STDOUT
        self._left = 0

    def feed(self, chunk: bytes) -> Iterator[tuple[int, bytes]]:
        """The pieces of these bytes, each with 1 for stdout and 2 for stderr."""
        if self._is_plain:
            if chunk:
                yield STDOUT, chunk
            return
        while chunk:
            if self._left:
                piece, chunk = chunk[: self._left], chunk[self._left :]
                self._left -= len(piece)
                yield self._number, piece
                continue
            missing = _HEADER.size - len(self._header)
            self._header, chunk = self._header + chunk[:missing], chunk[missing:]
            if len(self._header) == _HEADER.size:
                number, self._left = _HEADER.unpack(self._header)
                if number > STDERR or self._header[1:4] != b"\0\0\0":
                    raise EngineError(
                        "The service at this address does not answer as Docker does.", sent=True
                    )
                # Stdin frames count as stdout, as in the engine's own command line.
                self._number, self._header = number or STDOUT, b""
