"""One ticket: its story, what was thought, what was run and said, and what proves it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import ContentSwitcher, Static

from operator_protocols.errors import StoreError
from operator_sre.faces.cleaning import clean
from operator_sre.faces.tui.console import telling
from operator_sre.faces.tui.console.frame import Page, Panel
from operator_sre.faces.tui.console.moving import MoveQuestion
from operator_sre.faces.tui.console.outputs import Shown
from operator_sre.faces.tui.console.table import Cell, Column, Row, Table
from operator_sre.faces.tui.lines import Lines

if TYPE_CHECKING:
    from operator_protocols.domain.command import Command
    from operator_protocols.domain.entry import Entry
    from operator_sre.app.tickets import TicketView
    from operator_sre.app.wiring import App

__all__ = ["TicketPage"]

COMMANDS_MAX = 200
FOLLOW_S = 0.2
PARTS = ("timeline", "diagnosis", "commands", "proof")


class TicketPage(Page):
    """Four parts, one at a time, so that each has room on the smallest terminal."""

    NAME = "tickets"
    EVERY_S = 2.0
    DEFAULT_CSS = """
    TicketPage #summary { height: auto; max-height: 5; padding: 0 2; }
    TicketPage ContentSwitcher { height: 1fr; }
    TicketPage #commands Table { height: 2fr; min-height: 5; }
    TicketPage #commands Lines { height: 3fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("t", "part('timeline')", "Timeline", show=False),
        Binding("d", "part('diagnosis')", "Diagnosis", show=False),
        Binding("c", "part('commands')", "Commands", show=False),
        Binding("p", "part('proof')", "Proof", show=False),
        Binding("o", "whole", "All output"),
        Binding("m", "move", "Move"),
        Binding("escape", "back", "Back"),
    ]

    def __init__(self, number: int) -> None:
        super().__init__()
        self._number = number
        self._view: TicketView | None = None
        self._commands: Sequence[Command] = ()
        self._shown: Shown | None = None
        self._is_following = False

    def body(self) -> ComposeResult:
        """What it is, and one part of it."""
        yield Static(markup=False, id="summary")
        with ContentSwitcher(initial="timeline"):
            yield Panel(id="timeline")
            yield Panel(id="diagnosis")
            with Vertical(id="commands"):
                yield Table(
                    Column("seq", 6),
                    Column("verdict", 10),
                    Column("risk", 6, needs=90),
                    Column("outcome", 12),
                    Column("by", 10, needs=100),
                    Column("command"),
                    none="No command was wanted yet.",
                )
                yield Lines(id="output")
            yield Panel(id="proof")

    def on_mount(self) -> None:
        """Follow what runs more closely than the rest."""
        super().on_mount()
        self._shown = Shown(self.console_app, self.query_one(Lines))
        self.set_interval(FOLLOW_S, self._follow)
        self.query_one("#timeline", Panel).focus()

    async def load(self) -> None:
        """The ticket with all entries, and its commands."""
        number = self._number

        def read(app: App) -> tuple[TicketView, Sequence[Command]]:
            from operator_sre.app import history
            from operator_sre.app.tickets import show_ticket

            wanted = history.wanted(app, ticket=number)
            found = history.list_commands(app, wanted, limit=COMMANDS_MAX)
            return show_ticket(app, number), found.commands

        view, self._commands = await self.console_app.read(read)
        self._view = view
        self._summarise(view)
        self._tell(view.entries)
        self.query_one(Table).show([_row(one) for one in self._commands])

    def on_resize(self) -> None:
        """Texts are folded anew."""
        if self._view is not None:
            self._summarise(self._view)
            self._tell(self._view.entries)

    def on_table_moved(self, event: Table.Moved) -> None:
        """What this one said."""
        self._follow(moved=True)

    def on_table_chosen(self, event: Table.Chosen) -> None:
        """On to what it said."""
        self.query_one(Lines).focus()

    def action_part(self, name: str) -> None:
        """Another part."""
        self.query_one(ContentSwitcher).current = name
        if name == "commands":
            self.query_one(Table).focus()
            self._follow(moved=True)
        else:
            self.query_one(f"#{name}", Panel).focus()
        if self._view is not None:
            self._summarise(self._view)
            self.call_after_refresh(self._tell, self._view.entries)

    def action_whole(self) -> None:
        """All that the command under the cursor said."""
        if (command := self._chosen()) is not None and self._shown is not None:
            self.action_part("commands")
            self.work(self._shown.whole(command), group="output", exclusive=True)

    def action_move(self) -> None:
        """Hold it, let it go, comment on it, end it."""
        self.app.push_screen(MoveQuestion(self._number))

    def action_back(self) -> None:
        """The page below."""
        self.app.pop_screen()

    def _chosen(self) -> Command | None:
        key = self.query_one(Table).key
        return next((one for one in self._commands if str(one.seq) == key), None)

    def _follow(self, *, moved: bool = False) -> None:
        """What runs is read again and again; what has ended once."""
        command = self._chosen()
        is_open = self.query_one(ContentSwitcher).current == "commands" and self.is_current
        if self._shown is None or not is_open:
            return
        runs = command is not None and not command.outcome
        if (moved or runs) and not self._is_following:
            self._is_following = True
            self.work(self._follows(self._shown), group="follows")

    async def _follows(self, shown: Shown) -> None:
        try:
            await shown.show(self._chosen())
            # The cursor may have gone on meanwhile.
            await shown.show(self._chosen())
        except StoreError:
            pass  # the head says so
        finally:
            self._is_following = False

    def _summarise(self, view: TicketView) -> None:
        ticket, now = view.ticket, self.console_app.now()
        text = Text()
        for cell in (telling.severity(ticket.severity), telling.state(ticket, now)):
            text.append(f"{cell.text}  ", cell.style)
        text.append(f"ticket {ticket.id}: {clean(ticket.summary)}\n", "bold")
        whose = f", {ticket.assignee}'s" if ticket.assignee else ""
        age = telling.ago(ticket.opened_at, now)
        text.append(clean(f"{ticket.subject}, open for {age}, attempt {ticket.attempts}{whose}"))
        text.append(f"  {clean(ticket.reason[:300])}\n", "dim")
        current = self.query_one(ContentSwitcher).current
        for name in PARTS:
            here = name == current
            words = f"{name[0]} {name.title()}"
            text.append(f"[{words}]" if here else f" {words} ", "bold reverse" if here else "")
            text.append(" ")
        self.query_one("#summary", Static).update(text)

    def _tell(self, entries: Sequence[Entry]) -> None:
        """Only what is seen is laid out."""
        current = self.query_one(ContentSwitcher).current
        tell = {
            "timeline": telling.timeline,
            "diagnosis": telling.diagnosis,
            "proof": telling.proofs,
        }.get(current or "")
        if tell is not None:
            panel = self.query_one(f"#{current}", Panel)
            at_end = panel.scroll_offset.y >= panel.max_scroll_y - 1
            panel.show(tell(entries, panel.text_width))
            if current == "timeline" and at_end:
                panel.scroll_end(animate=False)


def _row(one: Command) -> Row:
    return Row(
        str(one.seq),
        (
            Cell(f"{one.seq:>6}", "dim"),
            telling.level(one.level),
            Cell(one.risk or "-"),
            telling.outcome(one),
            Cell(one.approver or "-", "dim"),
            Cell(one.command),
        ),
    )
