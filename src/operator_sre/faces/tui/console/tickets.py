"""Tickets: which are live, and any of them by state or by words."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Input

from operator_sre.faces.tui.console import telling
from operator_sre.faces.tui.console.frame import Page
from operator_sre.faces.tui.console.table import Cell, Column, Row, Table

if TYPE_CHECKING:
    from datetime import datetime

    from operator_protocols.domain.ticket import Ticket

__all__ = ["FILTERS", "TicketsPage"]

TICKETS_MAX = 300
_LIVE = ("open", "claimed", "watched", "escalated")
# What `f` goes through, and `s` for how urgent.
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


class TicketsPage(Page):
    """The list."""

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
        self._text = ""

    def body(self) -> ComposeResult:
        """What is looked for, and what was found."""
        yield Input(placeholder="words of the summary or the reason", id="search", classes="hidden")
        yield Table(
            Column("no", 5),
            Column("severity", 11),
            Column("state", 15),
            Column("age", 7),
            Column("whose", 10, needs=96),
            Column("summary"),
            none="Looking…",
        )

    async def load(self) -> None:
        """The most urgent first."""
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
        more = f"the first {TICKETS_MAX}; search for others" if len(found) == TICKETS_MAX else ""
        table.border_subtitle = more
        table.show([_row(one, now) for one in found], none=self._none(name))

    def on_table_chosen(self, event: Table.Chosen) -> None:
        """Its page."""
        self.console_app.open_ticket(int(event.key))

    def on_input_changed(self, event: Input.Changed) -> None:
        """Found while it is typed."""
        self._text = event.value.strip()
        self.reload()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """On to what was found."""
        self.query_one(Table).focus()

    def action_filter(self) -> None:
        """The next of the states."""
        self._filter = (self._filter + 1) % len(FILTERS)
        self.reload()

    def action_severity(self) -> None:
        """The next severity, or all."""
        self._severity = (self._severity + 1) % len(SEVERITIES)
        self.reload()

    def action_search(self) -> None:
        """A line to type into."""
        line = self.query_one(Input)
        line.remove_class("hidden")
        line.focus()

    def action_back(self) -> None:
        """Look for nothing any more."""
        line = self.query_one(Input)
        line.value = ""
        line.add_class("hidden")
        self.query_one(Table).focus()

    def _none(self, name: str) -> str:
        if self._text or self._severity:
            return "No ticket is like that. Esc forgets the search, s the severity, f the state."
        return "No ticket is live: nothing is known to be broken." if name == "live" else "None."


def _row(one: Ticket, now: datetime) -> Row:
    return Row(
        str(one.id),
        (
            Cell(f"{one.id:>5}"),
            telling.severity(one.severity),
            telling.state(one, now),
            Cell(telling.ago(one.opened_at, now), "dim"),
            Cell(one.assignee or "-", "dim"),
            Cell(f"{one.subject}: {one.summary}"),
        ),
    )
