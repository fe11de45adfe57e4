"""A Verdict is what the gate thinks of an Action, and why."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from operator_protocols.domain.action import Action, Outcome, Result
from operator_protocols.domain.confinement import Confinement
from operator_protocols.domain.health import Ranked

__all__ = ["Level", "Mode", "Risk", "Rule", "Verdict"]


class Level(Ranked):
    """SAFE < REVIEW < BLOCKED, so that `max` lets the strictest win."""

    SAFE = "safe"
    REVIEW = "review"
    BLOCKED = "blocked"


class Risk(Ranked):
    """LOW < MEDIUM < HIGH < CRITICAL, one scale everywhere."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    CRITICAL = "critical"


class Mode(StrEnum):
    """How much runs without a person."""

    OBSERVE = "observe"
    APPROVE = "approve"
    EXECUTE = "execute"


@dataclass(frozen=True, slots=True)
class Rule:
    """Why a verdict is what it is: an id to look up, and a justification to read."""

    id: str
    level: Level
    justification: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """The gate's opinion of one Action. Pure: it changes nothing and requests nothing.

    `reads`, `writes`, `network` and `sensitive` are what it would touch, as far as that is known;
    `reversible` is None where it is unknown; `safer` says what would make it SAFE. `confinement` is
    what the kernel holds the command to; where it cannot, `unenforced` says why.
    """

    action: Action
    level: Level
    risk: Risk
    rules: tuple[Rule, ...]
    explanation: str
    policy_digest: str
    score: int = 0
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    network: tuple[str, ...] = ()
    sensitive: tuple[str, ...] = ()
    reversible: bool | None = None
    safer: str = ""
    confinement: Confinement | None = None
    unenforced: str = ""

    def refusal(self, why: str) -> Result:
        """The explanation that a model gets when the action does not run."""
        return Result(Outcome.REFUSED, stderr=f"{why} ({self.explanation})")
