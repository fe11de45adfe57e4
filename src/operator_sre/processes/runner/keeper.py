"""A confined command of the runner: its cell, its guard, and what it may use."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from operator_sre.processes.confinement.cell import CAPABILITIES, Cell, Command, Limits, Walls
from operator_sre.processes.confinement.cells import Cells, free_bytes, needs_read_search, usage_of
from operator_sre.processes.confinement.connections import Connections, Reach
from operator_sre.processes.confinement.filters import Profile
from operator_sre.processes.confinement.guard import Guard
from operator_sre.processes.confinement.relays import Relays
from operator_sre.processes.confinement.signals import Signals
from operator_sre.processes.confinement.socket_lists import SocketLists
from operator_sre.processes.confinement.workers import Workers
from operator_sre.processes.runner.wire import Bounds, Order

__all__ = ["ConfinedCommand", "Keeper", "walls_of"]

# Less memory than this part of the machine's is left: what is confined goes first.
FREE_PART_MIN = 0.03
TEMPORARY = b"TMPDIR"
RELAYS = "relays"
# New cells are built when a command has ended, or has run for so long: they would slow its start.
RESTOCK_S = 0.02
# Variables that name a file in which a program remembers what it showed.
_OWN_FILES = {b"NSTAT_HISTORY": b"nstat", b"BLKID_FILE": b"blkid"}


class ConfinedCommand:
    """One command in its cell, from `prepare` to `close`."""

    def __init__(
        self, keeper: Keeper, order: Order, cell: Cell, others: Callable[[], Iterable[int]]
    ) -> None:
        bounds = order.bounds or Bounds()
        self.pid = cell.pid
        self._keeper = keeper
        self._order = order
        self._cell = cell
        self._others = others
        self._guard: Guard | None = None
        self._relays: Relays | None = None
        self._restocking: asyncio.TimerHandle | None = None
        if cell.listener >= 0:
            named = (*(bounds.writable or ()), cell.temporary)
            writable = tuple(map(os.path.realpath, named)) if bounds.writable else (cell.temporary,)
            reach = Reach(bounds.hosts, bounds.sockets, bounds.programs, bounds.resolves)
            self._relays = Relays(keeper.folder / RELAYS, self.report)
            workers = Workers(CAPABILITIES[name] for name in cell.walls.capabilities)
            self._guard = Guard(
                cell.listener,
                cell.pid,
                Connections(reach, self._relays.lead, workers, tuple(writable)),
                cell.walls.limits,
                writable,
                lambda: usage_of((self.pid, *self._others()), memory=False).tasks,
                disk_programs=bounds.programs if "disks" in bounds.abilities else (),
                signals=Signals(cell.pid, bounds.signals),
                socket_lists=keeper.socket_lists,
            )
            cell.listener = -1  # the guard closes it

    @property
    def blocked(self) -> Sequence[str]:
        """What it tried and may not."""
        return self._guard.blocked if self._guard is not None else ()

    @property
    def is_over(self) -> bool:
        """Whether the kernel says that no process of it is left."""
        return self._guard is not None and self._guard.is_over

    def prepare(self, env: dict[bytes, bytes], descriptors: Sequence[int]) -> None:
        """Give the cell the command, which waits for `start`; OSError when there can be none."""
        order = self._order
        if self._guard is not None:
            temporary = os.fsencode(self._cell.temporary)
            own = {name: temporary + b"/" + file for name, file in _OWN_FILES.items()}
            env = {**env, TEMPORARY: temporary, **own}
        try:
            cpu_s = int(order.timeout_s) + 1 if self._guard is not None else 0
            self._cell.prepare(Command(order.argv, env, order.cwd, cpu_s), descriptors)
            if self._guard is not None:
                self._guard.start()
        except BaseException:
            self.drop()
            raise
        self._keeper.prepared.add(self)

    def drop(self) -> None:
        """Let the cell end without becoming the command."""
        self._keeper.prepared.discard(self)
        self.close()
        self._cell.discard()

    def start(self) -> None:
        """Let the cell become the command; OSError when that cannot start."""
        self._keeper.prepared.discard(self)
        try:
            self._cell.start()
        except BaseException:
            self.close()
            raise
        self._restocking = asyncio.get_running_loop().call_later(RESTOCK_S, self._keeper.restock)

    def report(self, text: str) -> None:
        """Remember why it was ended."""
        if self._guard is not None:
            self._guard.report(text)

    def excess(self) -> str:
        """What it uses too much of, or nothing."""
        if self._guard is None:
            return ""
        limits = self._cell.walls.limits
        free, total = free_bytes()
        usage = usage_of((self.pid, *self._others()))
        if usage.memory_bytes > limits.tree_bytes:
            return f"more than {limits.tree_bytes // 1024**2} MB of memory"
        if usage.descriptors > limits.tree_descriptors:
            return f"more than {limits.tree_descriptors} open files"
        return "nearly all memory of the machine" if free < total * FREE_PART_MIN else ""

    def close(self) -> None:
        """Stop answering its calls, and remove its folder."""
        if self._guard is not None:
            self._guard.close()
        if self._relays is not None:
            self._relays.close()
        if self._restocking is not None:
            self._restocking.cancel()
        self._keeper.tidy_soon(self._cell)


class Keeper:
    """Confines the commands of one runner."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.prepared: set[ConfinedCommand] = set()
        self.socket_lists = SocketLists(folder)
        self._cells = Cells(folder)
        self._usual: Walls | None = None

    def without_cells(self, pids: set[int]) -> set[int]:
        """The commands among some children of the runner."""
        return self._cells.without_cells(pids) - {each.pid for each in self.prepared}

    def hold(self, order: Order, others: Callable[[], Iterable[int]]) -> ConfinedCommand:
        """A cell for an order; `others` are its processes that left its own process's tree."""
        walls = walls_of(order)
        cell = self._cells.take(walls)
        if walls.profile == Profile() and not walls.writable and not walls.capabilities:
            self._usual = walls
        return ConfinedCommand(self, order, cell, others)

    def restock(self) -> None:
        """Have cells for the next commands."""
        if self._usual is not None:
            self._cells.restock(self._usual)

    def tidy_soon(self, cell: Cell) -> None:
        """Remove what a command left in its folder, and restock, once its end is reported."""
        loop = asyncio.get_running_loop()
        loop.call_soon(self._cells.clean, cell)
        loop.call_soon(self.restock)

    def close(self) -> None:
        """Nothing is started any more."""
        self._cells.close()
        self.socket_lists.close()


