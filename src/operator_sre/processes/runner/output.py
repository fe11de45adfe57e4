"""The output of one job on its way to disk: each stream in a file, and the order of their parts."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import logging
import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

from operator_sre.processes.capture import Capture

__all__ = ["KEPT_BYTES_MAX", "ORDER", "SPOOL_BYTES_MAX", "Follower", "Output", "parts_of"]

# Of each stream: what a result shows, and what is kept on disk for a while.
KEPT_BYTES_MAX = 64 * 1024
SPOOL_BYTES_MAX = 100 * 1024 * 1024
READ_BYTES = 64 * 1024
PART = struct.Struct("<BI")
PARTS_MAX = 500_000
ORDER = "order"

log = logging.getLogger(__name__)


class Output:
    """Both streams of one job, bounded in memory and on disk."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.streams = {1: Stream(folder / "1"), 2: Stream(folder / "2")}
        self._order: int | None = None
        self._parts = 0

    def feed(self, stream: int, data: bytes) -> None:
        """The next bytes of stdout (1) or stderr (2)."""
        if self._order is None and self.streams[3 - stream].spooled:
            # As soon as both streams have output, its order is recorded.
            first = 3 - stream
            with contextlib.suppress(OSError):
                flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
                self._order = os.open(self._folder / ORDER, flags, 0o600)
                self._note(first, self.streams[first].spooled)
        written = self.streams[stream].feed(data)
        if self._order is not None and written:
            self._note(stream, written)

    def close(self) -> None:
        """Nothing more will come."""
        for stream in self.streams.values():
            stream.close()
        if self._order is not None:
            os.close(self._order)
            self._order = None

    def _note(self, stream: int, size: int) -> None:
        if self._order is not None and self._parts < PARTS_MAX:
            self._parts += 1
            with contextlib.suppress(OSError):
                os.write(self._order, PART.pack(stream, size))


class Stream:
    """One stream: the ends of it in memory, the beginning of it in a file, the hash of that."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None
        self._hash = hashlib.sha256()
        self._full = False
        self.capture = Capture(KEPT_BYTES_MAX)
        self.spooled = 0

    def feed(self, data: bytes) -> int:
        """Take the next bytes; returns how many of them went to disk."""
        self.capture.feed(data)
        kept = (
            data
            if self.spooled + len(data) <= SPOOL_BYTES_MAX
            else data[: max(0, SPOOL_BYTES_MAX - self.spooled)]
        )
        if not kept or self._full:
            return 0
        try:
            if self._file is None:
                self._path.parent.mkdir(mode=0o700, exist_ok=True)
                flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
                self._file = os.open(self._path, flags, 0o600)
            view = memoryview(kept)
            while view:
                view = view[os.write(self._file, view) :]
            self._hash.update(kept)
            self.spooled += len(kept)
        except OSError as problem:
            # The command goes on; its ends are in memory.
            log.error("cannot keep output: %s", os.strerror(problem.errno or errno.EIO))
            self._full = True
            return 0
        return len(kept)

    def close(self) -> None:
        """Nothing more will come."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    @property
    def sha256(self) -> str:
        """The hash of what is on disk; "" where nothing is, or not all of it could be written."""
        return self._hash.hexdigest() if self.spooled and not self._full else ""

    @property
    def truncated(self) -> bool:
        """There is more output than is shown."""
        return self.capture.truncated


class Follower:
    """Reads the output of a job while it grows, and passes it on in the order it came."""

    def __init__(self, folder: Path, watch: Callable[[int, bytes], None]) -> None:
        self._folder = folder
        self._watch = watch
        self._read = {1: 0, 2: 0}
        self._parts = 0
        # How far each stream goes by the parts that were read so far.
        self._told = {1: 0, 2: 0}

    def advance(self, *, last: bool = False) -> Iterator[None]:
        """Pass on what is new, a piece at a time; at last also what no part speaks of."""
        for stream, size in self._new_parts():
            self._told[stream] += size
            yield from self._pass_on(stream, self._told[stream])
        if last or not (self._folder / ORDER).exists():
            for stream in (1, 2):
                yield from self._pass_on(stream, None)

    def _new_parts(self) -> Iterator[tuple[int, int]]:
        with contextlib.suppress(OSError), (self._folder / ORDER).open("rb") as file:
            file.seek(self._parts * PART.size)
            while len(packed := file.read(PART.size)) == PART.size:
                self._parts += 1
                stream, size = PART.unpack(packed)
                if stream in self._told:
                    yield stream, size

    def _pass_on(self, stream: int, until: int | None) -> Iterator[None]:
        with (
            contextlib.suppress(FileNotFoundError),
            (self._folder / str(stream)).open("rb") as file,
        ):
            file.seek(self._read[stream])
            while until is None or self._read[stream] < until:
                size = READ_BYTES if until is None else min(READ_BYTES, until - self._read[stream])
                data = file.read(size)
                if not data:
                    return
                self._read[stream] += len(data)
                self._watch(stream, data)
                yield


def parts_of(folder: Path) -> list[tuple[int, bytes]]:
    """All output of a job, in order."""
    found: list[tuple[int, bytes]] = []
    follower = Follower(folder, lambda stream, data: found.append((stream, data)))
    for _ in follower.advance(last=True):
        pass
    return found
