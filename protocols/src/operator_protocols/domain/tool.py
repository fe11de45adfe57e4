"""A ToolSpec describes a typed tool to models, the gate and people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from operator_protocols.domain.action import TIMEOUT_S, Argument
from operator_protocols.domain.precondition import Precondition
from operator_protocols.domain.target import Target
from operator_protocols.domain.verdict import Risk

__all__ = ["Parameter", "ParameterType", "Prepared", "ToolSource", "ToolSpec", "ToolState"]


class ParameterType(StrEnum):
    """What a parameter takes; a bool is never an int."""

    STRING = "string"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    LIST = "list"  # of strings
    MAP = "map"  # of strings


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument of a tool. `default` counts where it is not required.

    `infers` says what of the ticket determines it when it is missing: target, key, node, region.
    """

    name: str
    sentence: str
    type: ParameterType = ParameterType.STRING
    required: bool = True
    default: Argument = None
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    infers: str = ""


class ToolSource(StrEnum):
    """Who brings a tool."""

    SUBJECT = "subject"
    TOOL = "tool"
    WORKFLOW = "workflow"


class ToolState(StrEnum):
    """Where one call of a tool stands."""

    PROPOSED = "proposed"
    VALIDATED = "validated"
    EXECUTING = "executing"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A typed tool. `changes` is False only for a tool that only reads.

    `undo` names the tool that rolls it back, `verify` says how to see that it worked; only what is
    `idempotent` may be tried again by itself. `ends` names causes that it removes at its target,
    `settle_s` is how long its effect may take to show, where a proof has to wait longer than usual.
    `plans` names invariants that it breaks at its target, which is wanted while a person says so.
    An `exclusive` tool is a remedy of nothing but what `ends` names. `on` are the kinds or names of
    the targets that it is for, all when none is named.
    `requires` are checks of a fresh observation just before it runs: an agent cannot call it while
    one of them is not met or has no answer, and a person cannot while one is known not to be met.
    """

    name: str
    sentence: str
    parameters: tuple[Parameter, ...]
    risk: Risk
    changes: bool
    reversible: bool = False
    source: ToolSource = ToolSource.TOOL
    idempotent: bool = False
    undo: str = ""
    expected: str = ""
    verify: str = ""
    timeout_s: float = TIMEOUT_S
    ends: tuple[str, ...] = ()
    settle_s: float = 0.0
    plans: tuple[str, ...] = ()
    exclusive: bool = False
    on: tuple[str, ...] = ()
    requires: tuple[Precondition, ...] = ()

    def fits(self, target: Target) -> bool:
        """Whether it is for a target."""
        return not self.on or target.kind in self.on or target.name in self.on

    def parameter(self, name: str) -> Parameter | None:
        """One of its parameters by name."""
        return next((parameter for parameter in self.parameters if parameter.name == name), None)


@dataclass(frozen=True, slots=True)
class Prepared:
    """Additions of a tool to a proposed call: arguments that it looked up, and the expected effect.

    `flaws` are why the call needs no decision, `category` is the kind of that failure.
    """

    arguments: Mapping[str, Argument] = field(default_factory=dict)
    expected: str = ""
    flaws: tuple[str, ...] = ()
    category: str = ""
