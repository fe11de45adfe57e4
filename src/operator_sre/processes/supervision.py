"""The orders and the state of a supervisor, as files and as messages."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from operator_protocols.domain.target import Process
from operator_protocols.errors import RigError
from operator_sre.processes.files import write_atomically

__all__ = [
    "LOG_FILE",
    "STATE_FILE",
    "SUPERVISE_FILE",
    "Child",
    "ChildState",
    "Orders",
    "Supervised",
    "Supervision",
    "Volume",
    "read_orders",
    "read_state",
    "write_orders",
    "write_state",
]

SUPERVISE_FILE = "supervise.json"
STATE_FILE = "state.json"
LOG_FILE = "supervisor.log"
GRACE_S = 2.0


@dataclass(frozen=True, slots=True)
class Supervised:
    """One process to run. `env` is all it gets; without `start` it waits to be asked for.

    The commands of `prepare` are run once, before its first start; `check` is the command that
    says by 0 that it is ready. With `uid` and `gid` all of that runs as this user.
    `inherits` names variables of its supervisor that it gets too: their values are written nowhere.
    """

    name: str
    argv: tuple[str, ...]
    cwd: str
    log: str
    env: Mapping[str, str] = field(default_factory=dict)
    start: bool = True
    prepare: tuple[tuple[str, ...], ...] = ()
    check: tuple[str, ...] = ()
    uid: int | None = None
    gid: int | None = None
    inherits: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Volume:
    """A file system of its own size, in memory, at an empty directory."""

    path: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Orders:
    """All that one supervisor runs; `grace_s` lies between TERM and KILL.

    `volumes` are mounted in its own namespace, which ends with it. At the end it
    unmounts whatever is mounted in its directory and in those of `removes`, and removes the latter.
    """

    processes: tuple[Supervised, ...]
    grace_s: float = GRACE_S
    volumes: tuple[Volume, ...] = ()
    removes: tuple[str, ...] = ()


class ChildState(StrEnum):
    """Where a supervised process stands, as its parent knows it."""

    NEW = "new"
    RUNNING = "running"
    EXITED = "exited"


@dataclass(frozen=True, slots=True)
class Child:
    """The state of one process; `process` is the last process with this name."""

    name: str
    state: ChildState = ChildState.NEW
    process: Process | None = None
    exit_code: int | None = None
    restarts: int = 0


@dataclass(frozen=True, slots=True)
class Supervision:
    """Everything a supervisor records; `mark` is in the environment of all that it started.

    `unmounted` says why it could not mount its volumes, or "".
    """

    supervisor: Process
    socket: str
    mark: str
    children: tuple[Child, ...]
    unmounted: str = ""

    def child(self, name: str) -> Child:
        """One of them by name."""
        for child in self.children:
            if child.name == name:
                return child
        raise RigError(f"Unknown process {name!r}.")

    def to_json(self) -> str:
        """One line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str | bytes) -> Supervision:
        """The same again; RigError when it is something else."""
        try:
            record = json.loads(text)
            return cls(
                supervisor=Process(**record["supervisor"]),
                socket=record["socket"],
                mark=record["mark"],
                children=tuple(
                    Child(
                        name=each["name"],
                        state=ChildState(each["state"]),
                        process=None if each["process"] is None else Process(**each["process"]),
                        exit_code=each["exit_code"],
                        restarts=each["restarts"],
                    )
                    for each in record["children"]
                ),
                unmounted=record.get("unmounted", ""),
            )
        except (ValueError, TypeError, KeyError) as problem:
            raise RigError(f"The state of the supervisor cannot be read: {problem}.") from problem


def write_orders(
    directory: Path,
    orders: Sequence[Supervised],
    *,
    grace_s: float = GRACE_S,
    volumes: Sequence[Volume] = (),
    removes: Sequence[str] = (),
) -> None:
    """Tell the supervisor of this directory what to run, and how long TERM may take."""
    record = {
        "grace_s": grace_s,
        "processes": [asdict(order) for order in orders],
        "volumes": [asdict(volume) for volume in volumes],
        "removes": list(removes),
    }
    write_atomically(directory / SUPERVISE_FILE, json.dumps(record, indent=1))


def read_orders(directory: Path) -> Orders:
    """What the supervisor of this directory is to run; RigError when that cannot be read."""
    path = directory / SUPERVISE_FILE
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        return Orders(
            tuple(_parse_supervised(each) for each in record["processes"]),
            float(record.get("grace_s", GRACE_S)),
            tuple(Volume(**each) for each in record.get("volumes", ())),
            tuple(record.get("removes", ())),
        )
    except (OSError, ValueError, TypeError, KeyError) as problem:
        raise RigError(f"{str(path)!r} cannot be read: {problem}.") from problem


def _parse_supervised(record: Mapping[str, Any]) -> Supervised:
    prepare = tuple(tuple(argv) for argv in record.get("prepare", ()))
    names = ("argv", "check", "inherits")
    lists: dict[str, Any] = {name: tuple(record.get(name, ())) for name in names}
    return Supervised(**{**record, **lists, "prepare": prepare})


def write_state(directory: Path, state: Supervision) -> None:
    """Record what is so now."""
    write_atomically(directory / STATE_FILE, state.to_json())


def read_state(directory: Path) -> Supervision | None:
    """What the supervisor recorded last; None when it never did."""
    try:
        text = (directory / STATE_FILE).read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as problem:
        raise RigError(f"The state of the supervisor cannot be read: {problem}.") from problem
    return Supervision.from_json(text)
