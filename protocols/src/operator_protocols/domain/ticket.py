"""A Ticket is the one open record of something broken."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from operator_protocols.domain.health import Severity
from operator_protocols.domain.observation import Violation

__all__ = ["Ticket", "TicketState"]


class TicketState(StrEnum):
    """Where a Ticket stands."""

    OPEN = "open"
    CLAIMED = "claimed"
    RESOLVED = "resolved"
    ESCALATED = "escalated"
    CLOSED = "closed"

    @property
    def live(self) -> bool:
        """True while the trouble is not known to be over, so that it opens no second ticket."""
        return self in {TicketState.OPEN, TicketState.CLAIMED, TicketState.ESCALATED}


@dataclass(frozen=True, slots=True)
class Ticket:
    """The one record of a break, from the first violation to its proof or its escalation.

    `flapping` when what is broken recovered and broke again several times within minutes.
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
