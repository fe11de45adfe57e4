"""A Rig is a disposable copy of a Subject, described as data that the lab runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["LoadSpec", "ProcessSpec", "RigSpec"]


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """One process of a rig.

    In `argv` and `env`, `{port}` and `{dir}` are its own port and directory, and `{NAME.port}`
    is the port of another process. `ready_path` is fetched over HTTP until it answers 200; without
    one an accepted connection is enough.
    """

    name: str
    kind: str
    argv: tuple[str, ...]
    depends_on: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    ready_path: str = ""
    ready_s_max: float = 20.0


@dataclass(frozen=True, slots=True)
class LoadSpec:
    """Steady traffic: a JSON POST to `path` of every process of a kind, round robin.

    In the values of `body`, `{n}` is a number from 0 to 99 that goes up with every request.
    """

    kind: str
    path: str
    body: Mapping[str, str]
    rate_per_s: float


@dataclass(frozen=True, slots=True)
class RigSpec:
    """Everything the lab needs to bring a copy of a Subject to life."""

    subject: str
    processes: tuple[ProcessSpec, ...]
    load: LoadSpec | None = None
