"""`--tell` (TellOption, tell_work): each of two processes tells what it does itself."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from operator_protocols.domain.entry import Draft, Kind
from operator_protocols.domain.health import Health
from operator_protocols.ports import Condition
from operator_sre.app.story import each_look
from operator_sre.app.wiring import App
from operator_sre.faces.cli.story import with_entries
from tests.app.home import SUBJECTS, opened
from tests.contract.samples import violation
from tests.processes.waiting import eventually

REASONING = {"reasoning": "\x1b[31mit is gone", "calls": []}


async def _work(app: App) -> None:
    """One look that finds a subject broken, a ticket, and a thought."""
    pipeline, now = app.engine().pipeline, app.clock.now()
    broken = Condition("shop", "node_down", "node-1", Health.BROKEN, now, now)
    await app.store.conditions.update([broken])
    await pipeline.monitor.check(pipeline.controls("shop").subject)
    ticket = await app.store.tickets.open([violation()])
    await app.store.journal.append(Draft(Kind.REASONING, REASONING, ticket=ticket.id))
    await asyncio.Event().wait()


async def _told(app: App, capsys: pytest.CaptureFixture[str], *, works: bool, last: str) -> str:
    said: list[str] = []

    def seen() -> bool:
        said.append(capsys.readouterr().out)
        return last in "".join(said)

    told = with_entries(
        app, _work(app), as_json=False, subjects=lambda: ["shop"], works=works, tell=True
    )
    telling = asyncio.create_task(told)
    try:
        await eventually(seen)
    finally:
        telling.cancel()
        await asyncio.gather(telling, return_exceptions=True)
    return "".join(said)


@pytest.mark.asyncio
async def test_a_monitor_tells_its_looks_and_tickets_and_no_thoughts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with opened(tmp_path, SUBJECTS) as app:
        before = app.clock.now()
        assert each_look(app, "shop", before) is None
        text = await _told(app, capsys, works=False, last="ticket opened")
        assert "watch  shop is checked every" in text
        assert "checked: BROKEN node_down at node-1" in text
        assert "think" not in text
        look = each_look(app, "shop", before)
        assert look is not None
        assert look[0] > before
        assert each_look(app, "shop", look[0]) is None


@pytest.mark.asyncio
async def test_an_agent_tells_what_it_thinks_and_no_looks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with opened(tmp_path, SUBJECTS) as app:
        text = await _told(app, capsys, works=True, last="it is gone")
        assert "mode observe" in text
        assert "checked:" not in text
        assert "ticket opened" not in text
        assert "\x1b" not in text
