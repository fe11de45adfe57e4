"""Every page and every key of the console, over a real store with a real incident in it."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from operator_protocols.domain.entry import Actor, Kind
from operator_protocols.domain.permit import ApprovalState
from operator_protocols.domain.ticket import Move, MoveKind, TicketState
from operator_sre.app.approvals import list_rules
from operator_sre.app.persons import signed_in
from operator_sre.app.wiring import App
from operator_sre.faces.tui.console.application import Console, Help
from operator_sre.faces.tui.console.approvals import ApprovalsPage
from operator_sre.faces.tui.console.audit import AuditPage
from operator_sre.faces.tui.console.frame import PAGES, Page
from operator_sre.faces.tui.console.health import HealthPage
from operator_sre.faces.tui.console.history import HistoryPage
from operator_sre.faces.tui.console.question import Question
from operator_sre.faces.tui.console.rules import RulesPage
from operator_sre.faces.tui.console.run import RunPage
from operator_sre.faces.tui.console.switch import SwitchQuestion
from operator_sre.faces.tui.console.table import Table
from operator_sre.faces.tui.console.ticket import (
    FILTERS,
    MOVES,
    MoveQuestion,
    TicketPage,
    TicketsPage,
)
from operator_sre.faces.tui.lines import Lines
from tests.contract.postgres import database_in
from tests.faces.tui.world import (
    SLOW_AND_QUICK,
    ask,
    config_at,
    confirm,
    console_on,
    screen_text,
    until,
    world_at,
)

pytestmark = pytest.mark.asyncio
PAGE_WORDS = {
    "1": ("BROKEN", "node_down", "ticket 1"),
    "2": ("node-1", "high_latency"),
    "3": ("systemctl restart shop-node-1",),
    "4": ("printf",),
    "6": ("approval_requested",),
}


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    """A home of one's own, with an incident."""
    with world_at(tmp_path) as found:
        yield found


async def _shows(pilot: Pilot[int], *words: str) -> None:
    def seen() -> bool:
        text = screen_text(pilot)
        return all(word in text for word in words)

    await until(pilot, seen)


async def _counts_down(pilot: Pilot[int]) -> None:
    def left() -> str:
        found = re.search(r"time left +(\d+:\d\d), until \d\d:\d\d:\d\d UTC", screen_text(pilot))
        assert found is not None
        return found[1]

    before = left()
    await until(pilot, lambda: left() < before)


async def _types(pilot: Pilot[int], text: str) -> None:
    names = {" ": "space", "/": "slash", ".": "full_stop", "-": "minus", "'": "apostrophe"}
    names |= {";": "semicolon", "_": "underscore", ">": "greater_than_sign"}
    await pilot.press(*(names.get(one, one) for one in text))


@pytest.mark.parametrize("size", SLOW_AND_QUICK)
async def test_every_page_opens_by_its_key_and_says_what_is_so(
    app: App, tmp_path: Path, size: tuple[int, int]
) -> None:
    await asyncio.to_thread(ask, app)
    await asyncio.to_thread(confirm, app)
    classes = (HealthPage, TicketsPage, ApprovalsPage, HistoryPage, RunPage, AuditPage)
    async with console_on(config_at(tmp_path), size) as (console, pilot):
        assert isinstance(console, Console)
        for (key, name), kind in zip(PAGES, classes, strict=True):
            await pilot.press("escape", key)
            assert isinstance(console.screen, kind)
            assert isinstance(console.screen, Page)
            await _shows(pilot, f"[{key} {name.title()}", "connected", "2 pending approval")
        await pilot.press("escape", "1")
        await _shows(pilot, "BROKEN", "shop", "0/1 healthy", "node_down", "ticket 1")
        await pilot.press("enter")
        await _shows(pilot, "[d Diagnosis]", "ticket 1: node-1", "confidence 97.0%", "evidence")
        await pilot.press("end")
        await _shows(pilot, "97.0 %  ███", "process_hung", "choice")
        await pilot.press("t")
        await _shows(pilot, "[t Timeline]", "work started by an agent", "prove")
        await pilot.press("p")
        await _shows(pilot, "[p Proof]", "DID NOT HOLD", "still down")
        await pilot.press("c")
        await _shows(pilot, "[c Commands]", "SAFE", "exit 0", "printf", "│ one ", "│ two ")
        await pilot.press("o")
        await _shows(pilot, "Whole output of command", "│ two ")
        await pilot.press("escape")
        assert isinstance(console.screen, HealthPage)
        await pilot.press("question_mark")
        assert isinstance(console.screen, Help)
        await _shows(pilot, "On this page (health)", "Everywhere", "Ctrl-C")
        await pilot.press("escape", "3")
        await _shows(pilot, "systemctl restart shop-node-1", "directory  /srv/shop on worker-1")
        await _shows(pilot, "risk medium: it restarts", "changes    /srv/shop/node-1.pid")
        await _counts_down(pilot)
        await pilot.press("down")
        await _shows(pilot, "policy_patch", "because", "bob (user)")


