"""A question to a model that is about nothing, to see whether it can answer and call a tool."""

from __future__ import annotations

from datetime import datetime

from operator_protocols.domain.health import Health, Severity
from operator_protocols.domain.observation import Observation, Seen, Violation
from operator_protocols.domain.run import Ask, Briefing, Budget
from operator_protocols.domain.target import Target
from operator_protocols.domain.ticket import Ticket, TicketState

__all__ = ["small_question"]

_NOTES = (
    "This is a test of the connection. Nothing is broken and nothing has to be done: call `finish`"
    " with the summary 'ready', and nothing else."
)


def small_question(at: datetime) -> Ask:
    """A ticket about a made-up target that is well already."""
    broken = Violation("connection-test", "answers", "nothing", Severity.INFO, _NOTES, at)
    ticket = Ticket(
        id=0,
        subject="connection-test",
        target="nothing",
        severity=Severity.INFO,
        state=TicketState.CLAIMED,
        summary=_NOTES,
        violations=(broken,),
        opened_at=at,
        changed_at=at,
    )
    briefing = Briefing(
        ticket=ticket,
        targets=(Target("nothing", "nothing"),),
        observation=Observation("connection-test", at, (Seen("nothing", {"well": True}),)),
        health=Health.HEALTHY,
        tools=(),
        causes=(),
        notes=_NOTES,
    )
    return Ask(briefing, (), Budget(turns_max=1, commands_max=0, attempts_max=1))
