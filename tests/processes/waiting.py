"""Wait for a condition, never for time; and see who is left in a directory."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from operator_sre.processes.identity import process_of, rows

__all__ = [
    "eventually",
    "gone",
    "names_in",
    "pids_in",
    "processes_in",
    "timed_out_after_start",
    "younger_processes",
]

T = TypeVar("T")


async def eventually(condition: Callable[[], object], *, within_s: float = 100.0) -> None:
    """Return when the condition holds; fail when it does not before the test would time out."""
    ends = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < ends, f"not within {within_s} s"
        await asyncio.sleep(0.01)


async def timed_out_after_start(
    run: Callable[[float], Awaitable[T]], has_started: Callable[[T], object]
) -> T:
    """What `run` returns for the first time limit that let the command start at all.

    How long a start takes depends on what else the machine does; the limit must not end it before.
    """
    for timeout_s in (1.0, 6.0, 36.0):
        result = await run(timeout_s)
        if has_started(result):
            return result
    raise AssertionError("it did not start within 36 s")


def pids_in(file: Path) -> list[int]:
    """The pids that the processes of a test wrote down, one a line."""
    return [int(line) for line in file.read_text().split()] if file.exists() else []


def gone(pids: list[int]) -> bool:
    """None of them is alive."""
    return all(process_of(pid) is None for pid in pids)


def names_in(directory: Path) -> list[str]:
    """What lies in a directory."""
    return sorted(path.name for path in directory.iterdir())


def processes_in(directory: Path) -> list[int]:
    """Every process that works in this directory or was started with it as an argument."""
    found = []
    for pid in younger_processes():
        with contextlib.suppress(OSError):
            cwd = str(Path(f"/proc/{pid}/cwd").readlink())
            words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
            is_ours = "operator_sre" in words and str(directory) in words
            if cwd.startswith(str(directory)) or is_ours:
                found.append(pid)
    return found


def younger_processes() -> list[int]:
    """Every living process that was started after this one: no other can belong to a test."""
    table = rows()
    born = table[os.getpid()].process.started
    return [pid for pid, row in table.items() if row.process.started >= born and not row.dead]
