"""The console survives its store: locked, away for a while, replaced, and never made anew."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from operator_protocols.errors import StoreError
from operator_sre.app.commands import Wanted, execute_command
from operator_sre.app.wiring import open_app
from operator_sre.faces.tui.console.link import CONNECTING, Growth, Link
from operator_sre.faces.tui.console.table import Table
from tests.contract.samples import violation
from tests.faces.tui.world import config_at, console_on, incident, screen_text, until

pytestmark = pytest.mark.asyncio


async def test_what_comes_is_told_once_and_in_order(tmp_path: Path) -> None:
    config = config_at(tmp_path)
    link = Link(config)
    assert link.problem == CONNECTING
    with pytest.raises(StoreError):
        await link.read(lambda app: app.store.switch.state())
    assert await link.look() == Growth((), anew=True)
    with open_app(config) as app:
        for target in ("node-1", "node-2"):
            await app.store.tickets.open([violation(target)])
        found = await link.look()
        assert not found.anew
        assert [one.ticket for one in found.entries] == [1, 2]
        assert await link.look() == Growth()
    await link.close()
    assert not [one for one in threading.enumerate() if one.name.startswith("console")]


async def test_whoever_closes_it_stops_what_was_begun_and_waits_for_its_end(tmp_path: Path) -> None:
    link = Link(config_at(tmp_path))
    await link.look()
    ended: list[bool] = []
    begun = threading.Event()

    async def forever(app: object) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append(True)

    doing = asyncio.ensure_future(link.act(forever))
    assert await asyncio.to_thread(begun.wait, 30.0)
    await link.close()
    assert ended == [True]
    with pytest.raises(asyncio.CancelledError):
        await doing


async def test_a_store_that_goes_and_comes_back_is_told_and_found_again(tmp_path: Path) -> None:
    config = config_at(tmp_path)
    store = tmp_path / "home" / "operator.db"
    with open_app(config) as app:
        await incident(app)
        async with console_on(config) as (console, pilot):
            await pilot.press("2")
            table = console.screen.query_one(Table)
            await until(pilot, lambda: len(table.rows) == 2)
            with closing(sqlite3.connect(store)) as other:
                other.execute("BEGIN IMMEDIATE")
                await pilot.press("3", "2", "f")
                await until(pilot, lambda: "Tickets: all" in screen_text(pilot))
                assert not console.standing.problem, "who only reads waits for nobody"
                other.execute("ROLLBACK")
            aside = tmp_path / "aside"
            aside.mkdir()
            moved = [shutil.move(one, aside) for one in store.parent.glob("operator.db*")]
            await until(pilot, lambda: "is missing" in screen_text(pilot))
            await until(pilot, lambda: "reconnecting" in screen_text(pilot))
            assert len(table.rows) == 2, "what was seen last is still to be read"
            await pilot.press("1", "2")
            assert not store.exists(), "an empty store must not take its place"
            for one in moved:
                shutil.move(one, store.parent)
            await until(pilot, lambda: "● connected" in screen_text(pilot))


async def test_another_store_in_its_place_is_another_story(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with open_app(config_at(elsewhere)) as app:
        await app.store.tickets.open([violation("node-9")])
    with open_app(config_at(tmp_path)) as app:
        for target in ("node-1", "node-2"):
            await app.store.tickets.open([violation(target)])
    store = tmp_path / "home" / "operator.db"
    async with console_on(config_at(tmp_path)) as (_console, pilot):
        await pilot.press("2")
        await until(pilot, lambda: "node-2" in screen_text(pilot))
        for one in store.parent.glob("operator.db*"):
            one.unlink()
        shutil.copy(elsewhere / "home" / "operator.db", store)
        await until(pilot, lambda: "node-9" in screen_text(pilot))
        assert "node-2" not in screen_text(pilot)
        with open_app(config_at(tmp_path)) as app:
            await app.store.tickets.open([violation("node-10")])
            await until(pilot, lambda: "node-10" in screen_text(pilot))


async def test_a_command_of_somebody_else_is_heard_while_it_runs(tmp_path: Path) -> None:
    config = config_at(tmp_path)
    with open_app(config) as app:
        command = "echo begun; for i in 1 2 3 4 5 6 7 8 9; do sleep 1; done; echo over"
        doing = asyncio.ensure_future(
            execute_command(app, Wanted(command, timeout_s=60.0), on_request=lambda one: None)
        )
        async with console_on(config) as (_console, pilot):
            await pilot.press("4")
            await until(pilot, lambda: "► running" in screen_text(pilot))
            await until(pilot, lambda: "│ begun" in screen_text(pilot))
            assert "│ over" not in screen_text(pilot)
            doing.cancel()
            await asyncio.gather(doing, return_exceptions=True)
            await until(pilot, lambda: "✗ cancelled" in screen_text(pilot))
