"""An engine follows the kill switch: it drops what it does, and takes nothing while it is on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from operator_protocols.domain.limits import SwitchState
from operator_protocols.domain.ticket import TicketState
from operator_protocols.errors import StoreError
from operator_sre.engine import LocalEngine
from operator_sre.engine.local import FOLLOW_S
from tests.contract.clock import HeldClock
from tests.contract.samples import violation
from tests.contract.workshop import Endless, Workshop

pytestmark = pytest.mark.asyncio


class _Plant:
    """An engine whose mind is busy, and the switch as the engine sees it."""

    def __init__(self, folder: Path) -> None:
        self.mind = Endless()
        self.clock = HeldClock()
        self.shop = Workshop(folder, self.mind, clock=self.clock)
        self.unreadable = False

    def state(self) -> SwitchState:
        if self.unreadable:
            raise StoreError("The store could not be read.")
        return self.shop.store.switch.state()

    async def turn_on(self, *, by: str, reason: str) -> list[str]:
        return list(await self.shop.store.switch.turn_on(by=by, reason=reason))

    async def turn_off(self, *, by: str, reason: str) -> None:
        await self.shop.store.switch.turn_off(by=by, reason=reason)

    def engine(self) -> LocalEngine:
        return LocalEngine(
            pipeline=self.shop.pipeline(),
            leases=self.shop.store.leases,
            clock=self.clock,
            worker="worker",
            new_id=lambda: next(self.shop.new_id),
            interval_s=1.0,
            switch=self,
        )

    def ticket_state(self) -> TicketState:
        ticket = self.shop.store.tickets.get(1)
        assert ticket is not None
        return ticket.state


@pytest_asyncio.fixture
async def plant(tmp_path: Path) -> AsyncIterator[_Plant]:
    one = _Plant(tmp_path)
    await one.shop.store.tickets.open([violation("node-1", "up")])
    yield one
    one.shop.close()


async def test_nothing_is_taken_while_it_is_on(plant: _Plant) -> None:
    await plant.turn_on(by="ada", reason="")
    assert await plant.engine().work_once() is False
    assert plant.ticket_state() is TicketState.OPEN


@pytest.mark.parametrize("off_again", [False, True])
async def test_what_is_being_done_is_dropped_and_the_ticket_given_back(
    plant: _Plant, *, off_again: bool
) -> None:
    work = asyncio.ensure_future(plant.engine().work_once())
    await plant.mind.begun.wait()
    await plant.clock.asleep(for_s=FOLLOW_S)
    await plant.turn_on(by="ada", reason="")
    if off_again:
        await plant.turn_off(by="ada", reason="")
    plant.clock.advance(FOLLOW_S)
    assert await work is True
    assert plant.ticket_state() is TicketState.OPEN


async def test_a_store_that_cannot_be_read_for_a_moment_stops_nothing(plant: _Plant) -> None:
    work = asyncio.ensure_future(plant.engine().work_once())
    await plant.mind.begun.wait()
    await plant.clock.asleep(for_s=FOLLOW_S)
    plant.unreadable = True
    plant.clock.advance(FOLLOW_S)
    await plant.clock.asleep(for_s=FOLLOW_S)
    assert not work.done()
    plant.unreadable = False
    await plant.turn_on(by="ada", reason="")
    plant.clock.advance(FOLLOW_S)
    assert await work is True
