"""Beginning a log anew without losing what it holds, for tools of any subject."""

from __future__ import annotations

import gzip
import os
import shutil
from pathlib import Path

__all__ = ["rotate"]

COPIES_MAX = 3
COPY_BYTES = 1 << 20


def rotate(log: Path) -> tuple[int, str]:
    """Its size until now, and the name of the compressed copy beside it; older ones move on."""
    copies = [log.with_name(f"{log.name}.{number}.gz") for number in range(1, COPIES_MAX + 1)]
    draft = log.with_name(f".{log.name}.new.gz")
    with log.open("rb") as whole, gzip.open(draft, "wb", compresslevel=1) as kept:
        shutil.copyfileobj(whole, kept, COPY_BYTES)
        before = whole.tell()
    shutil.copymode(log, draft)
    for older, newer in zip(reversed(copies), (*reversed(copies[:-1]), draft), strict=True):
        if newer.exists():
            newer.replace(older)
    # Whoever writes to it has it open, so that it has to stay the same file.
    os.truncate(log, 0)
    return before, copies[0].name
