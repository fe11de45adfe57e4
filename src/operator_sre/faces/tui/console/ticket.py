"""One ticket: diagnosis, commands, proof and timeline, and the moves a person can make."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import ContentSwitcher, Input, Static

from operator_protocols.domain.ticket import MoveKind
from operator_sre.app.ticket_brief import brief_ticket
from operator_sre.faces.terminal_text import clean
from operator_sre.faces.tui.console import display
from operator_sre.faces.tui.console.frame import Panel, SearchPage
from operator_sre.faces.tui.console.outputs import CommandsPage
from operator_sre.faces.tui.console.question import Choice, Question
from operator_sre.faces.tui.console.table import Cell, Column, Row, Table
from operator_sre.faces.tui.lines import Lines

if TYPE_CHECKING:
    from operator_protocols.domain.command import Command
    from operator_protocols.domain.ticket import Ticket
    from operator_sre.app.tickets import TicketView
    from operator_sre.app.wiring import App

__all__ = [
    "FILTERS",
    "MOVES",
    "MoveQuestion",
    "TicketPage",
    "TicketsPage",
]

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
                    Cell(f"{ticket.subject}: {ticket.title}"),
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


COMMANDS_MAX = 200
PARTS = ("diagnosis", "commands", "proof", "timeline")
RESOLVE = "resolve"
MOVES: tuple[tuple[str, str], ...] = (
    (MoveKind.COMMENT, "comment: add a comment"),
    (MoveKind.HOLD, "hold: stop agents from working on it"),
    (MoveKind.SNOOZE, "snooze: hold it until a time"),
    (MoveKind.UNHOLD, "unhold: let agents work on it again"),
    (MoveKind.ASSIGN, "assign: set the person responsible"),
    (MoveKind.ESCALATE, "escalate: give it to people"),
    (RESOLVE, "resolve: check the subject, and close it with proof"),
    (MoveKind.CLOSE, "close: close it without proof"),
    (MoveKind.REOPEN, "reopen: let agents work on it again from the start"),
)


class TicketPage(CommandsPage):
    """Four parts, one at a time, so that each has room on the smallest terminal."""

    NAME = "tickets"
    EVERY_S = 2.0
    DEFAULT_CSS = """
    TicketPage #summary { height: auto; max-height: 9; padding: 0 2; }
    TicketPage ContentSwitcher { height: 1fr; }
    TicketPage #commands Table { height: 2fr; min-height: 5; }
    TicketPage #commands Lines { height: 3fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d", "part('diagnosis')", "Diagnosis", show=False),
        Binding("c", "part('commands')", "Commands", show=False),
        Binding("p", "part('proof')", "Proof", show=False),
        Binding("t", "part('timeline')", "Timeline", show=False),
        Binding("o", "whole", "Full output"),
        Binding("m", "move", "Move"),
        Binding("escape", "back", "Back"),
    ]

    def __init__(self, number: int) -> None:
        super().__init__()
        self._number = number
        self._view: TicketView | None = None

    def body(self) -> ComposeResult:
        """The headline, and one part."""
        yield Static(markup=False, id="summary")
        with ContentSwitcher(initial=PARTS[0]):
            yield Panel(id="diagnosis")
            with Vertical(id="commands"):
                yield Table(
                    Column("seq", 6),
                    Column("verdict", 10),
                    Column("risk", 6, needs=90),
                    Column("outcome", 12),
                    Column("by", 10, needs=100),
                    Column("command"),
                    none="No commands yet.",
                )
                yield Lines(id="output")
            yield Panel(id="proof")
            yield Panel(id="timeline")

    def on_mount(self) -> None:
        """Focus the diagnosis."""
        super().on_mount()
        self.query_one("#diagnosis", Panel).focus()

    async def load(self) -> None:
        """Read the ticket with all its entries and commands."""
        number = self._number

        def read(app: App) -> tuple[TicketView, Sequence[Command]]:
            from operator_sre.app import history
            from operator_sre.app.tickets import show_ticket

            wanted = history.parse_filter(app, ticket=number)
            found = history.list_commands(app, wanted, limit=COMMANDS_MAX)
            return show_ticket(app, number), found.commands

        self._view, self._commands = await self.console_app.read(read)
        self._draw()
        rows = [
            Row(
                str(command.seq),
                (
                    Cell(f"{command.seq:>6}", "dim"),
                    display.level(command.level),
                    Cell(command.risk or "-"),
                    display.outcome(command),
                    Cell(command.approver or "-", "dim"),
                    Cell(command.command),
                ),
            )
            for command in self._commands
        ]
        self.query_one(Table).show(rows)

    def on_resize(self) -> None:
        """Fold the texts again."""
        self._draw()

    def on_table_moved(self, event: Table.Moved) -> None:
        """Show the output of the command under the cursor."""
        self._follow(moved=True)

    def shows_output(self) -> bool:
        """Only while the commands are shown."""
        return self.is_current and self.query_one(ContentSwitcher).current == "commands"

    def action_part(self, name: str) -> None:
        """Show another part."""
        self.query_one(ContentSwitcher).current = name
        if name == "commands":
            self.query_one(Table).focus()
            self._follow(moved=True)
        else:
            self.query_one(f"#{name}", Panel).focus()
        self.call_after_refresh(self._draw)

    def action_whole(self) -> None:
        """Show the whole output of the command under the cursor."""
        if self._read_choice() is not None:
            self.action_part("commands")
            super().action_whole()

    def action_move(self) -> None:
        """Ask what to do with the ticket."""
        self.app.push_screen(MoveQuestion(self._number))

    def action_back(self) -> None:
        """Return to the page below."""
        self.app.pop_screen()

    def _draw(self) -> None:
        """The headline, the action with its approval, the tabs, and the part that is open."""
        if (view := self._view) is None:
            return
        ticket, now = view.ticket, self.console_app.now()
        brief = brief_ticket(ticket, view.entries)
        current = self.query_one(ContentSwitcher).current
        text = Text(clean(brief.headline), "bold")
        if brief.diagnosis is not None:
            text.append(f" (confidence {min(brief.diagnosis.confidence, 0.999):.1%})")
        text.append("\n")
        for cell in (display.severity(ticket.severity), display.state(ticket, now)):
            text.append(f"{cell.text}  ", cell.style)
        owner = f", assigned to {ticket.assignee}" if ticket.assignee else ""
        age = display.ago(ticket.opened_at, now)
        text.append(f"{clean(f'ticket {ticket.id}: {ticket.summary}')}\n")
        words = clean(f"{ticket.subject}, opened {age} ago, attempt {ticket.attempts}{owner}")
        text.append(f"{words}\n", "dim")
        if (action := brief.action) is not None:
            status = action.result or action.approval or "waiting for the gate"
            style = "bold yellow" if action.approval_id else ""
            text.append(f"{clean(f'action: {action.command} ({status})')}\n", style)
        for name in PARTS:
            here = name == current
            words = f"{name[0]} {name.title()}"
            text.append(f"[{words}]" if here else f" {words} ", "bold reverse" if here else "")
            text.append(" ")
        self.query_one("#summary", Static).update(text)
        if current is None or current == "commands":
            return
        # Only the part that is open is laid out.
        panel = self.query_one(f"#{current}", Panel)
        at_end = panel.scroll_offset.y >= panel.max_scroll_y - 1
        if current == "diagnosis":
            panel.show(display.diagnosis(brief, view.entries, panel.text_width))
        elif current == "proof":
            panel.show(display.proofs(view.entries, panel.text_width))
        else:
            panel.show(display.timeline(view.entries, panel.text_width))
            if at_end:
                panel.scroll_end(animate=False)