def walls_of(order: Order) -> Walls:
    """The walls of a cell for an order."""
    bounds = order.bounds or Bounds()
    if bounds.writable is None:
        return Walls(None, bounds.hidden, bounds.shown)
    wanted = set(bounds.abilities)
    profile = Profile(
        network=bounds.hosts is None or bool(bounds.hosts) or not wanted.isdisjoint(_SOCKETS),
        processes="processes" in wanted,
        kernel_log="kernel_log" in wanted,
        echo="echo" in wanted,
        firewall="firewall" in wanted,
        disks="disks" in wanted,
    )
    kept = {name for ability in wanted for name in _CAPABILITIES.get(ability, ())}
    if os.geteuid() != 0:
        kept.clear()
    elif needs_read_search(bounds.reads, os.fsdecode(order.cwd)):
        kept.add("dac_read_search")
    devices = ("kmsg",) if "kernel_log" in wanted else ()
    shown = bounds.shown
    return Walls(
        profile, bounds.hidden, shown, bounds.writable, devices, tuple(sorted(kept)), Limits()
    )


# What root needs for an ability that others have by another way, or do not have.
_CAPABILITIES = {
    "echo": ("net_raw",),
    "files": ("dac_read_search",),
    "firewall": ("net_admin", "net_raw"),
    "kernel_log": ("syslog",),
}
# These use Internet sockets to ask the kernel, and reach no host by them.
_SOCKETS = frozenset({"echo", "firewall", "interfaces"})
