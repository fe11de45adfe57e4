"""A Ticket is the one open record of something broken."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from operator_protocols.domain.entry import Actor
from operator_protocols.domain.health import Severity
from operator_protocols.domain.observation import Violation

__all__ = ["Move", "MoveKind", "Pause", "Ticket", "TicketState", "refusal_of"]


class TicketState(StrEnum):
    """Where a Ticket stands. WATCHED: it holds again, and not yet for long enough to trust it."""

    OPEN = "open"
    CLAIMED = "claimed"
    WATCHED = "watched"
    RESOLVED = "resolved"
    ESCALATED = "escalated"
    CLOSED = "closed"

    @property
    def live(self) -> bool:
        """True while the incident may still last, so that it opens no second ticket."""
        return self not in {TicketState.RESOLVED, TicketState.CLOSED}


@dataclass(frozen=True, slots=True)
class Pause:
    """Why no agent works on a Ticket: who paused it, and until when; None is until someone resumes
    it.
    """

    by: str
    reason: str = ""
    until: datetime | None = None
    snoozed: bool = False

    def holds(self, at: datetime) -> bool:
        """Whether it counts at this moment."""
        return self.until is None or at < self.until


@dataclass(frozen=True, slots=True)
class Ticket:
    """The one record of a break, from the first violation to its proof or its escalation.

    `summary` is the first finding, `diagnosis` the last diagnosis that named a cause, in a
    sentence. `flapping` when what is broken recovered and broke again several times within minutes.
    `pause` is the last pause, also after it ended.
    """

    id: int
    subject: str
    target: str
    severity: Severity
    state: TicketState
    summary: str
    violations: tuple[Violation, ...]
    opened_at: datetime
    changed_at: datetime
    attempts: int = 0
    epoch: int = 0
    worker: str = ""
    run: str = ""
    reason: str = ""
    flapping: bool = False
    assignee: str = ""
    pause: Pause | None = None
    diagnosis: str = ""

    @property
    def title(self) -> str:
        """The diagnosis, or the first finding before there is one."""
        return self.diagnosis or self.summary

    def is_paused(self, at: datetime) -> bool:
        """Whether agents keep off it at this moment."""
        return self.pause is not None and self.pause.holds(at)


class MoveKind(StrEnum):
    """What can be done with a Ticket besides working on it."""

    HOLD = "hold"
    UNHOLD = "unhold"
    SNOOZE = "snooze"
    ASSIGN = "assign"
    COMMENT = "comment"
    ESCALATE = "escalate"
    HAND_OFF = "hand_off"
    CLOSE = "close"
    REOPEN = "reopen"


_TAKES = frozenset(
    {MoveKind.HOLD, MoveKind.SNOOZE, MoveKind.ESCALATE, MoveKind.HAND_OFF, MoveKind.CLOSE}
)


@dataclass(frozen=True, slots=True)
class Move:
    """A user's change to a Ticket, and the reason. `until` ends a pause, `assignee` takes the
    ticket.

    `reason` is the text of a comment.
    """

    kind: MoveKind
    by: Actor
    reason: str = ""
    until: datetime | None = None
    assignee: str = ""

    @property
    def takes(self) -> bool:
        """True for changes that take a ticket away from its current worker."""
        return self.kind in _TAKES


def refusal_of(ticket: Ticket, kind: MoveKind) -> str:
    """Why this cannot be done with a ticket that stands so; empty when it can. Pure."""
    state = ticket.state
    if kind in {MoveKind.HOLD, MoveKind.SNOOZE} and state is TicketState.ESCALATED:
        return f"Ticket {ticket.id} is escalated, so no agent works on it."
    over = {TicketState.RESOLVED, TicketState.CLOSED}
    anytime = {MoveKind.ASSIGN, MoveKind.COMMENT, MoveKind.REOPEN}
    if kind in anytime or state not in over or (kind.value, state.value) == ("close", "closed"):
        return ""
    return f"Ticket {ticket.id} is {state} already."
