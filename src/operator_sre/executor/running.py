"""What runs right now, noted where another process of this home can find it and end it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from operator_protocols.domain.target import Process
from operator_sre.processes.tree import Tree

__all__ = ["Noted", "Running"]

GRACE_S = 2.0
log = logging.getLogger(__name__)


class Running:
    """A folder with a file for each command that runs on this machine.

    A pid may be somebody else by now, so its start time and the mark of its tree go along.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def note(self, process: Process, mark: str) -> Path:
        """Write it down, whole or not at all."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = self._folder / f"{process.pid}-{mark.rstrip('.')[-16:]}.json"
        text = json.dumps({"pid": process.pid, "started": process.started, "mark": mark})
        half = path.with_suffix(".half")
        half.write_text(text)
        half.replace(path)
        return path

    async def end_all(self, *, grace_s: float = GRACE_S) -> tuple[int, ...]:
        """End every noted tree, TERM and then KILL; returns the pids of those that lived."""
        ended: set[int] = set()
        # Once more, for what was started while the others were being ended.
        while found := list(self._found()):
            lived = await asyncio.gather(*(_end(one, grace_s) for one in found))
            ended |= {one.process.pid for one, was in zip(found, lived, strict=True) if was}
        return tuple(sorted(ended))

    def _found(self) -> Iterator[_Note]:
        with contextlib.suppress(FileNotFoundError):
            for path in sorted(self._folder.glob("*.json")):
                if note := _read(path):
                    yield note


class Noted:
    """The note of one command, from its start to its end."""

    def __init__(self, running: Running | None) -> None:
        self._running = running
        self._path: Path | None = None

    def begin(self, process: Process, mark: str) -> None:
        """It has started."""
        try:
            self._path = self._running.note(process, mark) if self._running else None
        except OSError as error:  # whoever runs it follows the kill switch all the same
            log.error("cannot note what runs: %s", error)

    def end(self) -> None:
        """It is over."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class _Note:
    path: Path
    process: Process
    mark: str


def _read(path: Path) -> _Note | None:
    try:
        body = json.loads(path.read_text())
        return _Note(path, Process(int(body["pid"]), float(body["started"])), str(body["mark"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None  # it has ended meanwhile, or is no note of ours


async def _end(note: _Note, grace_s: float) -> bool:
    """End a tree; False when nothing of it was left."""
    tree = Tree(note.process, mark=note.mark)
    lived = bool(tree.members())
    if lived:
        await tree.end(grace_s=grace_s)
    note.path.unlink(missing_ok=True)
    return lived
