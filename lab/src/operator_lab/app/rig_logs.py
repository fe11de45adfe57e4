"""The logs of a rig's processes: the last lines, and new ones."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from operator_lab.manifest import LOAD
from operator_lab.rig import Rig
from operator_lab.stacks.containers import at_once
from operator_lab.stacks.record import is_stack
from operator_lab.stacks.rig import StackRig
from operator_lab.stacks.target import ComposeTarget
from operator_protocols.errors import NotFoundError, UsageError
from operator_sre.app.wiring import App

__all__ = ["LogView", "follow_logs", "read_logs"]

TAIL_BYTES_MAX = 1 << 20
LINE_BYTES_MAX = 1 << 16
POLL_S = 0.2


@dataclass(frozen=True, slots=True)
class LogView:
    """Lines of one process, the last one last; without whatever ends a line."""

    target: str
    log: str
    lines: tuple[str, ...]


def read_logs(app: App, subject: str, *, target: str | None, lines: int) -> tuple[LogView, ...]:
    """The last lines of one process of a rig, or of each."""
    if is_stack(app.rig_directory(subject)):
        rig = StackRig.attach(app.rig_directory(subject))
        output = at_once(ComposeTarget(rig.record(), rig.directory).logs(target, lines=lines))
        lines_of: dict[str, list[str]] = {}
        for name, _, line in (each.partition(" | ") for each in output):
            lines_of.setdefault(name, []).append(line)
        return tuple(LogView(name, "", tuple(found)) for name, found in sorted(lines_of.items()))
    return tuple(
        LogView(name, str(log), tuple(_last(log, lines)))
        for name, log in _logs(app, subject, target)
    )


async def follow_logs(
    app: App, subject: str, *, target: str | None, lines: int
) -> AsyncIterator[LogView]:
    """The last lines, and then every new line, until the caller stops."""
    if is_stack(app.rig_directory(subject)):
        project = StackRig.attach(app.rig_directory(subject)).record().project
        raise UsageError(
            "Operator cannot follow the logs of containers.",
            next_step=f"Use: docker compose --project-name {project} logs --follow",
        )
    tails = [_Tail(name, log) for name, log in _logs(app, subject, target)]
    for tail in tails:
        if known := _last(tail.log, lines, until=tail.at):
            yield LogView(tail.name, str(tail.log), tuple(known))
    while True:
        for tail in tails:
            if new := tail.new():
                yield LogView(tail.name, str(tail.log), tuple(new))
        await asyncio.sleep(POLL_S)


def _logs(app: App, subject: str, target: str | None) -> Sequence[tuple[str, Path]]:
    """The processes of a rig with their logs, the load among them."""
    rig = Rig.attach(app.rig_directory(subject))
    ours = {*(target.name for target in rig.targets()), LOAD}
    found = {
        process.name: Path(process.log)
        for process in rig.status().processes
        if process.name in ours
    }
    if target is None:
        return tuple(found.items())
    if target not in found:
        raise NotFoundError(
            f"There is no target {target!r} in the rig of {subject!r}.",
            next_step=f"Logs: {', '.join(found)}.",
        )
    return ((target, found[target]),)


def _last(log: Path, lines: int, until: int | None = None) -> list[str]:
    try:
        with log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            end = size if until is None else min(size, until)
            begin = max(0, end - TAIL_BYTES_MAX)
            file.seek(begin)
            found = _split(file.read(end - begin))
    except FileNotFoundError:
        return []
    # Where only the end was read, its first line need not be whole.
    return (found[1:] if begin and len(found) > 1 else found)[-lines:]


def _split(data: bytes) -> list[str]:
    lines = data.removesuffix(b"\n").split(b"\n") if data else []
    return [line.removesuffix(b"\r").decode(errors="replace") for line in lines]


class _Tail:
    """The end of one log, which may grow, be cut short or be replaced."""

    def __init__(self, name: str, log: Path) -> None:
        self.name, self.log = name, log
        self._inode, self.at = self._place()
        self._begun = b""

    def new(self) -> list[str]:
        """The lines that were finished since we looked last."""
        inode, size = self._place()
        if inode != self._inode:
            self._inode, self.at, self._begun = inode, 0, b""
        elif size < self.at:
            self.at, self._begun = size, b""
        if size == self.at:
            return []
        with self.log.open("rb") as file:
            file.seek(self.at)
            data = file.read(TAIL_BYTES_MAX)
        self.at += len(data)
        whole, end, rest = (self._begun + data).rpartition(b"\n")
        if len(rest) > LINE_BYTES_MAX:
            whole, end, rest = self._begun + data, b"\n", b""
        self._begun = rest
        return _split(whole) if end else []

    def _place(self) -> tuple[int, int]:
        try:
            found = self.log.stat()
        except FileNotFoundError:
            return 0, 0
        return found.st_ino, found.st_size
