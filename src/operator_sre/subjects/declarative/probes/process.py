"""Looking at processes of this machine: by a file with a pid, or by what their command line is."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from operator_protocols.domain.target import Process
from operator_sre.subjects.declarative.patterns import pattern_of
from operator_sre.subjects.declarative.probes.place import Blind, Place, Readings, checked, down
from operator_sre.subjects.declarative.table import Table

__all__ = ["KEYS", "ProcessProbe", "process_in", "read_process"]

KEYS = ("pid_file", "pattern")
PID_BYTES_MAX = 64
LINE_BYTES_MAX = 8192
# The kernel counts time in ticks, and a file's time may be a little before that of its writer.
SLACK_S = 2.0


@dataclass(frozen=True, slots=True)
class _Row:
    """What the kernel tells of one process."""

    pid: int
    state: str
    started: float
    cpu_s: float
    rss_bytes: int


@dataclass(frozen=True, slots=True)
class ProcessProbe:
    """The process of a pid file, or all whose command line matches."""

    pid_file: str = ""
    pattern: str = ""

    @property
    def fields(self) -> frozenset[str]:
        """The values that it can give."""
        own = {"up", "ok", "error", "alive", "count", "pid", "state", "rss_bytes", "cpu_percent"}
        return frozenset(own | {"open_files", "age_s"})

    async def look(self, place: Place) -> Readings:
        """Look at the table of processes."""
        if place.target.runs_at:
            raise Blind("a process probe looks at this machine only; use a command there")
        if not _has_table():
            raise Blind("this machine does not show its processes under /proc")
        rows = await asyncio.to_thread(self._rows)
        if not rows:
            return down("there is no such process", alive=False, count=0)
        readings: Readings = {
            "alive": True,
            "count": len(rows),
            "pid": rows[0].pid,
            "state": "stopped" if rows[0].state in "Tt" else "running",
            "rss_bytes": sum(row.rss_bytes for row in rows),
            "age_s": round(max(0.0, _now() - min(row.started for row in rows)), 2),
        }
        open_files = [_open_files(row.pid) for row in rows]
        if None not in open_files:
            readings["open_files"] = sum(one for one in open_files if one is not None)
        # Each by itself: one that came or went would make the sum of all jump.
        used = {f"cpu of {row.pid} since {row.started}": row.cpu_s for row in rows}
        rates = [place.rate(name, cpu_s) for name, cpu_s in used.items()]
        place.forget_others(used)
        known = [rate for rate in rates if rate is not None]
        if known:
            readings["cpu_percent"] = round(sum(known) * 100, 2)
        stopped = readings["state"] == "stopped"
        return checked(readings, "its process is stopped" if stopped else "")

    def _rows(self) -> list[_Row]:
        if self.pid_file:
            found = [_in_pid_file(Path(self.pid_file))]
        else:
            found = [_row(pid) for pid in _matching(self.pattern)]
        return [row for row in found if row is not None and row.state not in "ZX"]


def process_in(pid_file: str) -> Process | None:
    """The process that a pid file names, so that others can look at it too; None where nobody can.

    One that is gone is still named: that it is gone is worth knowing.
    """
    pid = _pid(Path(pid_file)) if _has_table() else None
    if pid is None:
        return None
    row = _row(pid)
    if row is None:
        return Process(pid, 0.0)
    return Process(pid, row.started) if _is_older(row, Path(pid_file)) else None


def _in_pid_file(path: Path) -> _Row | None:
    pid = _pid(path)
    row = _row(pid) if pid is not None else None
    return row if row is not None and _is_older(row, path) else None


def _is_older(row: _Row, path: Path) -> bool:
    """A process that began after its file was written is somebody else with the same number."""
    try:
        return row.started <= path.stat().st_mtime + SLACK_S
    except OSError:
        return False


def _pid(path: Path) -> int | None:
    try:
        with path.open("rb") as file:
            words = file.read(PID_BYTES_MAX).split()
    except OSError:
        return None
    return int(words[0]) if words and words[0].isdigit() and len(words[0]) < 10 else None


def _matching(pattern: str) -> Iterable[int]:
    compiled = pattern_of(pattern)
    own = os.getpid()
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != own:
            try:
                with (entry / "cmdline").open("rb") as file:
                    line = file.read(LINE_BYTES_MAX).replace(b"\0", b" ").strip()
            except OSError:
                continue
            if line and compiled.search(line.decode("utf-8", "replace")):
                yield int(entry.name)


def _row(pid: int) -> _Row | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    # The name may hold spaces and brackets, so the fields are counted from its last bracket.
    fields = text.rpartition(")")[2].split()
    ticks = os.sysconf("SC_CLK_TCK")
    return _Row(
        pid=pid,
        state=fields[0],
        started=_booted() + int(fields[19]) / ticks,
        cpu_s=(int(fields[11]) + int(fields[12])) / ticks,
        rss_bytes=int(fields[21]) * os.sysconf("SC_PAGE_SIZE"),
    )


def _open_files(pid: int) -> int | None:
    try:
        return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return None  # those of other users are not shown


@cache
def _has_table() -> bool:
    return Path("/proc/self/stat").exists()


@cache
def _booted() -> int:
    for line in Path("/proc/stat").read_text().splitlines():
        if line.startswith("btime "):
            return int(line.split()[1])
    return 0


def _now() -> float:
    import time

    return _booted() + time.clock_gettime(time.CLOCK_BOOTTIME)


def read_process(table: Table, folder: str) -> ProcessProbe:
    """The probe of a description; a path is relative to it."""
    pid_file, pattern = table.text("pid_file"), table.regex("pattern")
    if bool(pid_file) == bool(pattern):
        raise table.wrong(f"{table.place} needs either 'pid_file' or 'pattern'.")
    where = str(Path(folder, Path(pid_file).expanduser())) if pid_file else ""
    return ProcessProbe(where, pattern)