class MoveQuestion(Question):
    """Ask for a move and what it needs."""

    TITLE_TEXT = "Move the ticket"
    YES = "Move"

    def __init__(self, number: int) -> None:
        super().__init__()
        self._number = number

    def words(self) -> Text:
        """Name the ticket."""
        return Text(f"Choose a move for ticket {self._number} with ↑ ↓.")

    def fields(self) -> ComposeResult:
        """The move, its reason, and its duration or assignee."""
        yield Choice(MOVES, name="move")
        yield self.reason_field("comment or reason")
        hint = "snooze or hold: 90s, 30m, 2h, 1d; assign: a name"
        yield Input(placeholder=hint, id="more", max_length=100)

    async def do(self) -> bool:
        """Move the ticket in the name of the signed-in user."""
        kind, number, reason = self.query_one(Choice).chosen, self._number, self.reason
        more = self.query_one("#more", Input).value.strip()

        async def move(app: App) -> Ticket:
            from operator_sre.app.tickets import move_ticket, resolve_ticket

            if kind == RESOLVE:
                return await resolve_ticket(app, number, reason=reason)
            pauses = kind in {MoveKind.HOLD, MoveKind.SNOOZE}
            return await move_ticket(
                app,
                number,
                MoveKind(kind),
                reason=reason,
                for_=more if pauses else "",
                assignee=more if kind == MoveKind.ASSIGN else "",
            )

        moved = await self.console_app.act(move)
        if moved is not None:
            self.console_app.say(f"Ticket {moved.id} is {moved.state}.")
        return moved is not None
