"""Watches the memory of a box where the kernel does not count it as one."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

from operator_protocols.domain.target import Process

__all__ = ["MemoryWatch"]

_EVERY_S = 0.02
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class MemoryWatch:
    """Adds up what a process and all below it hold, and ends them when that is too much.

    Between two looks a tree can grow by what its processes may hold at most, so this is weaker
    than a cgroup; each process has its own limit as well.
    """

    def __init__(self, memory_bytes: int, proc: Path = Path("/proc")) -> None:
        self._memory_bytes = memory_bytes
        self._proc = proc
        self._root: Process | None = None
        self.ended = False
        self._rests = False

    def begin(self, process: Process) -> None:
        """This is the first process of the box."""
        self._root = process

    def rest(self) -> None:
        """The kernel counts from now on."""
        self._rests = True

    async def watch(self) -> None:
        """Look until cancelled."""
        while True:
            if (
                self._root is not None
                and not self._rests
                and self.held_bytes(self._root.pid) > self._memory_bytes
            ):
                self.ended = True
                for each in list(self.tree(self._root.pid)):
                    with contextlib.suppress(ProcessLookupError, PermissionError):
                        os.kill(each, signal.SIGKILL)
            await asyncio.sleep(_EVERY_S)

    def held_bytes(self, pid: int) -> int:
        """What this process and all below it hold in memory.

        Pages that several of them share are counted once, where counting them for each is too much.
        """
        resident = {each: self._resident_bytes(each) for each in self.tree(pid)}
        total = sum(resident.values())
        if total <= self._memory_bytes:
            return total
        return sum(self._share_bytes(each, resident[each]) for each in resident)

    def tree(self, pid: int) -> Iterator[int]:
        """A process and all below it."""
        yield pid
        with contextlib.suppress(OSError, ValueError):
            for task in (self._proc / str(pid) / "task").iterdir():
                for child in (task / "children").read_text().split():
                    yield from self.tree(int(child))

    def _resident_bytes(self, pid: int) -> int:
        with contextlib.suppress(OSError, ValueError, IndexError):
            return int((self._proc / str(pid) / "statm").read_text().split()[1]) * _PAGE_BYTES
        return 0

    def _share_bytes(self, pid: int, resident: int) -> int:
        """Its share of memory, where the kernel reports it; otherwise all of it."""
        with contextlib.suppress(OSError, ValueError, IndexError):
            for line in (self._proc / str(pid) / "smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    return int(line.split()[1]) * 1024
        return resident
