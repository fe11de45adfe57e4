"""Who called: from the two ports of a connection to the process of the rig that holds it."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from operator_sre.lab.sockets import Ends, callers_sockets
from operator_sre.processes.identity import tree_of
from operator_sre.processes.supervision import read_state

__all__ = ["callers"]


def callers(directory: Path, names: Collection[str], ends: Iterable[Ends]) -> dict[Ends, str]:
    """The names of those processes of a rig that hold these connections; strangers have none."""
    sockets = callers_sockets(ends)
    found: dict[Ends, str] = {}
    if not sockets:
        return found
    for name, pids in _pids(directory, names).items():
        for pid in pids:
            held = _held(pid, sockets)
            found.update((sockets[each], name) for each in held)
            if len(found) == len(sockets):
                return found
    return found


def _pids(directory: Path, names: Collection[str]) -> dict[str, list[int]]:
    """The processes of each name: the one that was started and all that came out of it."""
    state = read_state(directory)
    children = () if state is None else state.children
    return {
        child.name: _with_descendants(child.process.pid)
        for child in children
        if child.name in names and child.process is not None
    }


def _with_descendants(pid: int) -> list[int]:
    found, queue = [], [pid]
    while queue:
        each = queue.pop()
        found.append(each)
        try:
            queue.extend(_children(each))
        except FileNotFoundError:
            if Path(f"/proc/{each}").exists():
                # A kernel that does not list children: the whole table has to be looked through.
                return [pid, *(process.pid for process in tree_of(pid))]
    return found


def _children(pid: int) -> list[int]:
    children: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        children += map(int, (task / "children").read_text().split())
    return children


def _held(pid: int, sockets: Mapping[str, Ends]) -> list[str]:
    held = []
    with contextlib.suppress(OSError):
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                name = str(entry.readlink())
                if name in sockets:
                    held.append(name)
    return held
