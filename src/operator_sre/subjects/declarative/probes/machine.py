"""Files and processes: the contents of a file, the kernel's view of a process."""

from __future__ import annotations

import asyncio
import os
import stat
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from operator_protocols.domain.target import Process
from operator_sre.subjects.declarative.document import Table
from operator_sre.subjects.declarative.patterns import pattern_of
from operator_sre.subjects.declarative.probes.place import Blind, Place, down, up
from operator_sre.subjects.declarative.probes.there import (
    ProcessState,
    read_end,
    read_pid,
    run_there,
    see_file,
    see_pid,
)
from operator_sre.subjects.declarative.values import Extraction, Readings, read_extraction

__all__ = [
    "FILE_KEYS",
    "PROCESS_KEYS",
    "ProcessProbe",
    "is_alive",
    "process_in",
    "process_there",
    "read_file",
    "read_process",
]

FILE_KEYS = ("path", "matches")
PROCESS_KEYS = ("pid_file", "pattern")
END_BYTES_MAX = 64 * 1024
PID_BYTES_MAX = 64
LINE_BYTES_MAX = 8192
# The kernel counts time in ticks, and a file's time may be a little before that of its writer.
SLACK_S = 2.0


@dataclass(frozen=True, slots=True)
class FileProbe:
    """One file; a pattern is looked for in its last 64 kB."""

    path: str
    extraction: Extraction

    @property
    def fields(self) -> frozenset[str]:
        """The values that it can give."""
        own = frozenset({"up", "ok", "error", "exists", "age_s", "size_bytes"})
        return own | self.extraction.fields

    async def observe(self, place: Place) -> Readings:
        """Observe it in a thread, because a file system may hang."""
        if place.target.runs_at:
            return await self._read_there(place)
        try:
            async with asyncio.timeout(place.timeout_s):
                return await asyncio.to_thread(self._read)
        except TimeoutError:
            raise Blind("the file system does not answer") from None

    async def _read_there(self, place: Place) -> Readings:
        found = await see_file(place, self.path)
        if found is None:
            return down("the file does not exist", exists=False)
        now = await run_there(place, "date", "+%s")
        readings: Readings = {
            "exists": True,
            "age_s": round(max(0.0, float(now.stdout) - found.changed_at), 3),
            "size_bytes": found.size_bytes,
        }
        if self.extraction.pattern:
            if not found.is_regular:
                raise Blind("it is not a regular file")
            readings |= self.extraction.extract(None, await read_end(place, self.path))
        return up(readings, "it does not match" if readings.get("matched") is False else "")

    def _read(self) -> Readings:
        try:
            state = Path(self.path).stat()
        except (FileNotFoundError, NotADirectoryError):
            return down("the file does not exist", exists=False)
        except OSError as error:
            raise Blind(f"the file cannot be read: {error.strerror}") from error
        readings: Readings = {
            "exists": True,
            "age_s": round(max(0.0, time.time() - state.st_mtime), 3),
            "size_bytes": state.st_size,
        }
        if self.extraction.pattern:
            if not stat.S_ISREG(state.st_mode):
                raise Blind("it is not a regular file")
            try:
                # What has become a pipe meanwhile is not waited for.
                number = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
                with os.fdopen(number, "rb") as file:
                    file.seek(max(0, state.st_size - END_BYTES_MAX))
                    end = file.read(END_BYTES_MAX)
            except OSError as error:
                raise Blind(f"the file cannot be read: {error.strerror}") from error
            readings |= self.extraction.extract(None, end)
        return up(readings, "it does not match" if readings.get("matched") is False else "")


def read_file(table: Table, folder: str) -> FileProbe:
    """Parse the probe of a description; a path is relative to it."""
    path = Path(folder, Path(table.require_text("path")).expanduser())
    return FileProbe(str(path), read_extraction(table, table, body="matches"))


