"""A Tree is everything that came out of one start, however it tried to get away."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Iterable

from operator_protocols.domain.action import MARK
from operator_protocols.domain.target import Process
from operator_sre.processes.identity import Row, alive, descendants, rows, same

__all__ = ["MARK", "Tree", "environment_of", "send"]

KILL_S_MAX = 0.15
STOPS_MAX = 100
POLL_S_MIN = 0.01
POLL_S_MAX = 0.05
READ_BYTES = 65_536


class Tree:
    """One process with its group, its session, its descendants, and all that carry its mark."""

    def __init__(self, root: Process | None, *, mark: str, known: Iterable[Process] = ()) -> None:
        self._root = root
        # The mark of a tree may be the beginning of its members' marks: "abc." covers "abc.node".
        self._mark = f"{MARK}={mark}".encode() if mark else b""
        self._known = {process.pid: process for process in known}

    def members(self, table: dict[int, Row] | None = None) -> tuple[Row, ...]:
        """Every living process of the tree, zombies left out.

        For many trees, read the process table once and pass it in.
        """
        table = rows() if table is None else table
        pids = {pid for pid, row in table.items() if self._is_seed(row, table)}
        pids = descendants(pids, table) - {os.getpid()}
        found = tuple(table[pid] for pid in sorted(pids) if not table[pid].dead)
        # Remembered, because a member whose parent ends is no descendant at the next check.
        self._known = {row.process.pid: row.process for row in found}
        return found

    def signal(self, number: int, table: dict[int, Row] | None = None) -> tuple[Row, ...]:
        """Send a signal to every member and return who they were."""
        members = self.members(table)
        group = self._root.pid if self._root is not None else 0
        if group and any(row.group == group for row in members):
            _quietly(os.killpg, group, number)
        for row in members:
            if row.group != group:
                _quietly(os.kill, row.process.pid, number)
        return members

    def kill(self) -> bool:
        """SIGKILL until no process is left to fork another; True when none is left."""
        ends = time.monotonic() + KILL_S_MAX
        while self.signal(signal.SIGKILL):
            if time.monotonic() > ends:
                return False
        return True

    def stop_and_kill(self) -> bool:
        """Stop all until no new process appears, then kill them; False when there was none."""
        seen: set[int] = set()
        for _ in range(STOPS_MAX):
            members = {row.process.pid for row in self.signal(signal.SIGSTOP)}
            if members <= seen:
                break
            seen |= members
        self.signal(signal.SIGKILL)
        return bool(seen)

    async def end(self, *, grace_s: float) -> bool:
        """TERM, then KILL after the grace; True when no process is left."""
        table = rows()
        if not self.signal(signal.SIGTERM, table):
            return True
        # A stopped process cannot hear TERM before it is woken.
        self.signal(signal.SIGCONT, table)
        if await self._gone_within(grace_s):
            return True
        ends = time.monotonic() + KILL_S_MAX
        while self.signal(signal.SIGKILL):
            if time.monotonic() > ends:
                return False
            await asyncio.sleep(POLL_S_MIN)
        return True

    async def _gone_within(self, seconds: float) -> bool:
        ends = time.monotonic() + seconds
        poll_s = POLL_S_MIN
        # The members that are known are asked first: to look for others takes the whole table.
        while any(map(alive, self._known.values())) or self.members():
            left_s = ends - time.monotonic()
            if left_s <= 0:
                return False
            await asyncio.sleep(min(poll_s, left_s))
            poll_s = min(poll_s * 1.5, POLL_S_MAX)
        return True

    def _is_seed(self, row: Row, table: dict[int, Row]) -> bool:
        known = self._known.get(row.process.pid)
        if known is not None and same(known, row.process):
            return True
        if self._root is not None:
            if row.process.started < self._root.started - 2:
                return False
            if self._root.pid in (row.group, row.session, row.process.pid):
                # While a group has members its number is not given away; a stranger with the
                # number of our root means that nothing of the old group is left.
                holder = table.get(self._root.pid)
                return holder is None or same(holder.process, self._root)
        return bool(self._mark) and self._mark in environment_of(row.process.pid)


def send(process: Process, number: int) -> bool:
    """Signal exactly this process; False when it is gone."""
    return alive(process) and _quietly(os.kill, process.pid, number)


def environment_of(pid: int) -> bytes:
    """What a process was started with; nothing where we may not look."""
    parts: list[bytes] = []
    try:
        file = os.open(f"/proc/{pid}/environ", os.O_RDONLY)
        try:
            while part := os.read(file, READ_BYTES):
                parts.append(part)
        finally:
            os.close(file)
    except OSError:
        return b""
    return b"".join(parts)


def _quietly(kill: Callable[[int, int], None], pid: int, number: int) -> bool:
    """Send it; a process that has just ended, or that we may not signal, is no failure."""
    try:
        kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True
