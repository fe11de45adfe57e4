"""A Rig is a disposable copy of a Subject, described as data that the lab runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from operator_protocols.domain.target import Access

__all__ = ["Artifact", "LoadClient", "LoadShape", "LoadSpec", "ProcessSpec", "RigSpec"]


@dataclass(frozen=True, slots=True)
class Artifact:
    """A file that a rig needs: its path in a Maven repository, its digest, and where it is kept.

    The lab fetches it where `file` is missing or has another digest.
    """

    path: str
    sha256: str
    size_bytes: int
    file: str


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """One process of a rig.

    Blanks in `argv`, `env`, `files`, `prepare`, `cleanup`, `ready_argv` and the paths of `access`:
    `{port}` and `{port:NAME}` are the ports it listens on itself, `{OTHER.port}` and
    `{OTHER.port:NAME}` are where OTHER is reached (itself too, when it is named), `{dir}` is its
    own directory, `{volume}` the directory for its data, `{OTHER.dir}` the directory of OTHER.

    `ports` names further ports. What is `linked` is reached by everybody else through links that
    the lab can cut and slow down, on all its ports. `files` (path below `{dir}` -> text) are
    written and then the commands of `prepare` are run once, before its first start. The commands of
    `cleanup` remove what it made elsewhere: they run when the rig is taken down, after everything
    has ended, also after a crash, and perhaps more than once. With
    `volume_mb` its volume is a file system of that size, where the machine can make one. What is
    `unprivileged` never runs as root. It is ready when `ready_path` answers 200 over HTTP, or
    `ready_argv` exits with 0, or, without both, when a connection is accepted.
    """

    name: str
    kind: str
    argv: tuple[str, ...]
    depends_on: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    ready_path: str = ""
    ready_argv: tuple[str, ...] = ()
    ready_s_max: float = 20.0
    ports: tuple[str, ...] = ()
    linked: bool = False
    files: Mapping[str, str] = field(default_factory=dict)
    prepare: tuple[tuple[str, ...], ...] = ()
    cleanup: tuple[tuple[str, ...], ...] = ()
    volume_mb: int = 0
    unprivileged: bool = False
    access: Access | None = None


class LoadClient(Protocol):
    """Sends the requests of a load in its own way."""

    async def ask(self, turn: int) -> str:
        """Send the request of this turn: `good`, `bad`, `late` or `refused`. Never raises."""
        ...


class LoadShape(StrEnum):
    """How traffic comes: evenly; ten times as much in one second of ten; rising for a minute."""

    STEADY = "steady"
    BURST = "burst"
    RAMP = "ramp"


@dataclass(frozen=True, slots=True)
class LoadSpec:
    """Traffic on every process of a kind, round robin: a JSON POST to `path`, or a `statement`.

    In the values of `body`, and in `statement`, `{n}` is a number from 0 to 99 that goes up with
    every request. `dsn` says how to connect for a statement of SQL; `{port}` in it is the port of
    the process. `rate_per_s` is the mean of STEADY and BURST, and where RAMP ends. Where requests
    must find their way, as to the leader of a region, `client` is the `module:name` of what sends
    them: it is called with the host and the ports of the processes, and is a `LoadClient`.
    """

    kind: str
    path: str = ""
    body: Mapping[str, str] = field(default_factory=dict)
    rate_per_s: float = 10.0
    shape: LoadShape = LoadShape.STEADY
    statement: str = ""
    dsn: str = ""
    client: str = ""


@dataclass(frozen=True, slots=True)
class RigSpec:
    """Everything the lab needs to bring a copy of a Subject to life.

    `options` configure the subject that observes the rig, like the options in a configuration file:
    a copy may run on shorter intervals than the original; blanks in texts are filled. `builds`
    names what the lab builds from source before the first start: the blank `{built}` is the folder
    with the programs. The blank `{group}` is the name of the control groups of the rig. `note` is a
    sentence about what this machine cannot have of it. `artifacts` are fetched before the first
    process starts.
    """

    subject: str
    processes: tuple[ProcessSpec, ...]
    load: LoadSpec | None = None
    options: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    builds: str = ""
    note: str = ""
    artifacts: tuple[Artifact, ...] = ()
