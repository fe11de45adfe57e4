"""The ledger as it grows, one entry of it in full, and whether it is whole."""

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
from operator_sre.faces.cleaning import clean
from operator_sre.faces.tui.console import telling
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
    """Nobody wants to know any more."""


class AuditPage(Page):
    """The newest entry first."""

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
        """Whether it is whole, its end, and one entry."""
        yield Static(
            "Not verified yet: v checks every hash and signature.", markup=False, id="whole"
        )
        yield Table(
            Column("seq", 7),
            Column("when", 8),
            Column("kind", 22),
            Column("ticket", 6, needs=90),
            Column("by", 14, needs=100),
            Column("says"),
            none="The ledger is empty.",
        )
        yield Panel()

    def on_mount(self) -> None:
        """Show how far it is while it verifies."""
        super().on_mount()
        self.set_interval(PROGRESS_S, self._tell_progress)
        self.query_one(Table).focus()

    async def load(self) -> None:
        """The end of it, unless it was told to stand still."""
        from operator_sre.app import audit

        table = self.query_one(Table)
        table.border_title = "Ledger, standing still" if self._paused else "Ledger"
        if self._paused and self._entries:
            return
        found = await self.console_app.read(lambda app: audit.tail(app, count=ENTRIES_MAX))
        self._entries = found[::-1]
        table.show([_row(one) for one in self._entries])

    def on_table_moved(self, event: Table.Moved) -> None:
        """All of another one."""
        panel, entry = self.query_one(Panel), self._chosen()
        panel.show(Text("") if entry is None else _whole(entry, panel.text_width))

    def on_table_chosen(self, event: Table.Chosen) -> None:
        """On to all of it."""
        self.query_one(Panel).focus()

    def action_pause(self) -> None:
        """Stand still, or follow again."""
        self._paused = not self._paused
        self.reload()

    def action_ticket(self) -> None:
        """What it is about."""
        entry = self._chosen()
        if entry is None or entry.ticket is None:
            self.console_app.say("It belongs to no ticket.")
        else:
            self.console_app.open_ticket(entry.ticket)

    def action_verify(self) -> None:
        """Walk the whole chain."""
        if not self._verifying:
            self._verifying, self._stopping, self._count = True, False, 0
            self.work(self._verify(), group="verify")

    def action_stop(self) -> None:
        """Do not walk on."""
        self._stopping = True

    def _chosen(self) -> Entry | None:
        key = self.query_one(Table).key
        return next((one for one in self._entries if str(one.seq) == key), None)

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
            told = _report(await self.console_app.read(verify))
        except _Stopped:
            told = Text(f"Stopped after {self._count} entries; nothing is said about the rest.")
        except OperatorError as error:
            told = Text(clean(f"✗ It could not be verified: {error}"), "bold red")
        finally:
            self._verifying = False
        self.query_one("#whole", Static).update(told)

    def _tell_progress(self) -> None:
        if self._verifying:
            head = max(self.console_app.link.head, self._count, 1)
            done = min(1.0, self._count / head)
            bar = "█" * round(done * 20)
            words = f"Verifying: {bar:·<20} {self._count} of {head} entries; x stops it"
            self.query_one("#whole", Static).update(Text(words))


def _report(report: Report) -> Text:
    if report.whole:
        words = f"✓ The ledger is whole: {report.entries} entries, {report.checkpoints} checkpoints"
        return Text(f"{words} signed, head {report.head[:16]}.", "green")
    text = Text(f"✗ DAMAGED in {len(report.damages)} places", "bold red")
    text.append("; set them aside with: operator audit verify\n")
    for one in report.damages[:DAMAGES_MAX]:
        text.append(clean(f"  entry {one.seq}: {one.kind}: {one.detail}") + "\n")
    return text


def _row(one: Entry) -> Row:
    said = json.dumps(to_json(dict(one.payload)), ensure_ascii=False)[:300]
    return Row(
        str(one.seq),
        (
            Cell(f"{one.seq:>7}"),
            Cell(telling.clock(one.at), "dim"),
            Cell(one.kind),
            Cell("-" if one.ticket is None else str(one.ticket)),
            Cell(one.actor.id, "dim"),
            Cell(said, "dim"),
        ),
    )


def _whole(one: Entry, width: int) -> Text:
    number = "-" if one.ticket is None else one.ticket
    pairs = (
        ("entry", f"{one.seq}, {one.kind}, {one.at:%Y-%m-%d %H:%M:%S.%f} UTC"),
        ("about", f"ticket {number}, run {one.run or '-'}"),
        ("by", f"{one.actor.id} ({one.actor.type}) {one.actor.agent}"),
        ("hash", one.hash),
        ("previous", one.previous),
    )
    text = telling.facts(pairs, width)
    body = json.dumps(to_json(dict(one.payload)), indent=2, ensure_ascii=True)
    text.append(f"\n\n{_clean_lines(body[:PAYLOAD_CHARS_MAX])}")
    return text


def _clean_lines(body: str) -> str:
    """Several lines, each made harmless."""
    return "\n".join(map(clean, body.split("\n")))
