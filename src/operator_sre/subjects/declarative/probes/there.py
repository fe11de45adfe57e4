"""Files and processes where a target runs, read by commands that change nothing."""

from __future__ import annotations

import re
from dataclasses import dataclass

from operator_protocols.domain.action import Action, Outcome, Result
from operator_protocols.domain.excerpt import keep_last_line
from operator_protocols.ports import Job
from operator_sre.subjects.declarative.commands import UNREACHABLE, locate, refusal
from operator_sre.subjects.declarative.probes.place import Blind, Place

__all__ = ["FileState", "ProcessState", "read_end", "read_pid", "run_there", "see_file", "see_pid"]

END_BYTES_MAX = 64 * 1024
TICKS = 100  # of the kernel in a second, on every machine that runs Linux
SLACK_S = 2.0
_MISSING = re.compile(r"no such file|cannot stat|can't open|not found", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class FileState:
    """The state of a file, by the clock of its machine."""

    changed_at: float
    size_bytes: int
    is_regular: bool


@dataclass(frozen=True, slots=True)
class ProcessState:
    """The state of one process by the kernel of its machine."""

    pid: int
    state: str
    started_at: float
    age_s: float
    rss_bytes: int = 0


async def run_there(place: Place, *argv: str) -> Result:
    """The result of a command that only reads; Blind where it cannot run."""
    shell = place.settings.shell
    if shell is None:
        raise Blind("commands cannot be run here", ours=True)
    action = Action.program(argv, target=place.target.name)
    if why := refusal(action, place.settings, reviewed=False):
        raise Blind(why)
    try:
        result = await shell.run(await locate(action, shell), Job(timeout_s=place.timeout_s))
    except UNREACHABLE as error:
        raise Blind(f"its machine cannot be reached: {error}") from error
    if result.outcome is not Outcome.RAN or result.exit_code is None:
        raise Blind(f"{argv[0]} did not run there: {result.stderr.strip()[:100] or result.outcome}")
    if result.exit_code in (126, 127):
        raise Blind(f"{argv[0]} cannot be run there")
    return result


async def see_file(place: Place, path: str) -> FileState | None:
    """The state of a file; None where it does not exist."""
    result = await run_there(place, "stat", "-c", "%Y %s %F", "--", path)
    if result.exit_code:
        if _MISSING.search(result.stderr):
            return None
        raise Blind(f"the file cannot be read: {keep_last_line(result.stderr, 100)}")
    changed, size, kind = result.stdout.strip().split(" ", 2)
    return FileState(float(changed), int(size), kind.startswith("regular"))


async def read_end(place: Place, path: str, size_bytes: int = END_BYTES_MAX) -> bytes:
    """The last bytes of a file."""
    result = await run_there(place, "tail", "-c", str(size_bytes), "--", path)
    if result.exit_code:
        raise Blind(f"the file cannot be read: {keep_last_line(result.stderr, 100)}")
    return result.stdout.encode()


async def read_pid(place: Place, path: str) -> int | None:
    """The process that a pid file names; None where there is no such file."""
    result = await run_there(place, "cat", "--", path)
    if result.exit_code:
        if _MISSING.search(result.stderr):
            return None
        raise Blind(f"the pid file cannot be read: {keep_last_line(result.stderr, 100)}")
    words = result.stdout.split()
    if not words or not words[0].isdigit() or len(words[0]) > 9:
        raise Blind("the pid file does not hold the number of a process")
    return int(words[0])


async def see_pid(place: Place, pid: int) -> ProcessState | None:
    """The process of this number; None where there is none."""
    result = await run_there(place, "cat", f"/proc/{pid}/stat", "/proc/stat", "/proc/uptime")
    lines = result.stdout.splitlines()
    booted = next((int(line.split()[1]) for line in lines if line.startswith("btime ")), None)
    if booted is None or not lines:
        raise Blind("its machine does not show its processes under /proc")
    if not lines[0].startswith(f"{pid} "):
        return None
    # The name may hold spaces and brackets, so the fields are counted from its last bracket.
    fields = lines[0].rpartition(")")[2].split()
    started_s = int(fields[19]) / TICKS
    age_s = max(0.0, float(lines[-1].split()[0]) - started_s)
    return ProcessState(pid, fields[0], booted + started_s, age_s, int(fields[21]) * 4096)
