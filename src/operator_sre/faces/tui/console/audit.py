"""The newest entries of the ledger, one entry in full, and verification."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Static

from operator_protocols.errors import OperatorError
from operator_sre.codec import to_json
from operator_sre.drawing import plural
from operator_sre.faces.terminal_text import clean
from operator_sre.faces.tui.console import display
from operator_sre.faces.tui.console.frame import Page, Panel
from operator_sre.faces.tui.console.table import Cell, Column, Row, Table

if TYPE_CHECKING:
    from operator_protocols.domain.entry import Entry
    from operator_sre.app.audit import Report
    from operator_sre.app.wiring import App

__all__ = ["AuditPage"]

ENTRIES_MAX = 300
DAMAGES_MAX = 20
PAYLOAD_CHARS_MAX = 20_000
PROGRESS_S = 0.1


class _Stopped(Exception):
    """Verification was stopped."""


class AuditPage(Page):
    """Ledger entries, newest first."""

    NAME = "audit"
    DEFAULT_CSS = """
    AuditPage #whole { height: auto; max-height: 8; padding: 0 2; }
    AuditPage Table { height: 3fr; min-height: 5; }
    AuditPage Panel { height: 2fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("v", "verify", "Verify"),
        Binding("x", "stop", "Stop"),
        Binding("space", "pause", "Pause"),
        Binding("t", "ticket", "Ticket"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._entries: Sequence[Entry] = ()
        self._paused = False
        self._verifying = False
        self._stopping = False
        self._count = 0

    def body(self) -> ComposeResult:
        """The result of verification, the newest entries, and one of them."""
        yield Static(
            "Not verified yet. Press v to check every hash and signature.", markup=False, id="whole"
        )
        yield Table(
            Column("seq", 7),
            Column("when", 8),
            Column("kind", 22),
            Column("ticket", 6, needs=90),
            Column("by", 14, needs=100),
            Column("payload"),
            none="The ledger is empty.",
        )
        yield Panel()

    def on_mount(self) -> None:
        """Show progress while it verifies."""
        super().on_mount()
        self.set_interval(PROGRESS_S, self._tell_progress)
        self.query_one(Table).focus()

    async def load(self) -> None:
        """Read the newest entries, unless the list is paused."""
        from operator_sre.app import audit

        table = self.query_one(Table)
        table.border_title = "Ledger, paused" if self._paused else "Ledger"
        if self._paused and self._entries:
            return
        found = await self.console_app.read(lambda app: audit.tail(app, count=ENTRIES_MAX))
        self._entries = found[::-1]
        rows = []
        for entry in self._entries:
            payload = json.dumps(to_json(dict(entry.payload)), ensure_ascii=False)[:300]
            cells = (
                Cell(f"{entry.seq:>7}"),
                Cell(display.clock(entry.at), "dim"),
                Cell(entry.kind),
                Cell("-" if entry.ticket is None else str(entry.ticket)),
                Cell(entry.actor.id, "dim"),
                Cell(payload, "dim"),
            )
            rows.append(Row(str(entry.seq), cells))
        table.show(rows)

    def on_table_moved(self, event: Table.Moved) -> None:
        """Show the entry under the cursor in full."""
        panel, entry = self.query_one(Panel), self._read_choice()
        if entry is None:
            panel.show(Text(""))
            return
        number = "-" if entry.ticket is None else entry.ticket
        pairs = (
            ("entry", f"{entry.seq}, {entry.kind}, {entry.at:%Y-%m-%d %H:%M:%S.%f} UTC"),
            ("about", f"ticket {number}, run {entry.run or '-'}"),
            ("by", f"{entry.actor.id} ({entry.actor.type}) {entry.actor.agent}"),
            ("hash", entry.hash),
            ("previous", entry.previous),
        )
        text = display.facts(pairs, panel.text_width)
        body = json.dumps(to_json(dict(entry.payload)), indent=2, ensure_ascii=True)
        lines = map(clean, body[:PAYLOAD_CHARS_MAX].split("\n"))
        text.append("\n\n" + "\n".join(lines))
        panel.show(text)

    def on_table_chosen(self, event: Table.Chosen) -> None:
        """Focus the entry."""
        self.query_one(Panel).focus()

    def action_pause(self) -> None:
        """Pause or resume the list."""
        self._paused = not self._paused
        self.reload()

    def action_ticket(self) -> None:
        """Open the ticket of the entry."""
        entry = self._read_choice()
        if entry is None or entry.ticket is None:
            self.console_app.say("This entry has no ticket.")
        else:
            self.console_app.open_ticket(entry.ticket)

    def action_verify(self) -> None:
        """Verify the whole ledger."""
        if not self._verifying:
            self._verifying, self._stopping, self._count = True, False, 0
            self.work(self._verify(), group="verify")

    def action_stop(self) -> None:
        """Stop verifying."""
        self._stopping = True

    def _read_choice(self) -> Entry | None:
        key = self.query_one(Table).key
        return next((entry for entry in self._entries if str(entry.seq) == key), None)

    async def _verify(self) -> None:
        link = self.console_app.link

        def progress(count: int) -> None:
            self._count = count
            if self._stopping or link.is_closing:
                raise _Stopped

        def verify(app: App) -> Report:
            from operator_sre.app import audit

            return audit.verify_ledger(app, progress=progress)

        try:
            report = await self.console_app.read(verify)
        except _Stopped:
            text = Text(f"Stopped after {self._count} entries; the rest was not verified.")
        except OperatorError as error:
            text = Text(clean(f"✗ Verification failed: {error}"), "bold red")
        else:
            if report.whole:
                text = Text(
                    f"✓ The ledger is intact: {plural(report.entries, 'entry', 'entries')},"
                    f" {plural(report.checkpoints, 'checkpoint')} signed,"
                    f" head {report.head[:16]}.",
                    "green",
                )
            else:
                text = Text(f"✗ DAMAGED in {plural(len(report.damages), 'place')}", "bold red")
                text.append("; record the damage with: operator audit verify\n")
                for damage in report.damages[:DAMAGES_MAX]:
                    place = f"  entry {damage.seq}: {damage.kind}: {damage.detail}"
                    text.append(clean(place) + "\n")
        finally:
            self._verifying = False
        self.query_one("#whole", Static).update(text)

    def _tell_progress(self) -> None:
        if self._verifying:
            head = max(self.console_app.link.head, self._count, 1)
            done = min(1.0, self._count / head)
            bar = "█" * round(done * 20)
            words = f"Verifying: {bar:·<20} {self._count} of {head} entries; x stops it"
            self.query_one("#whole", Static).update(Text(words))
