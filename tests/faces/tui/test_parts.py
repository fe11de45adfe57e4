"""The parts that pages are made of: tables, choices, texts, places, and how things stand."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from textual.app import App, ComposeResult

from operator_sre.faces.tui.console import telling
from operator_sre.faces.tui.console.answering import (
    ApproveQuestion,
    ConfirmQuestion,
    RejectQuestion,
)
from operator_sre.faces.tui.console.asking import Question
from operator_sre.faces.tui.console.choice import Choice
from operator_sre.faces.tui.console.frame import Head, Panel, Standing
from operator_sre.faces.tui.console.outputs import Shown
from operator_sre.faces.tui.console.places import Place, PlaceQuestion
from operator_sre.faces.tui.console.rules import RevokeQuestion
from operator_sre.faces.tui.console.table import Cell, Column, Row, Table
from tests.contract.clock import NOON
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
        for words in ("[2 Tickets]", "3 Approvals (2)", "KILL SWITCH ON", "1 live ticket"):
            assert words in said, words
        head.show(Standing("x", problem="The store is missing"))
        assert "trying again: The store is missing" in head.render().plain


async def test_times_levels_and_tones_are_words() -> None:
    now = NOON
    assert telling.left(now + timedelta(seconds=61), now) == "1:01"
    assert telling.left(now + timedelta(hours=2, seconds=5), now) == "2:00:05"
    assert telling.left(now, now + timedelta(hours=1)) == "0:00"
    assert [telling.ago(now - timedelta(seconds=one), now) for one in (5, 300, 7200)] == [
        *("5 s", "5 min", "2 h"),
    ]
    assert telling.clock(now) == "12:00:00"
    assert telling.level("blocked").text == "✗ BLOCKED"
    assert telling.health("unknown").text == "? unknown"
    assert telling.severity("critical").text == "!! critical"
    assert set(telling.TONES) == {"good", "bad", "warn", "strong", "plain"}
    assert telling.timeline((), 80).plain == "Nothing has happened yet."
    assert telling.diagnosis((), 80).plain == "Nobody has thought about it yet."
    assert telling.proofs((), 80).plain == "Nothing has been proven yet."


async def test_a_fact_is_folded_beside_its_name_and_hides_nothing() -> None:
    text = telling.facts([("command", "rm -rf x\nrm -rf /"), ("", ""), ("why", "word " * 30)], 60)
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
    assert Path(telling.__file__).name == "telling.py"
    assert Shown.__doc__
