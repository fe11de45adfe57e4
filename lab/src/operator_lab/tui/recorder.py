"""A demo as files: an asciicast that can be played again, and a transcript that can be read."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

from operator_protocols.errors import UsageError

__all__ = ["Recorder"]

RECORD_BYTES_MAX = 64 << 20
WIDTH, HEIGHT = 120, 40


class Recorder:
    """Writes what a terminal is sent, with its times, and beside it the story as text."""

    def __init__(
        self,
        path: Path,
        *,
        title: str,
        size: tuple[int, int] = (WIDTH, HEIGHT),
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.path = path
        self.transcript_path = path.with_suffix(".txt")
        self._now = now
        self._began = now()
        self._size = size
        self._left = RECORD_BYTES_MAX
        self._cast = _create(path)
        try:
            self._transcript = _create(self.transcript_path)
        except UsageError:
            self._cast.close()
            path.unlink()
            raise
        width, height = size
        head = {"version": 2, "width": width, "height": height, "timestamp": int(time.time())}
        self._write({**head, "title": title, "env": {"TERM": os.environ.get("TERM", "")}})

    def output(self, text: str) -> None:
        """What the terminal was sent just now."""
        if text:
            self._write([round(self._now() - self._began, 6), "o", text])

    def resize(self, width: int, height: int) -> None:
        """The terminal has another size now."""
        if (width, height) != self._size:
            self._size = (width, height)
            self._write([round(self._now() - self._began, 6), "r", f"{width}x{height}"])

    def line(self, text: str) -> None:
        """One line of the story."""
        self._transcript.write(f"{text}\n")
        self._transcript.flush()

    def close(self) -> None:
        """Nothing more comes."""
        self._cast.close()
        self._transcript.close()

    def _write(self, document: object) -> None:
        text = json.dumps(document, ensure_ascii=False) + "\n"
        self._left -= len(text)
        if self._left >= 0:
            self._cast.write(text)
            self._cast.flush()


def _create(path: Path) -> IO[str]:
    try:
        # No existing file is overwritten, and the recording is for its owner only.
        number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as problem:
        raise UsageError(
            f"The recording cannot be written to {str(path)!r}: {problem.strerror}.",
            next_step="Name a new file in an existing folder.",
        ) from problem
    return os.fdopen(number, "w", encoding="utf-8", errors="backslashreplace")
