"""Every command that was wanted, run or refused, with search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Input

from operator_protocols.errors import StoreError
from operator_sre.faces.tui.console import telling
from operator_sre.faces.tui.console.frame import Page, Panel
from operator_sre.faces.tui.console.outputs import Shown
from operator_sre.faces.tui.console.table import Cell, Column, Row, Table
from operator_sre.faces.tui.lines import Lines

if TYPE_CHECKING:
    from operator_protocols.domain.command import Command
    from operator_sre.app.history import FoundCommands
    from operator_sre.app.wiring import App

__all__ = ["HistoryPage"]

COMMANDS_MAX = 200
FOLLOW_S = 0.2
OUTCOMES = ("", "running", "failed", "refused", "succeeded")


class HistoryPage(Page):
    """The newest first."""

    NAME = "history"
    DEFAULT_CSS = """
    HistoryPage Table { height: 3fr; min-height: 5; }
    HistoryPage Panel { height: auto; max-height: 9; }
    HistoryPage Lines { height: 2fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "search", "Search", key_display="/"),
        Binding("f", "filter", "Outcome"),
        Binding("o", "whole", "All output"),
        Binding("e", "again", "Again"),
        Binding("t", "ticket", "Ticket"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._commands: Sequence[Command] = ()
        self._outcome = 0
        self._text = ""
        self._shown: Shown | None = None
        self._is_following = False

    def body(self) -> ComposeResult:
        """What is looked for, what was found, and what it said."""
        yield Input(placeholder="any words of command, reason or output", classes="hidden")
        yield Table(
            Column("seq", 6),
            Column("when", 8, needs=70),
            Column("verdict", 10),
            Column("outcome", 12),
            Column("by", 10, needs=100),
            Column("command"),
            none="Looking…",
        )
        yield Panel()
        yield Lines(id="output")

    def on_mount(self) -> None:
        """Follow what runs more closely than the rest."""
        super().on_mount()
        self._shown = Shown(self.console_app, self.query_one(Lines))
        self.set_interval(FOLLOW_S, self._follow)
        self.query_one(Table).focus()

    async def load(self) -> None:
        """By words, or simply the newest."""
        text, outcome = self._text, OUTCOMES[self._outcome]
        found = await (self._search(text, outcome) if text else self._newest(outcome))
        self._commands = found.commands
        table = self.query_one(Table)
        table.border_title = f"Commands: {outcome or 'all'}"
        table.border_subtitle = f"{found.behind} entries not searched yet" if found.behind else ""
        table.show([_row(one) for one in self._commands], none="No commands.")
        self._tell()

    def on_table_moved(self, event: Table.Moved) -> None:
        """More about another one."""
        self._tell()
        self._follow(moved=True)

    def on_table_chosen(self, event: Table.Chosen) -> None:
        """On to what it said."""
        self.query_one(Lines).focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Found while it is typed."""
        self._text = event.value.strip()
        self.reload()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """On to what was found."""
        self.query_one(Table).focus()

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

    def action_filter(self) -> None:
        """The next outcome, or all."""
        self._outcome = (self._outcome + 1) % len(OUTCOMES)
        self.reload()

    def action_whole(self) -> None:
        """All that it said."""
        if (command := self._chosen()) is not None and self._shown is not None:
            self.work(self._shown.whole(command), group="output", exclusive=True)

    def action_again(self) -> None:
        """Take it to where commands are run; nothing runs yet."""
        command = self._chosen()
        if command is None or command.tool != "shell":
            self.console_app.say("Only a command line can be run again from here.")
            return
        self.console_app.wanted = command.command
        self.console_app.action_page("run")

    def action_ticket(self) -> None:
        """What it was for."""
        command = self._chosen()
        if command is None or command.ticket is None:
            self.console_app.say("It belongs to no ticket.")
        else:
            self.console_app.open_ticket(command.ticket)

    async def _newest(self, outcome: str) -> FoundCommands:
        def read(app: App) -> FoundCommands:
            from operator_sre.app import history

            where = history.wanted(app, outcome=outcome)
            return history.list_commands(app, where, limit=COMMANDS_MAX)

        return await self.console_app.read(read)

    async def _search(self, text: str, outcome: str) -> FoundCommands:
        async def search(app: App) -> FoundCommands:
            from operator_sre.app import history

            where = history.wanted(app, outcome=outcome)
            return await history.search_commands(app, text, where, limit=COMMANDS_MAX)

        return await self.console_app.link.act(search)

    def _chosen(self) -> Command | None:
        key = self.query_one(Table).key
        return next((one for one in self._commands if str(one.seq) == key), None)

    def _follow(self, *, moved: bool = False) -> None:
        command = self._chosen()
        runs = command is not None and not command.outcome and self.is_current
        if self._shown is not None and (moved or runs) and not self._is_following:
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

    def _tell(self) -> None:
        panel, one = self.query_one(Panel), self._chosen()
        panel.set_class(one is None, "hidden")
        if one is not None:
            panel.show(telling.facts(_facts(one), panel.text_width))


def _row(one: Command) -> Row:
    return Row(
        str(one.seq),
        (
            Cell(f"{one.seq:>6}", "dim"),
            Cell(telling.clock(one.at), "dim"),
            telling.level(one.level),
            telling.outcome(one),
            Cell(one.approver or "-", "dim"),
            Cell(one.command),
        ),
    )


def _facts(one: Command) -> Sequence[tuple[str, str]]:
    number = "" if one.ticket is None else f"ticket {one.ticket}, "
    category = f", {one.category}" if one.category else ""
    return (
        ("command", one.command),
        ("in", f"{one.cwd}, target {one.target or '-'}"),
        ("who", f"{number}{one.agent or '-'}; approved by {one.approver or 'nobody'}"),
        ("why", one.context),
        ("took", f"{one.duration_s:.2f} s{category}" if one.outcome else ""),
    )
