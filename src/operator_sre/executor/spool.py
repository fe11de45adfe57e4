"""Whole outputs, each in a file named by its hash: this machine's, its owner's, for a while."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import time
from pathlib import Path
from typing import BinaryIO

__all__ = ["Spool", "Spooled"]

BYTES_MAX = 100 * 1024 * 1024
KEPT_S = 24 * 3600.0


class Spool:
    """A folder of outputs. What leaves it has to be redacted by whoever takes it out."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def begin(self) -> Spooled:
        """A place for the output of one command; old outputs make room first."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._forget()
        return Spooled(self._folder)

    def path_of(self, digest: str) -> Path | None:
        """Where an output lies; None when it is gone, or was never here."""
        path = self._folder / digest
        known = len(digest) == hashlib.sha256().digest_size * 2 and digest.isalnum()
        return path if known and path.is_file() else None

    def _forget(self) -> None:
        oldest = time.time() - KEPT_S
        for path in self._folder.iterdir():
            with contextlib.suppress(FileNotFoundError):  # another process tidies up as well
                if path.stat().st_mtime < oldest:
                    path.unlink()


class Spooled:
    """The output of one command on its way into the spool, one file for each stream."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._streams: dict[int, _Stream] = {}

    def feed(self, stream: int, data: bytes) -> None:
        """The next bytes of stdout (1) or stderr (2)."""
        if stream not in self._streams:
            self._streams[stream] = _Stream(self._folder)
        self._streams[stream].feed(data)

    def end(self) -> dict[int, str]:
        """Put the files in their places; the hash of each stream that said anything."""
        return {number: stream.end() for number, stream in self._streams.items()}


class _Stream:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        descriptor, name = tempfile.mkstemp(dir=folder, prefix=".")  # readable by its owner only
        self._path = Path(name)
        self._file: BinaryIO = os.fdopen(descriptor, "wb")
        self._hash = hashlib.sha256()
        self._left = BYTES_MAX

    def feed(self, data: bytes) -> None:
        kept = data[: self._left]
        self._left -= len(kept)
        self._file.write(kept)
        self._hash.update(kept)

    def end(self) -> str:
        self._file.close()
        digest = self._hash.hexdigest()
        self._path.replace(self._folder / digest)
        return digest
