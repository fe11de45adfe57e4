"""Where a runner can be found in its folder."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["LAUNCH", "LOCK", "LOG", "SOCKET", "listens", "peer_of", "reachable"]

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


def listens(folder: Path) -> bool:
    """A runner of this folder takes connections."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line, reachable(folder) as path:
        return line.connect_ex(path) == 0


def peer_of(line: socket.socket) -> int | None:
    """The user at the other end; None where the kernel did not list its sockets."""
    with contextlib.suppress(OSError, AttributeError):
        credentials = line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        return int(struct.unpack("3i", credentials)[1])
    return None
