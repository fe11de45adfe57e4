"""What can be seen of a server from its machine, whether or not it answers: disk, log, process."""

from __future__ import annotations

import os
from pathlib import Path

from operator_protocols.domain.observation import Value
from operator_protocols.domain.target import Process, Target

__all__ = ["place_of", "runs", "seen_here"]

# The field of /proc/PID/stat behind its state that holds the start, counted from 0.
_STARTED = 18
# Setting the clock moves the boot time that the kernel reports by whole seconds.
STEP_S_MAX = 2.0
TICK_S = 1 / os.sysconf("SC_CLK_TCK")
FRACTION_S_MAX = 0.005


def seen_here(target: Target) -> dict[str, Value]:
    """Room on its disk and the length of its log; nothing of what is not on this machine."""
    if target.runs_at:
        return {}
    found: dict[str, Value] = {}
    if target.data_dir:
        found |= {"disk_watched": True, **_disk(target)}
    if target.log:
        try:
            found["log_bytes"] = Path(target.log).stat().st_size
        except OSError:
            found["log_bytes"] = 0
    return found


def place_of(target: Target) -> Path:
    """The data directory as its own process sees it: its volume may be mounted for it alone."""
    place = Path(target.data_dir)
    if target.process is not None and runs(target.process):
        inside = Path(f"/proc/{target.process.pid}/root")
        own = inside / place.relative_to(place.anchor) if place.is_absolute() else place
        if _is_there(own):
            return own
    return place


def runs(process: Process) -> bool:
    """It is alive, and not a later one with the same pid."""
    try:
        text = Path(f"/proc/{process.pid}/stat").read_text()
        state, *words = text.rpartition(")")[2].split()
        apart_s = _boot_time() + int(words[_STARTED]) * TICK_S - process.started
    except (OSError, ValueError, IndexError):
        return False
    whole = abs(apart_s - round(apart_s)) < FRACTION_S_MAX
    return state not in "ZX" and whole and abs(apart_s) < STEP_S_MAX + FRACTION_S_MAX


def _boot_time() -> float:
    lines = Path("/proc/stat").read_text().splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith("btime ")))


def _disk(target: Target) -> dict[str, Value]:
    try:
        found = os.statvfs(place_of(target))
    except OSError:
        return {}
    total, free = found.f_frsize * found.f_blocks, found.f_frsize * found.f_bavail
    if not total:
        return {}
    return {
        "disk_total_bytes": total,
        "disk_free_bytes": free,
        "disk_free_ratio": round(free / total, 4),
    }


def _is_there(place: Path) -> bool:
    try:
        return place.exists()
    except OSError:
        return False
