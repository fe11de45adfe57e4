"""How much the processes of one session use, without reading the whole process table."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Usage", "free_bytes", "usage_of"]

TASKS_MAX = 4096


@dataclass(frozen=True, slots=True)
class Usage:
    """How many processes and threads there are, the memory that is theirs, and their open files.

    A socket or a pipe holds memory of the kernel, which is no process's own.
    """

    tasks: int
    memory_bytes: int
    descriptors: int = 0


def usage_of(roots: Iterable[int], *, memory: bool = True) -> Usage:
    """What these processes and all that came out of them use now."""
    waiting, seen = list(roots), set[int]()
    tasks = used = opened = 0
    while waiting and len(seen) < TASKS_MAX:
        pid = waiting.pop()
        if pid in seen:
            continue
        seen.add(pid)
        with contextlib.suppress(OSError, ValueError):
            for task in Path(f"/proc/{pid}/task").iterdir():
                tasks += 1
                with contextlib.suppress(OSError):
                    waiting += map(int, (task / "children").read_text().split())
            if memory:
                # What a process holds that is no file, with the tables of its pages. A page that
                # several share counts in parts; in full for a process that does not let us see it.
                state = _fields(Path(f"/proc/{pid}/status").read_text())
                tables_kib = int(state.get("VmPTE", "0").split()[0])
                try:
                    parts = _fields(Path(f"/proc/{pid}/smaps_rollup").read_text())
                    names = ("Pss_Anon", "Pss_Shmem")
                except PermissionError:
                    parts, names = state, ("RssAnon", "RssShmem")
                memory_bytes = (
                    tables_kib + sum(int(parts.get(name, "0").split()[0]) for name in names)
                ) * 1024
                used += memory_bytes
                # How many files a process has open; older kernels do not tell it without a list of
                # them.
                folder = f"/proc/{pid}/fd"
                descriptors = os.stat(folder).st_size or len(os.listdir(folder))
                opened += descriptors
    return Usage(tasks, used, opened)


def _fields(text: str) -> dict[str, str]:
    lines = (line.partition(":") for line in text.splitlines())
    return {name: value for name, mark, value in lines if mark}


def free_bytes() -> tuple[int, int]:
    """The memory that this machine could still give, and all that it has."""
    found = {"MemAvailable": 1 << 62, "MemTotal": 1 << 62}
    with contextlib.suppress(OSError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            name, _, rest = line.partition(":")
            if name in found:
                found[name] = int(rest.split()[0]) * 1024
    return found["MemAvailable"], found["MemTotal"]
