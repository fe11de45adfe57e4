"""Which processes belong to a directory: by their words, their environment or where they work."""

from __future__ import annotations

import os
from pathlib import Path

from tests.processes.waiting import younger_processes

__all__ = ["is_alive", "processes_of"]


def processes_of(directory: Path) -> dict[int, str]:
    """Every living process that has anything to do with a directory, by pid, with its words."""
    found: dict[int, str] = {}
    for pid in younger_processes():
        if pid == os.getpid():
            continue
        try:
            words, traces = _traces(Path(f"/proc/{pid}"))
        except OSError:  # it has ended meanwhile
            continue
        if any(str(directory) in trace for trace in traces) and is_alive(pid):
            found[pid] = words
    return found


def is_alive(pid: int) -> bool:
    """There is a process of this pid and it is more than a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def _traces(entry: Path) -> tuple[str, list[str]]:
    words = (entry / "cmdline").read_bytes().decode(errors="replace").replace("\0", " ")
    environment = (entry / "environ").read_bytes().decode(errors="replace")
    return words, [words, environment, str((entry / "cwd").readlink())]
