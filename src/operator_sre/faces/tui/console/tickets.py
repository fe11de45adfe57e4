"""The list of tickets, filtered by state, severity and text."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Input

from operator_sre.faces.tui.console import display
from operator_sre.faces.tui.console.frame import SearchPage
from operator_sre.faces.tui.console.table import Cell, Column, Row, Table

__all__ = ["FILTERS", "TicketsPage"]

TICKETS_MAX = 300
_LIVE = ("open", "claimed", "watched", "escalated")
# `f` cycles through the states, `s` through the severities.
FILTERS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("live", _LIVE),
    ("all", ()),
    ("open", ("open",)),
    ("claimed", ("claimed",)),
    ("escalated", ("escalated",)),
    ("resolved", ("resolved",)),
    ("closed", ("closed",)),
)
SEVERITIES = ("", "critical", "warning", "info")


class TicketsPage(SearchPage):
    """Tickets, the most severe first."""

    NAME = "tickets"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f", "filter", "State"),
        Binding("s", "severity", "Severity"),
        Binding("slash", "search", "Search", key_display="/"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._filter = 0
        self._severity = 0

    def body(self) -> ComposeResult:
        """The search field and the list."""
        yield Input(placeholder="search summaries and reasons", id="search", classes="hidden")
        yield Table(
            Column("no", 5),
            Column("severity", 11),
            Column("state", 15),
            Column("age", 7),
            Column("assignee", 10, needs=96),
            Column("summary"),
            none="Loading…",
        )

    async def load(self) -> None:
        """Read the tickets that match the filters."""
        from operator_sre.app.tickets import list_tickets

        name, states = FILTERS[self._filter]
        severity, text = SEVERITIES[self._severity], self._text
        found = await self.console_app.read(
            lambda app: list_tickets(
                app, states=states, subject="", severity=severity, text=text, limit=TICKETS_MAX
            )
        )
        table, now = self.query_one(Table), self.console_app.now()
        table.border_title = f"Tickets: {' '.join((name, severity)).strip()}"
        is_full = len(found) == TICKETS_MAX
        table.border_subtitle = f"first {TICKETS_MAX} tickets; search for others" if is_full else ""
        rows = [
            Row(
                str(ticket.id),
                (
                    Cell(f"{ticket.id:>5}"),
                    display.severity(ticket.severity),
                    display.state(ticket, now),
                    Cell(display.ago(ticket.opened_at, now), "dim"),
                    Cell(ticket.assignee or "-", "dim"),
                    Cell(f"{ticket.subject}: {ticket.summary}"),
                ),
            )
            for ticket in found
        ]
        none = "No open tickets." if name == "live" else "No tickets."
        if text or severity:
            none = "No matching tickets. Esc clears the search, s the severity, f the state."
        table.show(rows, none=none)

    def on_table_chosen(self, event: Table.Chosen) -> None:
        """Open the ticket."""
        self.console_app.open_ticket(int(event.key))

    def action_filter(self) -> None:
        """Show only the next state, or all."""
        self._filter = (self._filter + 1) % len(FILTERS)
        self.reload()

    def action_severity(self) -> None:
        """Show only the next severity, or all."""
        self._severity = (self._severity + 1) % len(SEVERITIES)
        self.reload()
