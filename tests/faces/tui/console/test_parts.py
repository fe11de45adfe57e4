"""The parts that pages are made of: tables, choices, texts, places, and how things stand."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from textual.app import App, ComposeResult

from operator_protocols.domain.ticket import TicketState
from operator_sre.app.ticket_brief import brief_ticket
from operator_sre.faces.tui.console import display
from operator_sre.faces.tui.console.approvals import (
    ApproveQuestion,
    ConfirmQuestion,
    RejectQuestion,
)
from operator_sre.faces.tui.console.frame import Head, Panel, Standing
from operator_sre.faces.tui.console.outputs import Shown
from operator_sre.faces.tui.console.question import Choice, Question
from operator_sre.faces.tui.console.rules import RevokeQuestion
from operator_sre.faces.tui.console.run import Place, PlaceQuestion
from operator_sre.faces.tui.console.table import Cell, Column, Row, Table
from tests.contract.clock import NOON
from tests.contract.samples import ticket
from tests.faces.tui.world import SIZES

pytestmark = pytest.mark.asyncio


class _Parts(App[None]):
    """A table, a choice, a panel and a head."""

    def compose(self) -> ComposeResult:
        """One below the other."""
        yield Head("tickets")
        yield Table(Column("no", 3), Column("who", 8, needs=60), Column("what"), none="None.")
        yield Choice((("a", "first"), ("b", "second")), name="choice")
        yield Panel()


def _rows(count: int) -> list[Row]:
    return [
        Row(str(at), (Cell(str(at)), Cell("me"), Cell(f"thing {at} " * 30))) for at in range(count)
    ]


async def test_a_table_fits_its_panel_and_keeps_its_cursor_on_what_it_was_on() -> None:
    async with _Parts().run_test(size=SIZES["narrow"]) as pilot:
        table = pilot.app.query_one(Table)
        assert "None." in table.render_line(1).text
        table.show(_rows(50))
        table.focus()
        await pilot.press("down", "down", "down")
        assert table.key == "3"
        table.show(_rows(50)[2:])
        assert table.key == "3", "it goes with its row"
        await pilot.press("end")
        assert table.key == "49"
        shown = [table.render_line(y) for y in range(table.size.height)]
        assert {one.cell_length for one in shown} == {table.size.width}
        assert shown[-1].text.startswith("▸ 49")
        assert "…" in shown[-1].text
        assert "WHO" in shown[0].text
        await pilot.resize_terminal(40, 24)
        await pilot.pause()
        assert "WHO" not in table.render_line(0).text
        table.show([])
        assert table.key == ""


async def test_a_choice_is_marked_without_any_colour() -> None:
    async with _Parts().run_test(size=SIZES["narrow"]) as pilot:
        choice = pilot.app.query_one(Choice)
        choice.focus()
        assert choice.render().plain == "(●) first\n( ) second"
        await pilot.press("down")
        assert (choice.chosen, choice.render().plain) == ("b", "( ) first\n(●) second")
        await pilot.press("down")
        assert choice.chosen == "a"


async def test_the_head_says_how_things_stand_in_words() -> None:
    async with _Parts().run_test(size=SIZES["narrow"]) as pilot:
        head = pilot.app.query_one(Head)
        head.show(Standing("/home/of/it", waiting=2, switch_on=True, live=1))
        said = head.render().plain
        for words in ("[2 Tickets]", "3 Approvals (2)", "KILL SWITCH ON", "1 open ticket"):
            assert words in said, words
        head.show(Standing("x", problem="The store is missing"))
        assert "reconnecting: The store is missing" in head.render().plain


async def test_times_levels_and_tones_are_words() -> None:
    now = NOON
    assert display.time_left(now + timedelta(seconds=61), now) == "1:01"
    assert display.time_left(now + timedelta(hours=2, seconds=5), now) == "2:00:05"
    assert display.time_left(now, now + timedelta(hours=1)) == "0:00"
    assert [display.ago(now - timedelta(seconds=one), now) for one in (5, 300, 7200)] == [
        *("5 s", "5 min", "2 h"),
    ]
    assert display.clock(now) == "12:00:00"
    assert display.level("blocked").text == "✗ BLOCKED"
    assert display.health("unknown").text == "? unknown"
    assert display.severity("critical").text == "!! critical"
    assert set(display.TONES) == {"good", "bad", "warn", "strong", "plain"}
    assert display.timeline((), 80).plain == "No events yet."
    brief = brief_ticket(ticket(state=TicketState.OPEN), ())
    assert (
        display.diagnosis(brief, (), 80).plain == "findings   node-1 node_down: connection refused"
    )
    assert display.proofs((), 80).plain == "No proof yet."


async def test_a_fact_is_folded_beside_its_name_and_hides_nothing() -> None:
    text = display.facts([("command", "rm -rf x\nrm -rf /"), ("", ""), ("why", "word " * 30)], 60)
    lines = text.plain.split("\n")
    assert lines[0] == "command    rm -rf x\\nrm -rf /"
    assert lines[1].startswith("why        word")
    assert all(line.startswith(" " * 11) for line in lines[2:])
    assert max(map(len, lines)) <= 60


async def test_a_place_says_where() -> None:
    assert dict(Place("/srv").facts())["on"] == "this machine"
    assert dict(Place("/srv", "shop", "node-1").facts())["on"] == "node-1 of shop"
    for kind in (ApproveQuestion, ConfirmQuestion, PlaceQuestion, RejectQuestion, RevokeQuestion):
        assert issubclass(kind, Question)
    assert Path(display.__file__).name == "display.py"
    assert Shown.__doc__
