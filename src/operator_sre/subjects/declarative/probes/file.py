"""Looking at a file of this machine: whether it is there, how old, how large, what is in it."""

from __future__ import annotations

import asyncio
import os
import stat
import time
from dataclasses import dataclass
from pathlib import Path

from operator_sre.subjects.declarative.probes.place import Blind, Place, Readings, checked, down
from operator_sre.subjects.declarative.table import Table
from operator_sre.subjects.declarative.taking import Taken, taken_in

__all__ = ["KEYS", "FileProbe", "read_file"]

KEYS = ("path", "matches")
END_BYTES_MAX = 64 * 1024


@dataclass(frozen=True, slots=True)
class FileProbe:
    """One file; a pattern is looked for in its last 64 kB."""

    path: str
    taken: Taken

    @property
    def fields(self) -> frozenset[str]:
        """The values that it can give."""
        return frozenset({"up", "ok", "error", "exists", "age_s", "size_bytes"}) | self.taken.fields

    async def look(self, place: Place) -> Readings:
        """Look at it, elsewhere than where everybody waits: a file system may hang."""
        if place.target.runs_at:
            raise Blind("a file probe looks at this machine only; use a command there")
        try:
            async with asyncio.timeout(place.timeout_s):
                return await asyncio.to_thread(self._seen)
        except TimeoutError:
            raise Blind("its file system does not answer") from None

    def _seen(self) -> Readings:
        path = Path(self.path)
        try:
            found = path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return down("there is no such file", exists=False)
        except OSError as error:
            raise Blind(f"its file cannot be looked at: {error.strerror}") from error
        readings: Readings = {
            "exists": True,
            "age_s": round(max(0.0, time.time() - found.st_mtime), 3),
            "size_bytes": found.st_size,
        }
        if self.taken.pattern and not stat.S_ISREG(found.st_mode):
            raise Blind("it is no file that could be read")
        if self.taken.pattern:
            readings |= self.taken.found(None, self._end(found.st_size))
        return checked(readings, "it does not match" if readings.get("matched") is False else "")

    def _end(self, size: int) -> bytes:
        try:
            # What has become a pipe meanwhile is not waited for.
            number = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            with os.fdopen(number, "rb") as file:
                file.seek(max(0, size - END_BYTES_MAX))
                return file.read(END_BYTES_MAX)
        except OSError as error:
            raise Blind(f"its file cannot be read: {error.strerror}") from error


def read_file(table: Table, folder: str) -> FileProbe:
    """The probe of a description; a path is relative to it."""
    path = Path(folder, Path(table.needed("path")).expanduser())
    return FileProbe(str(path), taken_in(table, table, body="matches"))