@dataclass(frozen=True, slots=True)
class _Row:
    """The kernel's view of one process."""

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

    async def observe(self, place: Place) -> Readings:
        """Read the table of processes."""
        if place.target.runs_at:
            return await self._read_there(place)
        if not _has_table():
            raise Blind("this machine does not show its processes under /proc")
        rows, open_files = await asyncio.to_thread(self._read)
        if not rows:
            return down("the process does not exist", alive=False, count=0)
        now = _read_boot_time() + time.clock_gettime(time.CLOCK_BOOTTIME)
        readings: Readings = {
            "alive": True,
            "count": len(rows),
            "pid": rows[0].pid,
            "state": "stopped" if rows[0].state in "Tt" else "running",
            "rss_bytes": sum(row.rss_bytes for row in rows),
            "age_s": round(max(0.0, now - min(row.started for row in rows)), 2),
        }
        if open_files is not None:
            readings["open_files"] = open_files
        # Each process by itself: a process that came or went would make the sum jump.
        used = {f"cpu of {row.pid} since {row.started}": row.cpu_s for row in rows}
        rates = [place.rate(name, cpu_s) for name, cpu_s in used.items()]
        place.forget_others(used)
        known = [rate for rate in rates if rate is not None]
        if known:
            readings["cpu_percent"] = round(sum(known) * 100, 2)
        stopped = readings["state"] == "stopped"
        return up(readings, "the process is stopped" if stopped else "")

    async def _read_there(self, place: Place) -> Readings:
        if self.pid_file:
            found = [state] if (state := await process_there(place, self.pid_file)) else []
        else:
            result = await run_there(place, "ps", "-eo", "pid=,stat=,etimes=,rss=,args=")
            if result.exit_code:
                raise Blind("ps cannot list the processes there; use 'pid_file'")
            pattern, found = pattern_of(self.pattern), []
            for line in result.stdout.splitlines():
                words = line.split(None, 4)
                if len(words) == 5 and words[1][0] not in "ZX" and pattern.search(words[4]):
                    pid, age_s, rss_kb = int(words[0]), float(words[2]), int(words[3])
                    found.append(ProcessState(pid, words[1][0], 0.0, age_s, rss_kb * 1024))
        if not found:
            return down("the process does not exist", alive=False, count=0)
        stopped = found[0].state in "Tt"
        readings: Readings = {
            "alive": True,
            "count": len(found),
            "pid": found[0].pid,
            "state": "stopped" if stopped else "running",
            "rss_bytes": sum(state.rss_bytes for state in found),
            "age_s": round(max(state.age_s for state in found), 2),
        }
        return up(readings, "the process is stopped" if stopped else "")

    def _read(self) -> tuple[list[_Row], int | None]:
        """The processes, and how many files they have open; those of other users are not shown."""
        rows: list[_Row | None] = []
        if self.pid_file:
            path = Path(self.pid_file)
            pid = _read_pid(path)
            row = _read_row(pid) if pid is not None else None
            rows.append(row if row is not None and _is_older(row, path) else None)
        else:
            pattern = pattern_of(self.pattern)
            for entry in Path("/proc").iterdir():
                if not entry.name.isdecimal() or int(entry.name) == os.getpid():
                    continue
                try:
                    with (entry / "cmdline").open("rb") as file:
                        line = file.read(LINE_BYTES_MAX).replace(b"\0", b" ").strip()
                except OSError:
                    continue
                if line and pattern.search(line.decode("utf-8", "replace")):
                    rows.append(_read_row(int(entry.name)))
        living = [row for row in rows if row is not None and row.state not in "ZX"]
        try:
            return living, sum(1 for row in living for _ in Path(f"/proc/{row.pid}/fd").iterdir())
        except OSError:
            return living, None


async def process_there(place: Place, pid_file: str) -> ProcessState | None:
    """The running process that a pid file elsewhere names; None where there is none."""
    pid = await read_pid(place, pid_file)
    state = await see_pid(place, pid) if pid is not None else None
    if state is None or state.state in "ZX":
        return None
    file = await see_file(place, pid_file)
    # A younger process only reuses the number.
    return state if file and state.started_at <= file.changed_at + SLACK_S else None


def process_in(pid_file: str) -> Process | None:
    """The process that a pid file names, for other probes as well; None where it is unknown.

    A process that is gone is still named: that it is gone is worth knowing.
    """
    pid = _read_pid(Path(pid_file)) if _has_table() else None
    if pid is None:
        return None
    row = _read_row(pid)
    if row is None:
        return Process(pid, 0.0)
    return Process(pid, row.started) if _is_older(row, Path(pid_file)) else None


def is_alive(pid_file: str) -> bool:
    """Whether the process that a pid file names runs; a zombie does not."""
    pid = _read_pid(Path(pid_file))
    row = _read_row(pid) if pid is not None else None
    return row is not None and row.state not in "ZX" and _is_older(row, Path(pid_file))


def _is_older(row: _Row, path: Path) -> bool:
    """A process that is younger than its pid file's content only reuses the number."""
    try:
        return row.started <= path.stat().st_mtime + SLACK_S
    except OSError:
        return False


def _read_pid(path: Path) -> int | None:
    try:
        with path.open("rb") as file:
            words = file.read(PID_BYTES_MAX).split()
    except OSError:
        return None
    return int(words[0]) if words and words[0].isdigit() and len(words[0]) < 10 else None


def _read_row(pid: int) -> _Row | None:
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
        started=_read_boot_time() + int(fields[19]) / ticks,
        cpu_s=(int(fields[11]) + int(fields[12])) / ticks,
        rss_bytes=int(fields[21]) * os.sysconf("SC_PAGE_SIZE"),
    )


@cache
def _has_table() -> bool:
    return Path("/proc/self/stat").exists()


@cache
def _read_boot_time() -> int:
    for line in Path("/proc/stat").read_text().splitlines():
        if line.startswith("btime "):
            return int(line.split()[1])
    return 0


def read_process(table: Table, folder: str) -> ProcessProbe:
    """Parse the probe of a description; a path is relative to it."""
    pid_file, pattern = table.text("pid_file"), table.regex("pattern")
    if bool(pid_file) == bool(pattern):
        raise table.wrong(f"{table.place} needs either 'pid_file' or 'pattern'.")
    where = str(Path(folder, Path(pid_file).expanduser())) if pid_file else ""
    return ProcessProbe(where, pattern)
