"""Every command that ran or was refused, with search."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Input

from operator_sre.faces.tui.console import display
from operator_sre.faces.tui.console.frame import Panel, SearchPage
from operator_sre.faces.tui.console.outputs import CommandsPage
from operator_sre.faces.tui.console.table import Cell, Column, Row, Table
from operator_sre.faces.tui.lines import Lines

if TYPE_CHECKING:
    from operator_sre.app.history import FoundCommands
    from operator_sre.app.wiring import App

__all__ = ["HistoryPage"]

COMMANDS_MAX = 200
OUTCOMES = ("", "running", "failed", "refused", "succeeded")


class HistoryPage(CommandsPage, SearchPage):
    """Commands, newest first."""

    NAME = "history"
    DEFAULT_CSS = """
    HistoryPage Table { height: 3fr; min-height: 5; }
    HistoryPage Panel { height: auto; max-height: 9; }
    HistoryPage Lines { height: 2fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "search", "Search", key_display="/"),
        Binding("f", "filter", "Outcome"),
        Binding("o", "whole", "Full output"),
        Binding("e", "again", "Run again"),
        Binding("t", "ticket", "Ticket"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._outcome = 0

    def body(self) -> ComposeResult:
        """The search field, the commands, and the output of one."""
        yield Input(placeholder="search commands, reasons and output", classes="hidden")
        yield Table(
            Column("seq", 6),
            Column("when", 8, needs=70),
            Column("verdict", 10),
            Column("outcome", 12),
            Column("by", 10, needs=100),
            Column("command"),
            none="Loading…",
        )
        yield Panel()
        yield Lines(id="output")

    def on_mount(self) -> None:
        """Focus the list."""
        super().on_mount()
        self.query_one(Table).focus()

    async def load(self) -> None:
        """Read the commands that match the search, or the newest."""
        text, outcome = self._text, OUTCOMES[self._outcome]

        def read(app: App) -> FoundCommands:
            from operator_sre.app import history

            where = history.parse_filter(app, outcome=outcome)
            return history.list_commands(app, where, limit=COMMANDS_MAX)

        async def search(app: App) -> FoundCommands:
            from operator_sre.app import history

            where = history.parse_filter(app, outcome=outcome)
            return await history.search_commands(app, text, where, limit=COMMANDS_MAX)

        link = self.console_app.link
        found = await (link.act(search) if text else link.read(read))
        self._commands = found.commands
        table = self.query_one(Table)
        table.border_title = f"Commands: {outcome or 'all'}"
        table.border_subtitle = f"{found.behind} entries not searched yet" if found.behind else ""
        rows = [
            Row(
                str(command.seq),
                (
                    Cell(f"{command.seq:>6}", "dim"),
                    Cell(display.clock(command.at), "dim"),
                    display.level(command.level),
                    display.outcome(command),
                    Cell(command.approver or "-", "dim"),
                    Cell(command.command),
                ),
            )
            for command in self._commands
        ]
        table.show(rows, none="No commands.")
        self._tell()

    def on_table_moved(self, event: Table.Moved) -> None:
        """Show the command under the cursor."""
        self._tell()
        self._follow(moved=True)

    def action_filter(self) -> None:
        """Show only the next outcome, or all."""
        self._outcome = (self._outcome + 1) % len(OUTCOMES)
        self.reload()

    def action_again(self) -> None:
        """Copy the command to the run page, without running it."""
        command = self._read_choice()
        if command is None or command.tool != "shell":
            self.console_app.say("Only shell commands can be run again from here.")
            return
        self.console_app.wanted = command.command
        self.console_app.action_page("run")

    def action_ticket(self) -> None:
        """Open the ticket of the command."""
        command = self._read_choice()
        if command is None or command.ticket is None:
            self.console_app.say("This command has no ticket.")
        else:
            self.console_app.open_ticket(command.ticket)

    def _tell(self) -> None:
        panel, command = self.query_one(Panel), self._read_choice()
        panel.set_class(command is None, "hidden")
        if command is None:
            return
        number = "" if command.ticket is None else f"ticket {command.ticket}, "
        category = f", {command.category}" if command.category else ""
        approver = f"; approved by {command.approver}" if command.approver else ""
        pairs = (
            ("command", command.command),
            ("in", f"{command.cwd}, target {command.target or '-'}"),
            ("who", f"{number}{command.agent or '-'}{approver}"),
            ("why", command.context),
            ("took", f"{command.duration_s:.2f} s{category}" if command.outcome else ""),
        )
        panel.show(display.facts(pairs, panel.text_width))
