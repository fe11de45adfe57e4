"""The memory of a box: groups that the kernel limits as one, or a watch where there are none."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from operator_protocols.domain.target import Process
from operator_sre.executor.sandbox.box import Limits

__all__ = ["OWN_PROCESSES", "PREFIX", "BoxGroup", "Cgroup", "Cgroups", "MemoryWatch"]

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


PREFIX = "operator-box-"
_ROOT = Path("/sys/fs/cgroup")
_PARENT = "operator-sre"
_CONTROLLERS = ("memory", "pids", "cpu")
_PERIOD_US = 100_000
_TCP_BYTES_MAX = 16 * 1024 * 1024
# The box's own processes beside those of the script: who waits for it, and its first process.
OWN_PROCESSES = 4
# No box lives longer than its time-out; what is older was left by an operator that was killed.
_STALE_S = 900.0
_EMPTY_S_MAX = 2.0
# What a group must be able to hold, however much its members held before they came in.
_MEMORY_BYTES_MIN = 16 * 1024 * 1024
_ROUNDS_MAX = 50


@dataclass(frozen=True, slots=True)
class Cgroup:
    """The group of one run, in one folder for each controller, or in one for all."""

    folders: tuple[Path, ...]

    def take(self, pid: int) -> bool:
        """Make a process a member; False when it has ended, or belongs to another user."""
        try:
            for folder in self.folders:
                _write(folder / "cgroup.procs", str(pid))
        except OSError:
            return False
        return True

    def killed_for_memory(self) -> bool:
        """True when the kernel ended something of it because the memory was used up."""
        return any(_has_oom_kill(folder) for folder in self.folders)

    async def remove(self) -> bool:
        """Kill the remaining members, then remove it; False when it could not be removed."""
        ends = time.monotonic() + _EMPTY_S_MAX
        left = self.folders
        while left := tuple(folder for folder in left if not _remove_folder(folder)):
            if time.monotonic() > ends:
                return False
            for folder in left:
                _kill(folder)
            await asyncio.sleep(0.002)
        return True


class Cgroups:
    """Makes groups if this user may; otherwise None, and MemoryWatch takes over."""

    def __init__(self, root: Path = _ROOT, own: Path = Path("/proc/self/cgroup")) -> None:
        self._root = root
        self._own = own
        self._usable: bool | None = None

    def make(self, name: str, limits: Limits) -> Cgroup | None:
        """A group with all of these limits, or None when that cannot be had here."""
        made: list[Path] = []
        try:
            for folder, values in self._plan(name, limits):
                folder.mkdir()
                made.append(folder)
                for file, value in values.items():
                    _write(folder / file, value)
        except OSError:
            for folder in made:
                _remove_folder(folder)
            return None
        return Cgroup(tuple(made)) if made else None

    async def forget(self, name: str) -> None:
        """Remove the group of a run whose operator is gone."""
        folders = [folder for folder, _ in self._plan(name, Limits())]
        await Cgroup(tuple(folder for folder in folders if folder.exists())).remove()

    def usable(self) -> bool:
        """Whether a group can be made here at all; found out once."""
        if self._usable is None:
            name = f"try-{secrets.token_hex(6)}"
            group = self.make(name, Limits())
            self._usable = group is not None and all(
                _remove_folder(folder) for folder in group.folders
            )
        return self._usable

    def sweep(self) -> None:
        """Remove what operators that were killed left behind."""
        for parent in {folder.parent: None for folder, _ in self._plan("", Limits())}:
            with contextlib.suppress(OSError):
                for folder in parent.glob(f"{PREFIX}*"):
                    if time.time() - folder.stat().st_mtime > _STALE_S:
                        _kill(folder)
                        _remove_folder(folder)

    def _plan(self, name: str, limits: Limits) -> list[tuple[Path, dict[str, str]]]:
        owned: dict[str, str] = {}  # the group we are in, by its controller; version 2 has no name
        with contextlib.suppress(OSError):
            rows = [line.split(":", 2) for line in self._own.read_text().splitlines()]
            owned = {each: row[2] for row in rows if len(row) == 3 for each in row[1].split(",")}
        if all((self._root / controller).is_dir() for controller in _CONTROLLERS):
            memory = {"memory.limit_in_bytes": str(limits.memory_bytes)}
            if Path("/sys/fs/cgroup/memory/memory.memsw.limit_in_bytes").exists():
                memory["memory.memsw.limit_in_bytes"] = str(limits.memory_bytes)
            else:
                memory["memory.swappiness"] = "0"
            if Path("/sys/fs/cgroup/memory/memory.kmem.tcp.limit_in_bytes").exists():
                memory["memory.kmem.tcp.limit_in_bytes"] = str(_TCP_BYTES_MAX)  # counted apart
            values = {
                "memory": memory,
                "pids": {"pids.max": str(limits.processes + OWN_PROCESSES)},
                "cpu": {"cpu.cfs_period_us": str(_PERIOD_US), "cpu.cfs_quota_us": str(_PERIOD_US)},
            }
            return [
                (
                    self._under(self._root / controller, owned.get(controller, "/"))
                    / f"{PREFIX}{name}",
                    values[controller],
                )
                for controller in _CONTROLLERS
            ]
        if not (self._root / "cgroup.controllers").is_file():
            return []
        parent = self._delegated_parent(owned.get("", "/"))
        return (
            [
                (
                    parent / f"{PREFIX}{name}",
                    {
                        "memory.max": str(limits.memory_bytes),
                        "memory.swap.max": "0",
                        "memory.oom.group": "1",
                        "pids.max": str(limits.processes + OWN_PROCESSES),
                        "cpu.max": f"{_PERIOD_US} {_PERIOD_US}",
                    },
                )
            ]
            if parent
            else []
        )

    def _under(self, mount: Path, own: str) -> Path:
        """Our own group, so that its limits hold for the box as well."""
        inside = mount / own.lstrip("/")
        return inside if inside.is_dir() else mount

    def _delegated_parent(self, own: str) -> Path | None:
        """A group of the second version that we may divide; members and children exclude another.

        Moving a process requires owning the nearest group above both of its places.
        """
        here = self._root / own.lstrip("/")
        for above in (here, *here.parents):
            if above != self._root and self._root not in above.parents:
                break
            if not os.access(above / "cgroup.procs", os.W_OK):
                continue
            parent = above / _PARENT
            with contextlib.suppress(OSError):
                parent.mkdir(exist_ok=True)
                for folder in (above, parent):
                    enabled = (folder / "cgroup.subtree_control").read_text().split()
                    missing = [
                        f"+{controller}" for controller in _CONTROLLERS if controller not in enabled
                    ]
                    if missing:
                        _write(folder / "cgroup.subtree_control", " ".join(missing))
                return parent
        return None


class BoxGroup:
    """Moves a box into a group while it runs; a box that ends at once needs none.

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
        """Kill the remaining members and remove the group; `used_up` tells if memory ran out."""
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
            for each in outside:
                self._group.take(each)
            inside |= outside


def _has_oom_kill(folder: Path) -> bool:
    """The kernel's own count of what it ended for want of memory."""
    for name in ("memory.events", "memory.oom_control"):
        with contextlib.suppress(OSError):
            rows = dict(line.split(None, 1) for line in (folder / name).read_text().splitlines())
            if int(rows.get("oom_kill", "0")):
                return True
    return False


def _kill(folder: Path) -> None:
    with contextlib.suppress(OSError):
        if (folder / "cgroup.kill").exists():
            _write(folder / "cgroup.kill", "1")
            return
        for pid in (folder / "cgroup.procs").read_text().split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)


def _remove_folder(folder: Path) -> bool:
    try:
        folder.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False  # it still has members
    return True


def _write(file: Path, value: str) -> None:
    """Into a file that must be there: a new one would be no file of the kernel's."""
    with file.open("r+") as opened:
        opened.write(value)