async def test_a_look_that_ends_while_the_console_closes_breaks_nothing(
    app: App, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with console_on(config_at(tmp_path)) as (console, pilot):
        await _shows(pilot, "BROKEN")
        monkeypatch.setattr(
            console, "_screen_stacks", {mode: [] for mode in console._screen_stacks}
        )
        before = console.standing
        console._show(replace(before, waiting=before.waiting + 1))
        assert console.standing.waiting == before.waiting + 1
        monkeypatch.undo()


async def test_tickets_are_filtered_and_searched(app: App, tmp_path: Path) -> None:
    async with console_on(config_at(tmp_path)) as (console, pilot):
        await pilot.press("2")
        table = console.screen.query_one(Table)
        await until(pilot, lambda: len(table.rows) == 2)
        await pilot.press("slash")
        await _types(pilot, "latency")
        await until(pilot, lambda: [one.key for one in table.rows] == ["2"])
        await pilot.press("enter", "enter")
        await until(pilot, lambda: isinstance(console.screen, TicketPage))
        await _shows(pilot, "ticket 2: node-2", "p99 is 340 ms")
        await pilot.press("escape")
        await pilot.press("escape")
        await until(pilot, lambda: len(table.rows) == 2)
        for name, states in FILTERS[1:]:
            await pilot.press("f")
            await _shows(pilot, f"Tickets: {name}")
            wanted = {"claimed": 1, "open": 1}
            found = sum(wanted.get(state, 0) for state in states) if states else 2
            await until(pilot, lambda: len(table.rows) == found)  # noqa: B023
        await pilot.press("f", "s")
        await _shows(pilot, "Tickets: live critical")
        await pilot.press("s")
        await _shows(pilot, "Tickets: live warning", "No matching tickets")


async def test_a_person_approves_once_with_a_reason_and_rejects_with_one(
    app: App, tmp_path: Path
) -> None:
    for name in ("first", "second", "third"):
        await asyncio.to_thread(ask, app, name)
    async with console_on(config_at(tmp_path), (80, 24)) as (console, pilot):
        await pilot.press("3")
        await _shows(pilot, "3 pending approval")
        table = console.screen.query_one(Table)
        await pilot.press("a")
        await _shows(pilot, "(●) approve once", "( ) always: exactly this", "Approve (Ctrl-S)")
        assert isinstance(console.screen, Question)
        await pilot.press("escape")
        found = app.store.approvals.get("first")
        assert found is not None
        assert found.state is ApprovalState.PENDING, "a question that is left answers nothing"
        await pilot.press("a", "tab", "tab", "tab")
        await _types(pilot, "looks right")
        await pilot.press("enter")
        assert isinstance(console.screen, Question), "a line that is ended answers nothing"
        await pilot.press("enter")
        await until(pilot, lambda: [one.key for one in table.rows] == ["second", "third"])
        await pilot.press("r")
        await _types(pilot, "not now")
        await pilot.press("enter", "enter")
        await until(pilot, lambda: [one.key for one in table.rows] == ["third"])
        await pilot.press("w", "ctrl+s")
        await _shows(pilot, "No pending approvals")
    told = [
        (one.state, one.decided_by, one.reason)
        for one in map(app.store.approvals.get, ("first", "second", "third"))
        if one is not None
    ]
    me = signed_in()
    assert told == [
        (ApprovalState.APPROVED, me, "looks right"),
        (ApprovalState.REJECTED, me, "not now"),
        (ApprovalState.WITHDRAWN, me, ""),
    ]


@pytest.mark.slow
async def test_always_is_exact_or_flags_or_a_path_and_can_be_revoked(
    app: App, tmp_path: Path
) -> None:
    for name in ("exact", "flags", "path"):
        await asyncio.to_thread(ask, app, name)
    async with console_on(config_at(tmp_path)) as (console, pilot):
        await pilot.press("3")
        await _shows(pilot, "3 pending")
        for downs, likeness in ((1, "exact"), (2, "flags")):
            await pilot.press("a", *["down"] * downs, "ctrl+s")
            await until(pilot, lambda: isinstance(console.screen, ApprovalsPage))
            likes = [one.likeness for one in list_rules(app, revoked=False)]
            assert likes[-1] == likeness
            table = console.screen.query_one(Table)
            await until(pilot, lambda: table.key != likeness)  # noqa: B023
        await pilot.press("a", "down", "down", "down", "tab", "down", "ctrl+s")
        await _shows(pilot, "Type the path")
        assert isinstance(console.screen, Question), "what cannot be done leaves the question open"
        await pilot.press("escape", "l")
        assert isinstance(console.screen, RulesPage)
        await _shows(pilot, "systemctl restart", "flags", "made by")
        await pilot.press("x")
        await _types(pilot, "enough")
        await pilot.press("ctrl+s")
        await until(pilot, lambda: len(list_rules(app, revoked=False)) == 1)
        await pilot.press("escape", "3")
    revoked = [one for one in list_rules(app, revoked=True) if one.revoked_by]
    assert [one.revoked_because for one in revoked] == ["enough"]


async def test_a_confirmation_is_declined_and_a_request_of_the_past_is_told_as_such(
    app: App, tmp_path: Path
) -> None:
    await asyncio.to_thread(confirm, app)
    await asyncio.to_thread(ask, app, "late")
    async with console_on(config_at(tmp_path)) as (console, pilot):
        await pilot.press("3")
        await _shows(pilot, "2 pending")
        await pilot.press("a")
        await app.store.approvals.decide(
            "late",
            ApprovalState.WITHDRAWN,
            by=app.store.approvals.find()[0].requester,
            reason="",
            version=1,
        )
        await pilot.press("ctrl+s")
        await until(
            pilot, lambda: any("late" in str(one.message) for one in console._notifications)
        )
        await pilot.press("escape")
        await until(pilot, lambda: console.screen.query_one(Table).key == "conf_1")
        await pilot.press("r")
        await _types(pilot, "no")
        await pilot.press("ctrl+s")
        await _shows(pilot, "No pending approvals")
    (one,) = app.store.confirmations.find("conf_1")
    assert (one.state, one.reason) == ("declined", "no")


async def test_a_page_that_is_left_while_it_reads_breaks_nothing(
    app: App, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = bare = 0

    async def late(page: ApprovalsPage) -> None:
        nonlocal reads, bare
        reads += 1
        for _ in iter(lambda: len(page.query(Table)), 0):
            await asyncio.sleep(0)
        bare += 1
        page.query_one(Table)

    async with console_on(config_at(tmp_path)) as (console, pilot):
        await pilot.press("3")
        await _shows(pilot, "No pending approvals")
        monkeypatch.setattr(ApprovalsPage, "load", late)
        assert isinstance(console.screen, Page)
        console.screen.reload()
        await until(pilot, lambda: reads)
    assert bare


async def test_a_command_is_judged_while_it_is_typed_and_heard_while_it_runs(
    app: App, tmp_path: Path
) -> None:
    mark = tmp_path / "go"
    os.mkfifo(mark)
    async with console_on(config_at(tmp_path)) as (console, pilot):
        await pilot.press("5")
        line = console.screen.query_one(Input)
        await until(pilot, lambda: console.focused is line)
        await _types(pilot, "rm 1")
        await _shows(pilot, "REVIEW  risk high", "It deletes files")
        line.value = "mkfs /dev/sda"
        await _shows(pilot, "BLOCKED")
        await pilot.press("enter")
        await _shows(pilot, "— not run:")
        line.value = f"echo begun; cat {mark}"
        await _shows(pilot, "SAFE")
        await pilot.press("enter")
        await _shows(pilot, "│ begun", "running; Ctrl-X cancels")
        await asyncio.to_thread(mark.write_text, "the rest\n")
        await _shows(pilot, "│ the rest", "— exit 0 in")
        await pilot.press("enter")
        await _shows(pilot, "running; Ctrl-X cancels")
        await pilot.press("ctrl+x")
        await _shows(pilot, "— cancelled")
        line.value = "echo aws_access_key_id = " + "AKIA" + "Q3EGRZ7TYUPLMN4X"
        await pilot.press("enter")
        await _shows(pilot, "[REDACTED:")
        await pilot.press("ctrl+t")
        where = console.screen.query_one("#cwd", Input)
        where.value = str(tmp_path)
        await pilot.press("ctrl+s")
        await until(pilot, lambda: isinstance(console.screen, RunPage))
        line.value = "pwd"
        await pilot.press("enter")
        await _shows(pilot, f"│ {tmp_path}"[:60])
        await pilot.press("escape", "4")
        await _shows(pilot, "pwd", "cancelled", "refused")


async def test_what_needs_a_yes_waits_for_it_and_then_runs(tmp_path: Path, app: App) -> None:
    made = tmp_path / "made"
    async with console_on(config_at(tmp_path, mode="approve")) as (console, pilot):
        await pilot.press("5")
        console.screen.query_one(Input).value = f"mkdir {made}"
        await pilot.press("enter")
        await _shows(pilot, "— pending approval")
        assert not made.exists()
        await pilot.press("escape", "3")
        await _shows(pilot, f"mkdir {made}"[:60], "1 pending")
        await pilot.press("a", "ctrl+s")
        await until(pilot, made.is_dir)
        await pilot.press("5")
        await _shows(pilot, "— exit 0 in")


@pytest.mark.slow
async def test_the_history_is_searched_filtered_and_taken_to_the_line(
    app: App, tmp_path: Path
) -> None:
    async with console_on(config_at(tmp_path)) as (console, pilot):
        await pilot.press("5")
        for command in ("echo needle-in-a-haystack", "ls /nowhere-at-all"):
            console.screen.query_one(Input).value = command
            await pilot.press("enter")
            await _shows(pilot, "— exit", command)
            await until(pilot, lambda: "Output, running" not in screen_text(pilot))
        await pilot.press("escape", "4")
        table = console.screen.query_one(Table)
        await until(pilot, lambda: len(table.rows) == 3)
        await pilot.press("slash")
        await _types(pilot, "haystack")
        await until(pilot, lambda: len(table.rows) == 1)
        await pilot.press("enter", "escape", "f", "f")
        await _shows(pilot, "Commands: failed", "ls /nowhere-at-all")
        await until(pilot, lambda: len(table.rows) == 1)
        await pilot.press("enter")
        assert isinstance(console.focused, Lines)
        await pilot.press("e")
        await until(pilot, lambda: isinstance(console.screen, RunPage))
        assert console.screen.query_one(Input).value == "ls /nowhere-at-all"


async def test_the_ledger_is_followed_stood_still_and_verified(app: App, tmp_path: Path) -> None:
    async with console_on(config_at(tmp_path)) as (console, pilot):
        await pilot.press("6")
        table = console.screen.query_one(Table)
        await until(pilot, lambda: len(table.rows) > 5)
        before = len(table.rows)
        await app.store.ticket_moves.make(1, _comment("followed"))
        await until(pilot, lambda: len(table.rows) == before + 1)
        await _shows(pilot, "ticket_commented", "followed")
        await pilot.press("space")
        await _shows(pilot, "paused")
        await app.store.ticket_moves.make(1, _comment("missed"))
        await pilot.press("v")
        await _shows(pilot, f"The ledger is intact: {before + 2} entries")
        assert len(table.rows) == before + 1
        await pilot.press("home", "t")
        await until(pilot, lambda: isinstance(console.screen, TicketPage))


@pytest.mark.slow
async def test_every_move_of_a_ticket_is_made_in_ones_own_name(app: App, tmp_path: Path) -> None:
    assert {name for name, _ in MOVES} == ({*MoveKind} - {MoveKind.HAND_OFF}) | {"resolve"}
    async with console_on(config_at(tmp_path)) as (console, pilot):
        console.open_ticket(2)
        await _shows(pilot, "ticket 2: node-2")
        for at, (name, _) in enumerate(MOVES):
            if name == "resolve":
                continue
            await pilot.press("m")
            await until(pilot, lambda: isinstance(console.screen, MoveQuestion))
            await pilot.press(*["down"] * at, "tab")
            await _types(pilot, f"because {at}")
            await pilot.press("tab")
            await _types(pilot, {"snooze": "2h", "assign": "ada"}.get(name, ""))
            await pilot.press("ctrl+s")
            await until(pilot, lambda: isinstance(console.screen, TicketPage))
        await _shows(pilot, "ada's")
    ticket = app.store.tickets.get(2)
    assert ticket is not None
    assert (ticket.state, ticket.assignee) == (TicketState.OPEN, "ada")
    said = [
        one for one in app.store.entries.after(0, limit=999, ticket=2) if one.actor.id != "operator"
    ]
    assert {one.actor.id for one in said} == {signed_in()}
    assert len([one for one in said if one.kind is not Kind.TICKET_OPENED]) == len(MOVES) - 1


async def test_the_kill_switch_takes_a_word_and_a_yes(app: App, tmp_path: Path) -> None:
    await asyncio.to_thread(ask, app)
    async with console_on(config_at(tmp_path), (80, 24)) as (console, pilot):
        await pilot.press("K")
        assert isinstance(console.screen, SwitchQuestion)
        await pilot.press("ctrl+s")
        await _shows(pilot, "Nothing was stopped")
        assert not app.store.switch.state().on
        await _types(pilot, "stop")
        await pilot.press("enter")
        await _types(pilot, "fire")
        await pilot.press("ctrl+s")
        await _shows(pilot, "KILL SWITCH ON")
        state = app.store.switch.state()
        assert (state.on, state.reason, state.by) == (True, "fire", signed_in())
        found = app.store.approvals.get("ask-1")
        assert found is not None
        assert found.state is ApprovalState.CANCELLED
        await pilot.press("K", "ctrl+s")
        await until(pilot, lambda: not app.store.switch.state().on)
        await until(pilot, lambda: "KILL SWITCH ON" not in screen_text(pilot))
    kinds = [one.kind for one in app.store.entries.after(0, limit=999)]
    assert Kind.CONFIRMATION_DECIDED in kinds, "letting go is confirmed, and on record"


async def test_the_mouse_opens_pages_rows_and_buttons(app: App, tmp_path: Path) -> None:
    async with console_on(config_at(tmp_path), (80, 24)) as (console, pilot):
        await pilot.click(offset=(13, 0))
        assert isinstance(console.screen, TicketsPage)
        table = console.screen.query_one(Table)
        await until(pilot, lambda: len(table.rows) == 2)
        await pilot.click(Table, offset=(6, 3))
        assert table.key == "2"
        await pilot.click(Table, offset=(6, 3))
        await until(pilot, lambda: isinstance(console.screen, TicketPage))
        await pilot.press("m")
        await until(pilot, lambda: isinstance(console.screen, MoveQuestion))
        await pilot.click("#no")
        assert isinstance(console.screen, TicketPage)


def _comment(text: str) -> Move:
    return Move(MoveKind.COMMENT, Actor("ada", "user"), text)


@pytest.mark.slow
async def test_every_page_and_an_answer_on_a_store_in_a_server(
    pytestconfig: pytest.Config, tmp_path: Path
) -> None:
    with database_in("postgresql", tmp_path, pytestconfig) as where:
        # The world is made with a loop of its own.
        making = world_at(tmp_path, store=where)
        found = await asyncio.to_thread(making.__enter__)
        try:
            await asyncio.to_thread(ask, found, "first")
            async with console_on(config_at(tmp_path, store=where)) as (_, pilot):
                for key, words in PAGE_WORDS.items():
                    await pilot.press(key)
                    await _shows(pilot, *words)
                    await pilot.press("escape")
                await pilot.press("3", "a", "ctrl+s")
                await _shows(pilot, "No pending approvals")
            answered = found.store.approvals.get("first")
            assert answered is not None
            assert answered.state is ApprovalState.APPROVED
        finally:
            await asyncio.to_thread(making.__exit__, None, None, None)
