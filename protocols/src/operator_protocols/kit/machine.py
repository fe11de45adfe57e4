"""What lies beside a target on this machine: its process, its disk, its log, its files."""

from __future__ import annotations

import contextlib
import gzip
import os
import shutil
from importlib.util import find_spec
from pathlib import Path

from operator_protocols.domain.target import Process, Target
from operator_protocols.errors import MissingExtraError

__all__ = [
    "data_dir_of",
    "disk_room",
    "find_program",
    "has_exited",
    "is_paused",
    "is_running",
    "log_bytes",
    "replace_text",
    "rotate",
]

COPIES_MAX = 3
COPY_BYTES = 1 << 20
# The field of /proc/PID/stat behind its state that holds the start, counted from 0.
STARTED = 18
TICK_S = 1 / os.sysconf("SC_CLK_TCK")
# Setting the clock moves the boot time that the kernel reports by whole seconds.
STEP_S_MAX = 2.0
FRACTION_S_MAX = 0.005


def is_running(process: Process) -> bool:
    """It is alive, and not a later one with the same pid."""
    try:
        text = Path(f"/proc/{process.pid}/stat").read_text()
        state, *words = text.rpartition(")")[2].split()
        lines = Path("/proc/stat").read_text().splitlines()
        booted = float(next(line.split()[1] for line in lines if line.startswith("btime ")))
        apart_s = booted + int(words[STARTED]) * TICK_S - process.started
    except (OSError, ValueError, IndexError):
        return False
    whole = abs(apart_s - round(apart_s)) < FRACTION_S_MAX
    return state not in "ZX" and whole and abs(apart_s) < STEP_S_MAX + FRACTION_S_MAX


def has_exited(target: Target) -> bool:
    """Its process was on this machine, and is gone; False where that is unknown."""
    return target.process is not None and not target.runs_at and not is_running(target.process)


def is_paused(process: Process) -> bool:
    """A signal has stopped it (SIGSTOP) or a debugger has, and it is not a later process."""
    try:
        text = Path(f"/proc/{process.pid}/stat").read_text()
    except OSError:
        return False
    return text.rpartition(")")[2].split()[:1] in (["T"], ["t"]) and is_running(process)


def find_program(package: str, *parts: str, subject: str, program: str) -> Path:
    """A program of a rig that comes with a wheel; MissingExtraError names the extra without it."""
    found = find_spec(package)
    if found is None or found.origin is None:
        raise MissingExtraError("lab", needed_for=f"The rig of {subject!r}")
    place = Path(found.origin).parent.joinpath(*parts)
    if not os.access(place, os.X_OK):
        raise MissingExtraError("lab", needed_for=program)
    return place


def data_dir_of(target: Target) -> Path:
    """The data directory as its own process sees it: its volume may be mounted for it alone."""
    place = Path(target.data_dir)
    if target.process is not None and is_running(target.process):
        inside = Path(f"/proc/{target.process.pid}/root")
        own = inside / place.relative_to(place.anchor) if place.is_absolute() else place
        with contextlib.suppress(OSError):
            if own.exists():
                return own
    return place


def disk_room(place: Path) -> tuple[int, int] | None:
    """Free and total bytes on the disk of a path; None where they are unknown."""
    try:
        disk = os.statvfs(place)
    except (OSError, ValueError):
        return None
    return disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize


def log_bytes(target: Target) -> int | None:
    """The size of a target's log; None where it has none, or none on this machine."""
    if not target.log or target.runs_at:
        return None
    try:
        return Path(target.log).stat().st_size
    except (OSError, ValueError):
        return None


def replace_text(file: Path, text: str) -> None:
    """Replace a file atomically: readers see the old content or all of the new."""
    draft = file.with_name(f".{file.name}.new")
    draft.write_text(text, encoding="utf-8")
    if file.exists():
        shutil.copymode(file, draft)
    draft.replace(file)


def rotate(log: Path) -> tuple[int, str]:
    """Its size until now, and the name of the compressed copy beside it; older ones move on."""
    copies = [log.with_name(f"{log.name}.{number}.gz") for number in range(1, COPIES_MAX + 1)]
    draft = log.with_name(f".{log.name}.new.gz")
    with log.open("rb") as whole, gzip.open(draft, "wb", compresslevel=1) as kept:
        shutil.copyfileobj(whole, kept, COPY_BYTES)
        before = whole.tell()
    shutil.copymode(log, draft)
    for older, newer in zip(reversed(copies), (*reversed(copies[:-1]), draft), strict=True):
        if newer.exists():
            newer.replace(older)
    # Its writer holds it open, so it has to stay the same file.
    os.truncate(log, 0)
    return before, copies[0].name
