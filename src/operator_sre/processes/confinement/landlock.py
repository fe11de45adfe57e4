"""Which files a command may touch, as rulesets of Landlock."""

from __future__ import annotations

import contextlib
import ctypes
import os
import stat
import struct
import time
from collections.abc import Iterable, Iterator
from functools import cache

from operator_sre.enforcement import SCOPES_ABI, landlock_abi

__all__ = ["Reads", "writes_ruleset"]

CREATE, ADD = 444, 445
PATH_BENEATH = 1
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
TRUNCATE, IOCTL_DEV = 1 << 14, 1 << 15
READING = EXECUTE | READ_FILE | READ_DIR
# Every right about files by the version that brought it: 1, 2 (moving), 3 (truncating), 5 (ioctl).
RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1}
RIGHTS_NEWEST = (1 << 16) - 1
# Since version 6: no connection to abstract sockets and no signals beyond the command's own tree.
SCOPES = 3
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
# What every program may read and write among the devices; the others are disks and the like.
DEVICES = ("null", "zero", "full", "tty")
SOURCES = ("random", "urandom")
SHARED = "/dev/shm"  # noqa: S108
ENTRIES_MAX = 20_000
# A folder that changed so shortly before it was read may have changed again in the same tick.
TICK_NS = 50_000_000

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def _call(number: int, *arguments: object) -> int:
    result = int(_libc.syscall(ctypes.c_long(number), *arguments))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def writes_ruleset(writable: Iterable[str]) -> int:
    """A new ruleset: writing is allowed at these paths, below them and to a few devices only.

    Signals and abstract sockets stay within the command. The caller closes the descriptor.
    """
    rights = RIGHTS.get(landlock_abi(), RIGHTS_NEWEST) & ~READING
    ruleset = _create(rights, SCOPES)
    for fd in _devices():
        _add(ruleset, fd, rights & (WRITE_FILE | TRUNCATE | IOCTL_DEV))
    for path in writable:
        _allow(ruleset, os.path.realpath(path), rights)
    return ruleset


class Reads:
    """A ruleset that lets everything be read but what is hidden, until a folder changes.

    Landlock cannot exclude a file from a folder that is allowed. So the folders above a hidden file
    are not allowed themselves, only all that lies in them beside it, one by one. Names of files can
    still be listed everywhere.
    """

    def __init__(
        self,
        hidden: tuple[str, ...],
        *,
        shown: tuple[str, ...] = (),
        devices: tuple[str, ...] = (),
    ) -> None:
        self._listed: dict[str, int] = {}
        self._made_ns = time.time_ns()
        self._hidden = frozenset(os.path.realpath(path) for path in hidden)
        self._missing = [path for path in shown if not os.path.exists(path)]
        self.fd = _create(READING, 0)
        try:
            _allow(self.fd, "/", READ_DIR)
            for path in self._visible("/"):
                _allow(self.fd, path, READING)
            for name in (*DEVICES, *SOURCES, *devices):
                _allow(self.fd, f"/dev/{name}", READ_FILE)
            for path in shown:
                _allow(self.fd, path, READING & ~EXECUTE)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let go of it; commands that run keep theirs."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def is_current(self) -> bool:
        """Whether every folder that was read is still as it was."""
        if any(map(os.path.exists, self._missing)):
            return False
        for path, changed_ns in self._listed.items():
            try:
                now_ns = os.stat(path).st_mtime_ns
            except OSError:
                return False
            if now_ns != changed_ns or now_ns > self._made_ns - TICK_NS:
                return False
        return True

    def _visible(self, folder: str) -> Iterator[str]:
        """All that lies in a folder beside what is hidden; of folders above that, the inside."""
        with contextlib.suppress(OSError):
            self._listed[folder] = os.stat(folder).st_mtime_ns
            for entry in sorted(os.scandir(folder), key=lambda each: each.name)[:ENTRIES_MAX]:
                path = entry.path
                if path in self._hidden or entry.is_symlink():
                    continue
                # Of the devices, only those are open that are named, and what processes share.
                place = SHARED if path == "/dev" else path
                if any(each.startswith(f"{place}/") for each in self._hidden):
                    yield from self._visible(place)
                else:
                    yield place


def _create(rights: int, scopes: int) -> int:
    newest = landlock_abi() >= SCOPES_ABI
    attributes = struct.pack("<QQQ", rights, 0, scopes)[: 24 if newest else 8]
    return _call(CREATE, attributes, ctypes.c_size_t(len(attributes)), ctypes.c_uint(0))


def _allow(ruleset: int, path: str, rights: int) -> None:
    """Allow this at a path and below it; a path that cannot be opened is left out."""
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            rights &= OF_FILES
        if rights:
            _add(ruleset, fd, rights)
    finally:
        os.close(fd)


def _add(ruleset: int, fd: int, rights: int) -> None:
    rule = struct.pack("<Qi", rights, fd)
    _call(ADD, ctypes.c_int(ruleset), ctypes.c_int(PATH_BENEATH), rule, ctypes.c_uint(0))


@cache
def _devices() -> tuple[int, ...]:
    """The devices that every command may write to, kept open: each ruleset needs them."""
    found = []
    for name in DEVICES:
        with contextlib.suppress(OSError):
            found.append(os.open(f"/dev/{name}", os.O_PATH | os.O_CLOEXEC))
    return tuple(found)
