"""Files that are either old or new, never half written, and the last words of a log."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from operator_protocols.domain.excerpt import find_start

__all__ = ["last_line", "write_atomically"]

TAIL_BYTES = 4096
LINE_CHARS_MAX = 300


def write_atomically(path: Path, text: str) -> None:
    """Replace a file in one step, readable by its owner only."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        Path(temporary).replace(path)
    except OSError:
        Path(temporary).unlink(missing_ok=True)
        raise


def last_line(log: Path) -> str:
    """The last line of a log that says something, shortened and fit to print; "" when none does."""
    try:
        with log.open("rb") as file:
            file.seek(0, os.SEEK_END)
            begin = max(0, file.tell() - TAIL_BYTES)
            file.seek(begin)
            data = file.read(TAIL_BYTES)
    except OSError:
        return ""
    # Of a line that is longer, the name may be missing that tells what a value is.
    text = data[find_start(data, inside=True) if begin else 0 :].decode(errors="replace")
    lines = ["".join(filter(str.isprintable, line)).strip() for line in text.splitlines()]
    return next((line[:LINE_CHARS_MAX] for line in reversed(lines) if line), "")
