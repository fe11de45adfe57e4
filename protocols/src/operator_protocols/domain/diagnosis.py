"""A Diagnosis says what is happening, what else it could have been, and why this choice."""

from __future__ import annotations

from dataclasses import dataclass

from operator_protocols.domain.health import Severity
from operator_protocols.domain.verdict import Risk

__all__ = [
    "NO_CAUSES",
    "Alternative",
    "Diagnosis",
    "Evidence",
    "Hypothesis",
    "Option",
    "RankedHypothesis",
]

# The causes of a diagnosis that names none: those of the built-in reasoner, and of models.
NO_CAUSES = frozenset({"", "unexplained", "unknown"})


@dataclass(frozen=True, slots=True)
class Evidence:
    """One sentence, and the ledger entry that backs it; without one it is a mere claim."""

    sentence: str
    seq: int | None = None


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A cause at a target, and how probable it is now."""

    cause: str
    target: str
    probability: float


@dataclass(frozen=True, slots=True)
class RankedHypothesis:
    """A cause at a target, how probable it is at this turn, and how probable it was `before`."""

    cause: str
    target: str
    probability: float
    before: float | None = None


@dataclass(frozen=True, slots=True)
class Alternative:
    """What else it could have been, and why it was rejected."""

    cause: str
    target: str
    supporting: tuple[str, ...]
    against: tuple[str, ...]
    why_rejected: str


@dataclass(frozen=True, slots=True)
class Option:
    """One way to end it, with its price."""

    action: str
    risk: Risk
    reversible: bool
    trade_off: str


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What happened, how we know, what could be done, and what was chosen."""

    cause: str
    target: str
    summary: str
    severity: Severity
    confidence: float
    timeline: tuple[Evidence, ...]
    affected: tuple[str, ...]
    evidence: tuple[Evidence, ...]
    hypotheses: tuple[Hypothesis, ...]
    alternatives: tuple[Alternative, ...]
    options: tuple[Option, ...]
    choice: str
    why: str
