"""What Runs promise: every run as the ledger tells it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from operator_protocols.domain.run_record import RunRecord
from tests.contract.clock import NOON, HeldClock
from tests.contract.samples import run_finished, run_started, ticket
from tests.contract.stores import Home, Ports

pytestmark = pytest.mark.asyncio


async def test_a_run_that_never_began_is_none(ports: Ports) -> None:
    assert ports.runs.get("run-1") is None
    assert list(ports.runs.newest(limit=10)) == []


async def test_a_run_is_running_until_it_is_finished(ports: Ports, clock: HeldClock) -> None:
    held = ticket(run="run-1")
    await ports.journal.append(run_started(held))
    running = RunRecord("run-1", 1, "reasoner", "running", NOON, None, "")
    assert ports.runs.get("run-1") == running
    clock.advance(4.0)
    await ports.journal.append(run_finished(held, state="failed", summary="the budget is used up"))
    assert ports.runs.get("run-1") == replace(
        running, state="failed", finished_at=clock.now(), summary="the budget is used up"
    )


async def test_a_run_that_is_resumed_is_the_same_run(ports: Ports) -> None:
    held = ticket(run="run-1")
    first = await ports.journal.append(run_started(held))
    assert await ports.journal.append(run_started(held)) == first
    assert len(ports.runs.newest(limit=10)) == 1


async def test_the_newest_run_comes_first(ports: Ports) -> None:
    for number in range(4):
        await ports.journal.append(run_started(ticket(run=f"run-{number}")))
    assert [run.id for run in ports.runs.newest(limit=3)] == ["run-3", "run-2", "run-1"]
    assert [run.id for run in ports.runs.newest(limit=2, before="run-2")] == ["run-1", "run-0"]
    assert list(ports.runs.newest(limit=2, before="nosuch")) == []


async def test_runs_survive_a_reopened_database(home: Home) -> None:
    await home.open().journal.append(run_started(ticket(run="run-1")))
    home.close()
    found = home.open().runs.get("run-1")
    assert found is not None
    assert found.state == "running"
