"""Where a runner can be found in its folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["LAUNCH", "LOCK", "LOG", "SOCKET", "reachable"]

SOCKET = "socket"
LOCK = "lock"
LAUNCH = "launch"
LOG = "runner.log"
# The kernel takes 107 bytes on Linux and 103 on macOS.
PATH_BYTES_MAX = 100


@contextmanager
def reachable(folder: Path) -> Iterator[str]:
    """A path of the socket that the kernel can take, however deep the folder lies."""
    path = str(folder / SOCKET)
    if len(os.fsencode(path)) <= PATH_BYTES_MAX:
        yield path
        return
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{fd}/{SOCKET}"
    finally:
        os.close(fd)
