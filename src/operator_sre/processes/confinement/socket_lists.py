"""Listings of sockets for programs like `ss -p`, which look for nothing else in `/proc`.

Such a program reads the link of every descriptor of every process. Each is a question to the guard,
which waits until both processes had their turn, so that on a busy machine thousands of them take
long. The guard reads the links itself, and lists what is worth a question: processes with sockets,
and their descriptors that are sockets.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
from pathlib import Path

__all__ = ["SocketLists"]

PROGRAMS = ("ss", "netstat")
PROCESSES = "/proc"
SOCKET = "socket:["
# A name is an empty file, which costs fifty times as much on a disk.
IN_MEMORY = Path("/dev/shm")  # noqa: S108
NAMES_MAX = 16_384


class SocketLists:
    """The listings of one runner, until `close`: folders with an empty file for each name.

    Equal listings share a folder, and the oldest make room for new ones. They are nowhere else than
    in memory, so that there are none where that place is missing, or another user has taken it.
    """

    def __init__(self, runner: Path, in_memory: Path = IN_MEMORY) -> None:
        digest = hashlib.sha256(os.fsencode(runner.resolve())).hexdigest()[:16]
        self._folder = in_memory / f"operator-sockets-{digest}"
        self._paths: dict[frozenset[str], Path] = {}
        self._made = 0
        self._names = 0
        self.close()  # what a runner left that was killed

    def open(self, thread: int, path: str) -> int | None:
        """A descriptor to list `path` with; None where the original will do."""
        if path != PROCESSES and not path.endswith("/fd"):
            return None
        try:
            if os.path.basename(os.readlink(f"/proc/{thread}/exe")) not in PROGRAMS:
                return None
            names = os.listdir(path)
            if path == PROCESSES:
                names = [name for name in names if name.isdigit()]
                wanted = [name for name in names if _has_sockets(f"{path}/{name}/fd")]
            else:
                wanted = [name for name in names if _is_socket(f"{path}/{name}")]
            # A listing that leaves little out costs more than it saves.
            if len(names) < 2 * len(wanted):
                return None
            return self._list(frozenset(wanted))
        except OSError:
            return None

    def close(self) -> None:
        """Remove all of them."""
        shutil.rmtree(self._folder, ignore_errors=True)
        self._paths.clear()
        self._names = 0

    def _list(self, names: frozenset[str]) -> int | None:
        if len(names) > NAMES_MAX // 4:
            return None
        path = self._paths.pop(names, None)
        if path is None:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            state = os.lstat(self._folder)  # everybody may create folders in that place
            is_own = stat.S_ISDIR(state.st_mode) and state.st_uid == os.geteuid()
            if not is_own or state.st_mode & 0o077:
                return None
            while self._paths and self._names + len(names) + 1 > NAMES_MAX:
                oldest = next(iter(self._paths))
                shutil.rmtree(self._paths.pop(oldest), ignore_errors=True)
                self._names -= len(oldest) + 1
            self._made += 1
            path = self._folder / f"{self._made}"
            path.mkdir(mode=0o700)
            for name in names:
                os.mknod(path / name, 0o400)
            self._names += len(names) + 1
        self._paths[names] = path  # the newest is the last
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def _is_socket(path: str) -> bool:
    with contextlib.suppress(OSError):  # closed by now
        return os.readlink(path).startswith(SOCKET)
    return False


def _has_sockets(folder: str) -> bool:
    with contextlib.suppress(OSError):  # it has ended, or is not for us to see
        return any(_is_socket(f"{folder}/{name}") for name in os.listdir(folder))
    return False
