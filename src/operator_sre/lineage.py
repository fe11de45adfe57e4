"""Whether this process is a command of an agent, by the kernel's chain of parents.

Every command of an agent is a descendant of a runner, which adopts the children that lose their
parent. A process cannot leave that chain by clearing its environment, by starting a session of its
own or under another name, or by forking twice. A process that pretends to have a runner above it
only loses trust, so nothing has to prevent that.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from operator_protocols.domain.action import MARK

__all__ = ["RUNNER", "is_started_by_runner"]

RUNNER = "operator_sre.processes.runner.daemon"
PROC = Path("/proc")
DEPTH_MAX = 1000
WALKS_MAX = 50


@cache
def is_started_by_runner(proc: Path = PROC) -> bool:
    """Whether a runner, or a process that carries the mark of one, is among our ancestors.

    The answer stays: a process that was started by a runner may outlive it. Where there is no
    /proc, nothing is known about ancestors, and the answer is False. An ancestor that the kernel
    hides belongs to another user, and ends the chain.
    """
    if not (proc / "self" / "stat").exists():
        return False
    for _ in range(WALKS_MAX):
        found = _walk(proc)
        if found is not None:
            return found
    return True  # a chain that changes faster than it is read hides something


def _walk(proc: Path) -> bool | None:
    """Walk up the chain once; None when it changed meanwhile, because a parent ended."""
    # Not `os.getpid`: in a namespace of its own a process has another number than /proc shows.
    row = _stat(proc / "self")
    child = proc / "self"
    for _ in range(DEPTH_MAX):
        if row is None:
            return None
        number, born = row
        if number == 0:
            return False
        parent = proc / str(number)
        above = _stat(parent)
        signs = _has_signs(parent)
        # The number may belong to a new process by now: then the child has another parent.
        again = _stat(child)
        if again != row or (above is not None and above[1] > born):
            return None
        if signs:
            return True
        if above is None:
            return False
        child, row = parent, above
    return True


def _stat(process: Path) -> tuple[int, int] | None:
    """The number of its parent, and when it was started; None when it cannot be read."""
    try:
        text = (process / "stat").read_text(errors="replace")
    except OSError:
        return None
    # The name may hold spaces and brackets, so the fields are counted from its last bracket.
    fields = text.rpartition(")")[2].split()
    return int(fields[1]), int(fields[19])


def _has_signs(process: Path) -> bool:
    """Whether a process is a runner, or has the mark of one in its environment."""
    try:
        if RUNNER.encode() in (process / "cmdline").read_bytes().split(b"\0"):
            return True
        variables = (process / "environ").read_bytes().split(b"\0")
    except OSError:
        return False
    return any(variable.startswith(f"{MARK}=".encode()) for variable in variables)
