"""What follows from an entry for tickets that people do something with."""

from __future__ import annotations

import json
from datetime import datetime

from operator_protocols.domain.entry import Entry, Kind
from operator_protocols.domain.ticket import TicketState
from operator_sre.store.database import Connection, plain

__all__ = [
    "FOR_EVER",
    "ticket_assigned",
    "ticket_closed",
    "ticket_handed_off",
    "ticket_paused",
    "ticket_reopened",
    "ticket_unheld",
    "ticket_watched",
]

# Later than any clock of ours will say.
FOR_EVER = 1e12


def ticket_paused(connection: Connection, entry: Entry) -> None:
    """Agents keep off it until then."""
    until = entry.payload.get("until")
    pause = {
        "by": entry.actor.id,
        "reason": entry.payload["reason"],
        "until": until,
        "snoozed": entry.kind is Kind.TICKET_SNOOZED,
    }
    connection.execute(
        "UPDATE tickets SET pause = ?, paused_until = ?, changed_at = ? WHERE id = ?",
        (
            json.dumps(pause),
            FOR_EVER if until is None else datetime.fromisoformat(until).timestamp(),
            entry.at.isoformat(),
            entry.ticket,
        ),
    )


def ticket_unheld(connection: Connection, entry: Entry) -> None:
    """Agents may take it up again."""
    connection.execute(
        "UPDATE tickets SET pause = '', paused_until = 0, changed_at = ? WHERE id = ?",
        (entry.at.isoformat(), entry.ticket),
    )


def ticket_assigned(connection: Connection, entry: Entry) -> None:
    """It is somebody's."""
    connection.execute(
        "UPDATE tickets SET assignee = ?, changed_at = ? WHERE id = ?",
        (plain(entry.payload["assignee"]), entry.at.isoformat(), entry.ticket),
    )


def ticket_closed(connection: Connection, entry: Entry) -> None:
    """A person says that it is over; what is broken still opens a new one."""
    _stands(connection, entry, TicketState.CLOSED)
    ticket_unheld(connection, entry)
    connection.execute("UPDATE violations SET live = 0 WHERE ticket = ?", (entry.ticket,))


def ticket_handed_off(connection: Connection, entry: Entry) -> None:
    """Others look after it from here on; it stays live, so that it opens no second one."""
    ticket_assigned(connection, entry)
    _stands(connection, entry, TicketState.ESCALATED)
    ticket_paused(connection, entry)  # it is theirs until a person says otherwise


def ticket_watched(connection: Connection, entry: Entry) -> None:
    """It holds again, and is looked at for longer before that is believed."""
    _stands(connection, entry, TicketState.WATCHED)


def ticket_reopened(connection: Connection, entry: Entry) -> None:
    """It is to be worked on again; only people let go of what people hold."""
    _stands(connection, entry, TicketState.OPEN)
    if entry.actor.type == "user":
        ticket_unheld(connection, entry)
    connection.execute(
        "UPDATE tickets SET attempts = ?, not_before = 0 WHERE id = ?",
        (entry.payload["attempts"], entry.ticket),
    )
    connection.execute("UPDATE violations SET live = 1 WHERE ticket = ?", (entry.ticket,))


def _stands(connection: Connection, entry: Entry, state: TicketState) -> None:
    connection.execute(
        "UPDATE tickets SET state = ?, worker = '', reason = ?, changed_at = ? WHERE id = ?",
        (state.value, plain(entry.payload["reason"]), entry.at.isoformat(), entry.ticket),
    )
