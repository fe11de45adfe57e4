"""Who works on a store: as they say of themselves, and as the tickets say of them."""

from __future__ import annotations

import asyncio
import os
import socket
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from operator_protocols.domain.watcher import Worker
from operator_protocols.errors import UsageError
from operator_sre.app.listeners import SILENT_S, list_workers
from operator_sre.app.service import agent, run_worker, up
from operator_sre.engine import LocalEngine
from tests.app.home import opened
from tests.contract.samples import violation
from tests.processes.waiting import eventually

pytestmark = pytest.mark.asyncio


async def test_a_worker_is_shown_with_the_tickets_that_it_holds(tmp_path: Path) -> None:
    with opened(tmp_path) as app:
        now = app.clock.now()
        busy = Worker("crane:7-ab", "crane", "host-1", 7, "dbos", "1.0", now, now)
        gone = replace(busy, id="crane:8-cd", pid=8, at=now - timedelta(seconds=SILENT_S + 1))
        for worker in (busy, gone):
            await app.store.workers.beat(worker)
        for node in ("node-1", "node-2"):
            await app.store.tickets.open([violation(node)])
        await app.store.leases.claim(busy.id, run="run-1", lease_s=60.0, attempts_max=3)
        views = list_workers(app)
        assert [(one.worker, one.speaks, one.tickets) for one in views] == [
            (busy, True, (1,)),
            (gone, False, ()),
        ]


async def test_who_runs_is_known_until_it_is_stopped(tmp_path: Path) -> None:
    with opened(tmp_path) as app:
        working = asyncio.ensure_future(run_worker(app, engine="local", name="crane"))
        await eventually(lambda: list_workers(app))
        (view,) = list_workers(app)
        assert (view.worker.name, view.worker.pid) == ("crane", os.getpid())
        assert view.worker.id.startswith(f"crane:{os.getpid()}-")
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
        assert list_workers(app) == []


async def test_an_agent_and_what_is_up_are_among_those_who_work(tmp_path: Path) -> None:
    with opened(tmp_path) as app:
        running = {
            "agent": asyncio.ensure_future(agent(app)),
            "up": asyncio.ensure_future(up(app, [], every=True)),
        }
        await eventually(lambda: len(list_workers(app)) == len(running))
        views = {one.worker.role: one for one in list_workers(app)}
        assert set(views) == set(running)
        for one in views.values():
            worker = one.worker
            assert (worker.pid, worker.host, worker.engine) == (
                *(os.getpid(), socket.gethostname(), "local"),
            )
            assert one.speaks
        for task in running.values():
            task.cancel()
        await asyncio.gather(*running.values(), return_exceptions=True)
        assert list_workers(app) == []


async def test_an_agent_holds_its_tickets_under_the_name_it_is_listed_by(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claimed: list[str] = []

    async def work(self: LocalEngine) -> None:
        claimed.append(self.worker)
        await asyncio.Event().wait()

    monkeypatch.setattr(LocalEngine, "work", work)
    with opened(tmp_path) as app:
        working = asyncio.ensure_future(agent(app))
        await eventually(lambda: claimed and list_workers(app))
        assert [one.worker.id for one in list_workers(app)] == claimed
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)


@pytest.mark.parametrize("name", ["a:b", "a\nb", "x" * 65])
async def test_a_name_that_cannot_be_told_apart_is_refused(tmp_path: Path, name: str) -> None:
    with opened(tmp_path) as app:
        with pytest.raises(UsageError, match="not a valid name"):
            await run_worker(app, engine="local", name=name)
        assert list_workers(app) == []
