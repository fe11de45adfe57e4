"""A store that is away for a moment ends neither an agent nor its other runs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from operator_protocols.domain.permit import Approval
from operator_protocols.domain.run import Answer, Ask, Escalate
from operator_protocols.domain.ticket import TicketState
from operator_protocols.errors import StoreError
from operator_sre.engine import LocalEngine
from operator_sre.engine.local import FOLLOW_S, POLL_S, Parking
from tests.contract.clock import HeldClock
from tests.contract.samples import approval, violation
from tests.contract.workshop import Script, Workshop
from tests.processes.waiting import eventually

pytestmark = pytest.mark.asyncio

AWAY = "the store is away"


class _Away:
    """A port of the store whose named verb fails so many times, and works from then on."""

    def __init__(self, real: object, verb: str, times: int) -> None:
        self._real, self._verb, self.left = real, verb, times

    def __getattr__(self, name: str) -> Any:
        if name == self._verb and self.left:
            self.left -= 1
            return self._fail if name != "find" else self._fail_at_once
        return getattr(self._real, name)

    async def _fail(self, *_: object, **__: object) -> None:
        raise StoreError(AWAY)

    def _fail_at_once(self, *_: object, **__: object) -> None:
        raise StoreError(AWAY)


class _Mind:
    """It thinks for ever about node-1 or breaks at once, and gives up on all else."""

    name = "mind"

    def __init__(self, *, breaks: bool) -> None:
        self._breaks = breaks
        self.begun = asyncio.Event()

    async def answer(self, ask: Ask) -> Answer:
        """What is written above."""
        if ask.briefing.ticket.target != "node-1":
            return Answer("", (Escalate("a person has to take over"),))
        self.begun.set()
        if self._breaks:
            raise ConnectionError("the model is away")
        await asyncio.Event().wait()
        raise AssertionError("nothing wakes it")


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Workshop]:
    """A workshop whose time stands still."""
    one = Workshop(tmp_path, Script(), clock=HeldClock())
    one.plant.up["node-2"] = False
    yield one
    one.close()


def _engine(shop: Workshop, verb: str, *, times: int = 1) -> LocalEngine:
    leases: Any = _Away(shop.store.leases, verb, times)
    return LocalEngine(
        pipeline=shop.pipeline(),
        leases=leases,
        clock=shop.clock,
        worker="worker",
        new_id=lambda: next(shop.new_id),
        interval_s=10.0,
        runs_max=1,
    )


async def _until(shop: Workshop, true: Callable[[], object]) -> None:
    def so() -> object:
        shop.clock.advance(0.05)
        return true()

    await eventually(so)


def _state(shop: Workshop, number: int) -> TicketState:
    found = shop.store.tickets.get(number)
    assert found is not None
    return found.state


async def _stop(working: asyncio.Task[None]) -> None:
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
    assert working.cancelled()


async def test_whoever_cannot_ask_for_tickets_asks_again(
    shop: Workshop, caplog: pytest.LogCaptureFixture
) -> None:
    shop.model = _Mind(breaks=False)
    await shop.store.tickets.open([violation("node-2", "up")])
    working = asyncio.create_task(_engine(shop, "claim", times=2).work())
    for _ in range(2):
        await asyncio.wait_for(shop.clock.asleep(for_s=POLL_S), 5.0)
        assert _state(shop, 1) is TicketState.OPEN
        shop.clock.advance(POLL_S)
        await asyncio.sleep(0)
    await _until(shop, lambda: _state(shop, 1) is TicketState.ESCALATED)
    assert caplog.text.count(AWAY) == 2
    await _stop(working)


async def test_a_failed_run_that_cannot_be_given_back_does_not_end_the_agent(
    shop: Workshop, caplog: pytest.LogCaptureFixture
) -> None:
    mind = _Mind(breaks=True)
    shop.model = mind
    await shop.store.tickets.open([violation("node-1", "up")])
    working = asyncio.create_task(_engine(shop, "release").work())
    await asyncio.wait_for(mind.begun.wait(), 5.0)
    await eventually(lambda: AWAY in caplog.text)
    await shop.store.tickets.open([violation("node-2", "up")])
    await _until(shop, lambda: _state(shop, 2) is TicketState.ESCALATED)
    assert not working.done()
    await _stop(working)


async def test_work_that_was_stopped_and_cannot_be_given_back_does_not_end_the_agent(
    shop: Workshop, caplog: pytest.LogCaptureFixture
) -> None:
    mind = _Mind(breaks=False)
    shop.model = mind
    await shop.store.tickets.open([violation("node-1", "up")])
    engine = _engine(shop, "release")
    lost: list[bool] = []
    tickets: Any = _Gone(shop.store.tickets, lost)
    engine = replace(engine, pipeline=replace(engine.pipeline, tickets=tickets))
    working = asyncio.create_task(engine.work_once())
    await asyncio.wait_for(mind.begun.wait(), 5.0)
    lost.append(True)
    shop.clock.advance(FOLLOW_S)
    with caplog.at_level(logging.ERROR):
        assert await asyncio.wait_for(working, 5.0)
    assert AWAY in caplog.text


class _Gone:
    """Tickets of which none is there any more once `lost` says so."""

    def __init__(self, real: object, lost: list[bool]) -> None:
        self._real, self._lost = real, lost

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name) if not self._lost else lambda *_: None


async def test_one_read_that_fails_does_not_keep_a_run_from_being_parked(
    shop: Workshop, caplog: pytest.LogCaptureFixture
) -> None:
    ticket = await shop.store.tickets.open([violation("node-1", "up")])
    asked: Approval = replace(
        approval("a1", at=shop.clock.now(), within_s=3600.0), run="run-1", parked=True
    )
    await shop.store.approvals.request(asked)
    approvals: Any = _Away(shop.store.approvals, "find", 1)
    parking = Parking(approvals, shop.clock, park_s=2.0)
    work: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    following = asyncio.create_task(parking.follow(replace(ticket, run="run-1"), work))
    await _until(shop, lambda: work.cancelled() or following.done())
    await following
    assert AWAY in caplog.text
    assert work.cancelled()
    assert parking.request is not None


async def test_work_that_failed_in_the_moment_it_was_stopped_is_given_back(shop: Workshop) -> None:
    await shop.store.tickets.open([violation("node-1", "up")])
    ticket = await shop.claim()
    work: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    work.set_exception(StoreError(AWAY))
    parking = Parking(None, shop.clock, park_s=2.0)
    await _engine(shop, "", times=0)._park(ticket, work, parking)
    assert _state(shop, ticket.id) is TicketState.OPEN
