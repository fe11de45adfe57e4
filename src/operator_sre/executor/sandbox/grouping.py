"""Puts a box that lives on into a group of its own, which the kernel limits as a whole."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from operator_protocols.domain.target import Process
from operator_sre.executor.sandbox.box import Limits
from operator_sre.executor.sandbox.cgroup import Cgroup, Cgroups
from operator_sre.executor.sandbox.watch import MemoryWatch

__all__ = ["Grouping"]

# What a group has to be able to hold, however much its members held before they came in.
_MEMORY_BYTES_MIN = 16 * 1024 * 1024
_ROUNDS_MAX = 50


class Grouping:
    """Enters a box into a group while it runs; a box that is over at once needs none.

    Who enters a group waits for all of the kernel, which takes longer than the box takes to start.
    Until it is in, each process has its own limits and all of them are watched; what they hold by
    then is taken off what the group may hold.
    """

    def __init__(self, cgroups: Cgroups, name: str, limits: Limits, watch: MemoryWatch) -> None:
        self._cgroups = cgroups
        self._name = name
        self._limits = limits
        self._watch = watch
        self._entering: asyncio.Task[None] | None = None
        self._group: Cgroup | None = None
        self.used_up = False

    def begin(self, process: Process) -> None:
        """This is the first process of the box."""
        if self._entering is None:
            self._entering = asyncio.create_task(asyncio.to_thread(self._enter, process.pid))

    async def end(self) -> None:
        """End whoever is left in it and remove it; `used_up` says if its memory was."""
        if self._entering is not None:
            await self._entering
        if self._group is not None:
            self.used_up = self._group.killed_for_memory()
            await self._group.remove()

    def _enter(self, pid: int) -> None:
        held_bytes = self._watch.held_bytes(pid)
        left_bytes = max(_MEMORY_BYTES_MIN, self._limits.memory_bytes - held_bytes)
        self._group = self._cgroups.make(self._name, replace(self._limits, memory_bytes=left_bytes))
        if self._group is None:
            return
        inside: set[int] = set()
        for _ in range(_ROUNDS_MAX):  # what is born while its parent enters is outside still
            outside = set(self._watch.tree(pid)) - inside
            if not outside:
                self._watch.rest()  # the kernel counts better: what is shared, only once
                return
            for one in outside:
                self._group.take(one)
            inside |= outside
