"""The health of every subject, the worst first, and the findings of the chosen one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text
from textual.app import ComposeResult

from operator_sre.app.health import show_health
from operator_sre.app.ticket_page import fold_findings, reason_listed
from operator_sre.drawing import plural
from operator_sre.faces.terminal_text import clean
from operator_sre.faces.tui.console import display
from operator_sre.faces.tui.console.frame import Page, Panel
from operator_sre.faces.tui.console.table import Cell, Column, Row, Table

if TYPE_CHECKING:
    from operator_sre.app.health import HealthView, SubjectHealth

__all__ = ["HealthPage"]

NONE = "No subjects. Describe one in operator.toml, or run: operator lab up SUBJECT"
FINDINGS_MAX = 200


class HealthPage(Page):
    """All subjects."""

    NAME = "health"
    EVERY_S = 2.0
    DEFAULT_CSS = """
    HealthPage Table { height: 2fr; }
    HealthPage Panel { height: 3fr; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._view: HealthView | None = None

    def body(self) -> ComposeResult:
        """The subjects, and the findings of one."""
        yield Table(
            Column("health", 10),
            Column("subject", 20),
            Column("targets", 11),
            Column("checked", 9, needs=70),
            Column("findings"),
            none="Loading…",
            id="subjects",
        )
        yield Panel(id="troubles")

    async def load(self) -> None:
        """Read the stored results; this checks no subject."""
        view = await self.console_app.read(show_health)
        self._view = view
        table = self.query_one(Table)
        table.border_title = "Subjects"
        unwatched = view.subjects and not view.watchers
        table.border_subtitle = "NO MONITOR IS RUNNING" if unwatched else ""
        rows = []
        for subject in view.subjects:
            well = sum(target.health == "healthy" for target in subject.targets)
            last = subject.last_look
            shown = fold_findings(subject.troubles).shown[:4]
            wrong = subject.problem or "; ".join(f"{it.target} {it.invariant}" for it in shown)
            cells = (
                display.health(subject.health),
                Cell(subject.subject, "bold"),
                Cell(f"{well}/{len(subject.targets)} healthy"),
                Cell(display.ago(last, view.at) if last else "never", "dim"),
                Cell(wrong or "none", "" if wrong else "dim"),
            )
            rows.append(Row(subject.subject, cells))
        table.show(rows, none=NONE)
        self._tell()

    def on_table_moved(self, event: Table.Moved) -> None:
        """Show the subject under the cursor."""
        self._tell()

    def on_table_chosen(self, event: Table.Chosen) -> None:
        """Open its first ticket, or all tickets."""
        subject = self._read_choice()
        if subject is not None and subject.tickets:
            self.console_app.open_ticket(subject.tickets[0].id)
        else:
            self.console_app.action_page("tickets")

    def _read_choice(self) -> SubjectHealth | None:
        subjects = self._view.subjects if self._view else ()
        key = self.query_one(Table).key
        return next((subject for subject in subjects if subject.subject == key), None)

    def _tell(self) -> None:
        panel, subject, view = self.query_one(Panel), self._read_choice(), self._view
        if subject is None or view is None:
            panel.show(Text(""))
            return
        text = Text(f"{clean(subject.subject)}  ", "bold")
        for target in subject.targets:
            cell = display.health(target.health)
            text.append(f"{cell.text[:1]} {clean(target.name)}  ", cell.style)
        text.append("\n\n")
        watchers = f"by {', '.join(subject.watchers)}" if subject.watchers else "by no monitor"
        missed = f", {plural(subject.missed, 'check')} missed" if subject.missed else ""
        pairs = [("watched", f"{watchers}, every {subject.interval_s:g} s{missed}")]
        pairs.append(("problem", subject.problem))
        folded = fold_findings(subject.troubles)
        for trouble in folded.shown[:FINDINGS_MAX]:
            marks = [f"for {display.ago(trouble.since, view.at)}"]
            marks += [f"ticket {trouble.ticket}"] if trouble.ticket is not None else []
            reason = reason_listed(trouble, subject.tickets)
            marks += [reason] if reason else ["flapping"] if trouble.flapping else []
            marks += [f"silenced: {trouble.silenced}"] if trouble.silenced else []
            name = f"{trouble.target} {trouble.invariant}"
            pairs.append((trouble.health.value, f"{name} ({', '.join(marks)}) {trouble.detail}"))
        if len(folded.shown) > FINDINGS_MAX:
            pairs.append(("", f"{len(folded.shown) - FINDINGS_MAX} more; see: operator health"))
        pairs += [("", fold.text) for fold in folded.folds]
        for ticket in subject.tickets:
            age = display.ago(ticket.opened_at, view.at)
            words = f"{ticket.state}, {ticket.severity}, opened {age} ago: {ticket.title}"
            pairs.append((f"ticket {ticket.id}", words))
        pairs += [("silenced", f"{silence.reason} ({silence.by})") for silence in view.silences]
        text.append(display.facts(pairs, panel.text_width))
        panel.show(text)
