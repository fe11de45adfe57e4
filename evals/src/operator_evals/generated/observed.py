"""What was seen of a generated fault: by clients, of the rig, and of what the product reported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from operator_evals.generated.case import Case

__all__ = ["Claim", "GeneratedFacts", "Injected", "Look"]


@dataclass(frozen=True, slots=True)
class Look:
    """What clients saw from one moment to another.

    `served` are the parts that answered their clients. `writes` and `reads` are those of a canary,
    None where the subject promises to keep nothing. `writers` are the parts that take writes, None
    where that is unknown. `doubled` are the roles that two parts say they have and one may have.
    `running` is the process of each part, "" where it is gone or stopped.
    """

    at_s: float
    until_s: float
    served: tuple[str, ...] = ()
    writes: bool | None = None
    reads: bool | None = None
    writers: tuple[str, ...] | None = None
    running: Mapping[str, str] = field(default_factory=dict)
    doubled: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Injected:
    """One primitive: when it was injected, what was done exactly, or why it was refused."""

    number: int
    at_s: float
    note: str = ""
    refused: str = ""


@dataclass(frozen=True, slots=True)
class Claim:
    """What a ticket says to people: one headline, and at most three lines that are quoted."""

    ticket: int
    state: str
    headline: str
    lines: tuple[str, ...] = ()
    cause: str = ""
    target: str = ""


@dataclass(frozen=True, slots=True)
class GeneratedFacts:
    """All that is known of a generated fault beside the facts of every trial.

    `lag_s` is how late this process was woken, in 9 of 10 cases at most: a busy machine proves
    nothing. `waited_s` is how long its rig was ready and waited for other cases to end.
    """

    case: Case
    injected: tuple[Injected, ...] = ()
    looks: tuple[Look, ...] = ()
    claims: tuple[Claim, ...] = ()
    lag_s: float = 0.0
    waited_s: float = 0.0
