"""How everything is: every subject, the worst first, and what is wrong with the chosen one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text
from textual.app import ComposeResult

from operator_sre.faces.cleaning import clean
from operator_sre.faces.tui.console import telling
from operator_sre.faces.tui.console.frame import Page, Panel
from operator_sre.faces.tui.console.table import Cell, Column, Row, Table

if TYPE_CHECKING:
    from datetime import datetime

    from operator_sre.app.health import HealthView, SubjectHealth, Trouble

__all__ = ["HealthPage"]

NONE = "There is no subject here. Describe one in operator.toml, or: operator lab up SUBJECT"
TROUBLES_MAX = 200


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
        """The subjects, and more about one."""
        yield Table(
            Column("health", 10),
            Column("subject", 20),
            Column("targets", 9),
            Column("looked", 9, needs=70),
            Column("what is wrong"),
            none="Looking…",
            id="subjects",
        )
        yield Panel(id="troubles")

    async def load(self) -> None:
        """By what the store knows; nobody looks at a subject for it."""
        from operator_sre.app.health import show_health

        view = await self.console_app.read(show_health)
        self._view = view
        table = self.query_one(Table)
        watched = ", ".join(one.worker for one in view.watchers)
        table.border_title = "Subjects"
        table.border_subtitle = "" if watched or not view.subjects else "NOBODY IS WATCHING"
        table.show([_row(one, view.at) for one in view.subjects], none=NONE)
        self._tell()

    def on_table_moved(self, event: Table.Moved) -> None:
        """More about another one."""
        self._tell()

    def on_table_chosen(self, event: Table.Chosen) -> None:
        """Its ticket, if it has one; else all tickets."""
        if (one := self._chosen()) is not None and one.tickets:
            self.console_app.open_ticket(one.tickets[0].id)
        else:
            self.console_app.action_page("tickets")

    def _chosen(self) -> SubjectHealth | None:
        subjects = self._view.subjects if self._view else ()
        key = self.query_one(Table).key
        return next((one for one in subjects if one.subject == key), None)

    def _tell(self) -> None:
        panel, one = self.query_one(Panel), self._chosen()
        if one is None or self._view is None:
            panel.show(Text(""))
            return
        panel.show(_told(one, self._view, panel.text_width))


def _row(one: SubjectHealth, now: datetime) -> Row:
    well = sum(target.health == "healthy" for target in one.targets)
    looked = telling.ago(one.last_look, now) if one.last_look else "never"
    wrong = one.problem or "; ".join(f"{it.target} {it.invariant}" for it in one.troubles[:4])
    return Row(
        one.subject,
        (
            telling.health(one.health),
            Cell(one.subject, "bold"),
            Cell(f"{well}/{len(one.targets)} well"),
            Cell(looked, "dim"),
            Cell(wrong or "nothing that we know of", "" if wrong else "dim"),
        ),
    )


def _told(one: SubjectHealth, view: HealthView, width: int) -> Text:
    text, now = Text(), view.at
    text.append(f"{clean(one.subject)}  ", "bold")
    targets = ((telling.health(it.health), it.name) for it in one.targets)
    for cell, name in targets:
        text.append(f"{cell.text[:1]} {clean(name)}  ", cell.style)
    text.append("\n\n")
    watchers = ", ".join(one.watchers) or "nobody"
    missed = f", {one.missed} looks missed" if one.missed else ""
    pairs = [("watched", f"by {watchers}, every {one.interval_s:g} s{missed}")]
    pairs.append(("problem", one.problem))
    pairs += [_trouble(it, now) for it in one.troubles[:TROUBLES_MAX]]
    pairs += [
        (
            f"ticket {it.id}",
            f"{it.state}, {it.severity}, {telling.ago(it.opened_at, now)}: {it.summary}",
        )
        for it in one.tickets
    ]
    pairs += [("silent", f"{it.reason} ({it.by})") for it in view.silences]
    text.append(telling.facts(pairs, width))
    return text


def _trouble(one: Trouble, now: datetime) -> tuple[str, str]:
    marks = [f"for {telling.ago(one.since, now)}"]
    marks += [f"ticket {one.ticket}"] if one.ticket is not None else []
    marks += ["flapping"] if one.flapping else []
    marks += [f"silenced: {one.silenced}"] if one.silenced else []
    return one.health.value, f"{one.target} {one.invariant} ({', '.join(marks)}) {one.detail}"
