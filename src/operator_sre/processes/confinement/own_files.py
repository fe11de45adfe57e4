"""The files that a confined command may create: so many, in the folders that are its own.

The guard opens them for the command. A path in the command's memory can change after it was read,
and Landlock, which would then refuse what lies elsewhere, does not count.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Sequence

from operator_sre.processes.confinement.call import RefusedError

__all__ = ["OwnFiles"]

OPENAT2 = 437
# The way to a file stays in the folder, and a link of /proc is no way.
RESOLVE_NO_MAGICLINKS, RESOLVE_BENEATH = 0x02, 0x08
O_TMPFILE = os.O_TMPFILE & ~os.O_DIRECTORY
PERMISSIONS = 0o777

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


class OwnFiles:
    """Files below `places`, each a folder or a single file; `files_max` of them can be created."""

    def __init__(self, places: Sequence[str], files_max: int) -> None:
        self.places = tuple(places)
        self._files_max = files_max
        self._created = 0

    def holds(self, path: str) -> bool:
        """Whether a path, as it is written, leads to one of them."""
        return any(path == place or path.startswith(f"{place}/") for place in self.places)

    def count(self) -> None:
        """One more is created; RefusedError when there are enough."""
        self._created += 1
        if self._created > self._files_max:
            raise RefusedError(errno.EDQUOT, f"more than {self._files_max} files")

    def open(self, path: str, flags: int, mode: int) -> int:
        """Open one of them as a call asks for, and create it where it does; never waits."""
        place = next(each for each in self.places if path == each or path.startswith(f"{each}/"))
        if not os.path.isdir(place):
            return os.open(place, flags & ~os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC)
        folder = os.open(place, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            name = os.fsencode(os.path.relpath(path, place))
            flags |= os.O_NONBLOCK | os.O_CLOEXEC
            permissions = mode & PERMISSIONS
            if flags & O_TMPFILE:
                self.count()
                return _open(folder, name, flags, permissions)
            if not flags & os.O_EXCL:
                try:
                    return _open(folder, name, flags & ~os.O_CREAT, 0)
                except FileNotFoundError:
                    if not flags & os.O_CREAT:
                        raise
            self.count()
            return _open(folder, name, flags | os.O_EXCL, permissions)
        finally:
            os.close(folder)


def _open(folder: int, name: bytes, flags: int, mode: int) -> int:
    """What `openat2` does; only it keeps to a folder."""
    how = struct.pack("<QQQ", flags, mode, RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS)
    fd = _libc.syscall(ctypes.c_long(OPENAT2), folder, name, how, ctypes.c_size_t(len(how)))
    if fd < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return int(fd)
