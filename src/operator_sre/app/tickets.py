"""Tickets, for people and programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from operator_protocols.domain.entry import Entry
from operator_protocols.domain.health import Severity
from operator_protocols.domain.ticket import Ticket, TicketState
from operator_protocols.errors import NotFoundError, UsageError
from operator_sre.app.wiring import App

__all__ = ["TicketView", "list_tickets", "show_ticket"]

ENTRIES_MAX = 5000


@dataclass(frozen=True, slots=True)
class TicketView:
    """A ticket and everything the ledger knows of it."""

    ticket: Ticket
    entries: tuple[Entry, ...]


def list_tickets(
    app: App,
    *,
    states: Sequence[str],
    subject: str,
    severity: str = "",
    assignee: str = "",
    text: str = "",
    limit: int | None = None,
    after: int = 0,
) -> Sequence[Ticket]:
    """Tickets in these states (all when none is named), most urgent and oldest first.

    `text` is looked for in their summaries and reasons, whatever its case; `after` is a ticket for
    the next page.
    """
    for state in states:
        if state not in set(TicketState):
            raise UsageError(
                f"There is no ticket state {state!r}.",
                next_step=f"States: {', '.join(TicketState)}.",
            )
    if severity and severity not in set(Severity):
        raise UsageError(
            f"There is no severity {severity!r}.", next_step=f"Severities: {', '.join(Severity)}."
        )
    return app.store.tickets.find(
        states=[TicketState(state) for state in states],
        subject=subject,
        severity=severity,
        assignee=assignee,
        text=text,
        limit=limit,
        after=after,
    )


def show_ticket(app: App, number: int) -> TicketView:
    """One ticket with its story. NotFoundError when there is none of that number."""
    ticket = app.store.tickets.get(number)
    if ticket is None:
        raise NotFoundError(
            f"There is no ticket {number}.", next_step="See them with: operator tickets list"
        )
    entries = app.store.entries.after(0, limit=ENTRIES_MAX, ticket=number)
    return TicketView(ticket, tuple(entries))
