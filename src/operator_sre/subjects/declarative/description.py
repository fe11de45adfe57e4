"""A description: a system as its people wrote it down."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from operator_protocols.domain.target import Target
from operator_protocols.domain.tool import Parameter
from operator_protocols.domain.verdict import Risk
from operator_sre.subjects.declarative.commands import Command
from operator_sre.subjects.declarative.invariants import DeclaredInvariant
from operator_sre.subjects.declarative.probes.place import Probe

__all__ = ["DeclaredProbe", "Description", "Lever", "speaks_of"]


def speaks_of(on: frozenset[str], target: Target) -> bool:
    """True when a list of kinds and names means a target; one without any means all."""
    return not on or target.kind in on or target.name in on


@dataclass(frozen=True, slots=True)
class DeclaredProbe:
    """A probe by its name, with the targets that it looks at."""

    name: str
    probe: Probe
    on: frozenset[str] = frozenset()
    timeout_s: float | None = None


@dataclass(frozen=True, slots=True)
class Lever:
    """A command that changes something, with what its people say of it."""

    name: str
    tool: str
    command: Command
    sentence: str
    risk: Risk
    on: frozenset[str] = frozenset()
    reversible: bool = False
    idempotent: bool = False
    undo: str = ""
    expected: str = ""
    ends: tuple[str, ...] = ()
    timeout_s: float = 60.0
    parameters: tuple[Parameter, ...] = ()


@dataclass(frozen=True, slots=True)
class Description:
    """Everything that a file says. `pid_files` are where targets write who they are."""

    name: str
    targets: tuple[Target, ...] = ()
    probes: tuple[DeclaredProbe, ...] = ()
    invariants: tuple[DeclaredInvariant, ...] = ()
    levers: tuple[Lever, ...] = ()
    notes: str = ""
    pid_files: Mapping[str, str] = field(default_factory=dict)
