"""A run that waits for people gives its worker back, and is taken up when they have answered."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from operator_protocols.domain.entry import Actor, Kind
from operator_protocols.domain.permit import Approval, ApprovalState
from operator_protocols.domain.run import Answer, Escalate
from operator_protocols.domain.ticket import TicketState
from operator_sre.engine import LocalEngine
from operator_sre.engine.local import PARK_S, Parking
from tests.contract.clock import HeldClock
from tests.contract.samples import approval, run_started, violation
from tests.contract.workshop import Script, Workshop

pytestmark = pytest.mark.asyncio

HOUR_S = 3600.0
ADA = Actor("ada", "user")


class _Asking:
    """A mind that asks a person by itself, as a gate would, and gives up when it has an answer."""

    name = "asking"

    def __init__(self, shop: Workshop, *, parked: bool) -> None:
        self._shop = shop
        self._parked = parked

    async def answer(self, ask: object) -> Answer:
        """Wait for the answer, however long it takes."""
        store, now = self._shop.store, self._shop.clock.now()
        (ticket,) = store.tickets.find()
        known = store.approvals.get("a1")
        if known is None:
            asked = replace(
                approval("a1", at=now, within_s=HOUR_S), run=ticket.run, parked=self._parked
            )
            known = await store.approvals.request(asked)
        while known.state is ApprovalState.PENDING:
            await self._shop.clock.sleep(0.2)
            known = store.approvals.get("a1") or known
        return Answer("", (Escalate(f"it was {known.state}"),))


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Workshop]:
    """A workshop whose time stands still."""
    one = Workshop(tmp_path, Script(), clock=HeldClock())
    yield one
    one.close()


def _engine(shop: Workshop, *, parked: bool) -> LocalEngine:
    shop.model = _Asking(shop, parked=parked)
    return LocalEngine(
        pipeline=shop.pipeline(),
        leases=shop.store.leases,
        clock=shop.clock,
        worker="worker",
        new_id=lambda: next(shop.new_id),
        interval_s=10.0,
        approvals=shop.store.approvals,
    )


async def _until_asked(shop: Workshop) -> None:
    await shop.clock.asleep(for_s=0.2)
    assert shop.store.approvals.get("a1") is not None


async def _pass(shop: Workshop, seconds: float) -> None:
    for _ in range(int(seconds)):
        shop.clock.advance(1.0)
        for _ in range(20):
            await asyncio.sleep(0)


async def _park(shop: Workshop) -> LocalEngine:
    engine = _engine(shop, parked=True)
    await shop.store.tickets.open([violation("node-1", "up")])
    working = asyncio.ensure_future(engine.work_once())
    await _until_asked(shop)
    await _pass(shop, PARK_S - 2)
    assert not working.done(), "most answers come at once"
    await _pass(shop, 4)
    assert await asyncio.wait_for(working, 10.0)
    return engine


async def test_its_worker_is_free_until_the_answer_comes(shop: Workshop) -> None:
    engine = await _park(shop)
    (ticket,) = shop.store.tickets.find()
    assert (ticket.state, ticket.worker, ticket.attempts) == (TicketState.OPEN, "", 0)
    assert "a1" in ticket.reason
    assert not await engine.work_once(), "nobody takes it up while it waits"
    await shop.store.approvals.decide("a1", ApprovalState.APPROVED, by=ADA, reason="yes", version=1)
    assert await engine.work_once()
    (ticket,) = shop.store.tickets.find()
    assert ticket.state is TicketState.ESCALATED
    assert ticket.reason.startswith("it was approved Next: ")
    assert len(shop.entries(Kind.RUN_STARTED)) == 1


async def test_silence_is_an_answer_too(shop: Workshop) -> None:
    await _park(shop)
    shop.clock.advance(HOUR_S)
    (ticket,) = shop.store.backlog.waiting(limit=9)
    assert ticket.id == 1


async def test_a_request_that_is_not_parked_keeps_its_worker(shop: Workshop) -> None:
    engine = _engine(shop, parked=False)
    await shop.store.tickets.open([violation("node-1", "up")])
    working = asyncio.ensure_future(engine.work_once())
    await _until_asked(shop)
    await _pass(shop, 2 * PARK_S)
    assert not working.done()
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)


async def test_an_answer_that_comes_while_it_is_parked_is_not_overslept(shop: Workshop) -> None:
    """Between the last look of whoever parks it and the release."""
    store = shop.store
    await store.tickets.open([violation("node-1", "up")])
    claimed = await shop.claim()
    await store.journal.append(run_started(claimed))
    await store.approvals.request(replace(_asked(shop), run=claimed.run))
    await store.approvals.decide("a1", ApprovalState.REJECTED, by=ADA, reason="no", version=1)
    await store.leases.release(
        claimed, reason="It waits.", wait_s=HOUR_S, counts=False, approval="a1"
    )
    (waiting,) = store.backlog.waiting(limit=9)
    assert waiting.run == claimed.run


async def test_one_yes_of_two_wakes_nobody(shop: Workshop) -> None:
    store = shop.store
    await store.tickets.open([violation("node-1", "up")])
    claimed = await shop.claim()
    await store.approvals.request(replace(_asked(shop), run=claimed.run, needed=2))
    await store.leases.release(
        claimed, reason="It waits.", wait_s=HOUR_S, counts=False, approval="a1"
    )
    await store.approvals.decide("a1", ApprovalState.APPROVED, by=ADA, reason="", version=1)
    assert list(store.backlog.waiting(limit=9)) == []
    bob = Actor("bob", "user")
    await store.approvals.decide("a1", ApprovalState.APPROVED, by=bob, reason="", version=2)
    assert len(store.backlog.waiting(limit=9)) == 1


def _asked(shop: Workshop) -> Approval:
    return replace(approval("a1", at=shop.clock.now(), within_s=HOUR_S), parked=True)


async def test_how_long_silence_lasts_is_counted_from_now(shop: Workshop) -> None:
    parking = Parking(shop.store.approvals, shop.clock, park_s=PARK_S)
    assert parking.wait_s() == 0.0
    parking.request = _asked(shop)
    shop.clock.advance(600.0)
    assert parking.wait_s() == (timedelta(seconds=HOUR_S - 600)).total_seconds()
