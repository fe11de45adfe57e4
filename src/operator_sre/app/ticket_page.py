"""What every face shows of an incident, in the order an engineer on call needs it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, Protocol, TypeVar

from operator_protocols.domain.diagnosis import NO_CAUSES, Diagnosis
from operator_protocols.domain.health import Health
from operator_protocols.domain.ticket import Ticket, TicketState
from operator_sre.app.health import Trouble
from operator_sre.drawing import plural

__all__ = [
    "OBSERVABLE",
    "FoldedFindings",
    "FoldedTarget",
    "Section",
    "fold_findings",
    "headline_of",
    "reason_listed",
]

NO_CAUSE = "Cause not identified"
OBSERVABLE = "observable"
# Subjects name the invariant that a target answers at all `node_down`, `server_down` and so on.
DOWN_SUFFIX = "_down"


class Section(StrEnum):
    """The parts of a ticket, in the order in which every face shows them."""

    DIAGNOSIS = "diagnosis"
    ACTION = "action"
    EVIDENCE = "evidence"
    COMMANDS = "commands"
    READINGS = "readings"
    TIMELINE = "timeline"


class _Finding(Protocol):
    @property
    def target(self) -> str: ...

    @property
    def invariant(self) -> str: ...

    @property
    def detail(self) -> str: ...


F = TypeVar("F", bound=_Finding)


@dataclass(frozen=True, slots=True)
class FoldedTarget(Generic[F]):
    """Findings that tell nothing new, behind one line."""

    text: str
    findings: tuple[F, ...]


@dataclass(frozen=True, slots=True)
class FoldedFindings(Generic[F]):
    """Findings to show separately, and findings that only follow from a failed target."""

    shown: tuple[F, ...]
    folds: tuple[FoldedTarget[F], ...]


def headline_of(ticket: Ticket, diagnosis: Diagnosis | None) -> str:
    """The diagnosis in one sentence, or that there is none yet."""
    if diagnosis is None:
        return "Diagnosis in progress" if ticket.state is TicketState.CLAIMED else NO_CAUSE
    if diagnosis.cause in NO_CAUSES:
        is_said = NO_CAUSE.lower() in diagnosis.summary.lower()
        return diagnosis.summary if is_said else f"{NO_CAUSE}: {diagnosis.summary}".rstrip(": ")
    return diagnosis.summary


def fold_findings(findings: Sequence[F]) -> FoldedFindings[F]:
    """Collapse the checks that cannot be made because their target is down or cannot be read.

    A finding without a `health` is broken. What is broken is always shown, apart from
    `observable` of a target that is known to be down.
    """
    down = {
        finding.target
        for finding in findings
        if finding.invariant.endswith(DOWN_SUFFIX) and _health_of(finding) is Health.BROKEN
    }
    blind = {
        finding.target
        for finding in findings
        if finding.invariant == OBSERVABLE and _health_of(finding) is Health.BROKEN
    }
    shown: list[F] = []
    behind: dict[str, list[F]] = {}
    for finding in findings:
        unknown = _health_of(finding) is Health.UNKNOWN
        follows = unknown and finding.target in down | blind
        if follows or (finding.invariant == OBSERVABLE and finding.target in down):
            behind.setdefault(finding.target, []).append(finding)
        else:
            shown.append(finding)
    folds = []
    for target, some in behind.items():
        why = "is down" if target in down else "cannot be observed"
        text = f"{plural(len(some), 'more check')} unavailable because {target} {why}"
        folds.append(FoldedTarget(text, tuple(some)))
    return FoldedFindings(tuple(shown), tuple(folds))


def reason_listed(trouble: Trouble, tickets: Iterable[Ticket]) -> str:
    """Why a finding that is healthy now is listed; empty for what is broken or unknown."""
    if trouble.health is not Health.HEALTHY:
        return ""
    watched = any(
        ticket.id == trouble.ticket and ticket.state is TicketState.WATCHED for ticket in tickets
    )
    reasons = ["it is flapping"] * trouble.flapping + ["its ticket is being watched"] * watched
    return f"healthy now; listed because {' and '.join(reasons)}" if reasons else "healthy now"


def _health_of(finding: _Finding) -> Health:
    health: Health = getattr(finding, "health", Health.BROKEN)
    return health
