"""The identity of a process: its pid, and its start time because pids are reused."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from operator_protocols.domain.target import Process

__all__ = [
    "Row",
    "alive",
    "boot_time",
    "born_now",
    "descendants",
    "is_paused",
    "process_of",
    "row_of",
    "rows",
    "same",
    "tree_of",
]

PS_TIMEOUT_S = 5.0
STEP_S_MAX = 2.0
# 52 numbers and a name of at most 64 bytes.
_STAT_BYTES_MAX = 4096
_PS_COLUMNS = "pid=,ppid=,pgid=,stat=,lstart="
_HAS_PROC = Path("/proc/self/stat").exists()


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the process table; `state` is the letter that ps shows."""

    process: Process
    parent: int
    group: int
    session: int
    state: str

    @property
    def dead(self) -> bool:
        """It has ended and only waits to be reaped."""
        return self.state in "ZX"


def born_now() -> float:
    """What the start time of a process would be that is born now."""
    if not _HAS_PROC:
        return time.time()
    return boot_time() + time.clock_gettime(time.CLOCK_BOOTTIME)


def process_of(pid: int) -> Process | None:
    """The process that has this pid now; None when there is none or only a zombie."""
    row = row_of(pid)
    return None if row is None or row.dead else row.process


def alive(process: Process) -> bool:
    """This very process still runs: same pid, same start time, not a zombie."""
    now = process_of(process.pid)
    return now is not None and same(now, process)


def is_paused(process: Process) -> bool:
    """This very process is there but stopped by a signal."""
    row = row_of(process.pid)
    return row is not None and same(row.process, process) and row.state == "T"


def same(first: Process, second: Process) -> bool:
    """Both name one process.

    When the clock is set, the boot time that the kernel reports moves by whole seconds; so a
    difference of one or two whole seconds is still the same start, any fraction is not.
    """
    apart_s = first.started - second.started
    whole = abs(apart_s - round(apart_s)) < 0.005
    return first.pid == second.pid and whole and abs(apart_s) < STEP_S_MAX + 0.005


def tree_of(pid: int, table: Mapping[int, Row] | None = None) -> tuple[Process, ...]:
    """Every living descendant of a process, without the process itself."""
    table = rows() if table is None else table
    found = descendants({pid}, table) - {pid}
    return tuple(table[each].process for each in sorted(found) if not table[each].dead)


def descendants(roots: Iterable[int], table: Mapping[int, Row]) -> set[int]:
    """The roots and all that came out of them, as far as their parents still live."""
    children: dict[int, list[int]] = {}
    for pid, row in table.items():
        children.setdefault(row.parent, []).append(pid)
    found: set[int] = set()
    queue = list(roots)
    while queue:
        pid = queue.pop()
        if pid not in found:
            found.add(pid)
            queue.extend(children.get(pid, ()))
    return found


def row_of(pid: int) -> Row | None:
    """One line of the process table, zombies included."""
    return _row_from_proc(pid) if _HAS_PROC else _rows_from_ps("-p", str(pid)).get(pid)


def rows() -> dict[int, Row]:
    """The process table of this machine as far as this user may see it."""
    if not _HAS_PROC:
        return _rows_from_ps("-A")
    with os.scandir("/proc") as entries:
        pids = [int(entry.name) for entry in entries if entry.name.isdecimal()]
    return {pid: row for pid in pids if (row := _row_from_proc(pid)) is not None}


def _row_from_proc(pid: int) -> Row | None:
    # Everything that stops a process reads the whole table several times, and pathlib would take
    # three times as long as the kernel does.
    try:
        file = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
        try:
            line = os.read(file, _STAT_BYTES_MAX)
        finally:
            os.close(file)
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    # The name may hold spaces and brackets, so the fields are counted from its last bracket.
    state, parent, group, session, *others = line[line.rindex(b")") + 2 :].split()
    started = boot_time() + int(others[15]) / _ticks_per_s()
    return Row(Process(pid, started), int(parent), int(group), int(session), state.decode())


@cache
def boot_time() -> int:
    """When this machine was started, in seconds since 1970; 0 if unknown."""
    for line in Path("/proc/stat").read_text().splitlines():
        if line.startswith("btime "):
            return int(line.split()[1])
    return 0


@cache
def _ticks_per_s() -> int:
    return os.sysconf("SC_CLK_TCK")


def _rows_from_ps(*which: str) -> dict[int, Row]:
    """The process table where there is no /proc; `ps` has no session, so the group stands in."""
    done = subprocess.run(
        ["ps", *which, "-o", _PS_COLUMNS],
        capture_output=True,
        text=True,
        errors="replace",
        timeout=PS_TIMEOUT_S,
        env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"},
        check=False,
    )
    found: dict[int, Row] = {}
    for line in done.stdout.splitlines():
        pid, parent, group, state, *words = line.split()
        started = time.mktime(time.strptime(" ".join(words), "%a %b %d %H:%M:%S %Y"))
        process = Process(int(pid), started)
        found[process.pid] = Row(process, int(parent), int(group), int(group), state[:1])
    return found
