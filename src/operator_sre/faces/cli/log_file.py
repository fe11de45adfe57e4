"""The log file of the service: bounded in size, readable by its own account only."""

from __future__ import annotations

import io
import logging
import os
import sys
from logging.handlers import RotatingFileHandler
from pathlib import Path

from operator_protocols.errors import OperatorError
from operator_sre.faces.cli.logs import JsonLines, TextLines

__all__ = ["log_to_file"]

FILE_BYTES_MAX = 10_000_000
OLD_FILES = 5


class _BoundedFile(RotatingFileHandler):
    """What cannot be written, such as to a full disk, goes to stderr instead."""

    def _open(self) -> io.TextIOWrapper:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        # Without a buffer, so that a line that was refused is not written a second time.
        raw = io.FileIO(os.open(self.baseFilename, flags, 0o600), "a")
        return io.TextIOWrapper(raw, "utf-8", errors="backslashreplace", write_through=True)

    def handleError(self, record: logging.LogRecord) -> None:
        sys.stderr.write(f"{self.format(record)}\n")


def log_to_file(file: Path, *, style: str) -> None:
    """Send our log lines to a file instead of stderr; OperatorError if it cannot be opened."""
    try:
        handler = _BoundedFile(file, maxBytes=FILE_BYTES_MAX, backupCount=OLD_FILES)
    except OSError as error:
        raise OperatorError(
            f"The log file {str(file)!r} cannot be opened: {error.strerror}.",
            next_step="Set log_file of [service] to a file in a directory that the service may"
            " write to.",
        ) from error
    handler.setFormatter(JsonLines() if style == "json" else TextLines())
    ours = logging.getLogger("operator_sre")
    for former in ours.handlers:
        former.close()
    ours.handlers = [handler]
