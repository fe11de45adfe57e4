"""What breaks again and again is one trouble, and says so."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from operator_protocols.domain.entry import Kind
from operator_protocols.domain.health import Health
from operator_protocols.domain.ticket import TicketState
from operator_protocols.ports import BREAKS_KEPT, FLAP_BREAKS, FLAP_S, Condition
from operator_sre.monitor import Monitor
from operator_sre.store import open_store
from operator_sre.tickets import Desk
from tests.contract.clock import NOON, HeldClock
from tests.contract.plants import Plant

STABLE_S = 10.0


class _Watch:
    """A monitor and a desk as the pipeline has them, on a store that can be reopened."""

    def __init__(self, path: Path) -> None:
        self.clock = HeldClock()
        self.plant = Plant(self.clock)
        self._path = path
        self.store = open_store(path, clock=self.clock)

    def restart(self) -> None:
        """As another process would go on."""
        self.store.close()
        self.store = open_store(self._path, clock=self.clock)

    async def look(self, *, up: bool | None, after_s: float) -> None:
        """One look, so long after the last one."""
        self.clock.advance(after_s)
        self.plant.up["node-1"] = up
        store = self.store
        monitor = Monitor(
            clock=self.clock,
            conditions=store.conditions,
            observations=store.observations,
            timeout_s=5.0,
            blind_grace_s=4.0,
        )
        desk = Desk(
            tickets=store.tickets, leases=store.leases, stable_s=STABLE_S, journal=store.journal
        )
        watched = await monitor.watch(self.plant)
        await desk.file(watched.violations, watched.targets)
        await desk.flag("shop", watched.conditions, self.clock.now())
        await desk.recover("shop", watched.conditions, self.clock.now())

    async def flap(self, times: int, *, every_s: float) -> None:
        """So many breaks, each over after half of the time."""
        for _ in range(times):
            await self.look(up=False, after_s=every_s / 2)
            await self.look(up=True, after_s=every_s / 2)

    def condition(self) -> Condition:
        (found,) = [
            one
            for one in self.store.conditions.of("shop")
            if (one.invariant, one.target) == ("up", "node-1")
        ]
        return found

    def states(self) -> list[tuple[TicketState, bool]]:
        found = sorted(self.store.tickets.find(), key=lambda one: one.id)
        return [(one.state, one.flapping) for one in found]


@pytest.fixture
def watch(tmp_path: Path) -> Iterator[_Watch]:
    one = _Watch(tmp_path / "operator.db")
    yield one
    one.store.close()


@pytest.mark.asyncio
async def test_the_third_break_within_minutes_is_flapping(watch: _Watch) -> None:
    for breaks, flaps in [(1, False), (2, False), (3, True)]:
        await watch.flap(1, every_s=60.0)
        assert watch.condition().flapping(watch.clock.now()) is flaps, breaks
    assert FLAP_BREAKS == 3
    assert len(watch.condition().breaks) == 3


@pytest.mark.asyncio
async def test_breaks_that_are_far_apart_are_not_flapping(watch: _Watch) -> None:
    await watch.flap(6, every_s=FLAP_S / 2 + 1.0)
    assert not watch.condition().flapping(watch.clock.now())
    assert all(state is TicketState.RESOLVED for state, _ in watch.states()[:-1])


@pytest.mark.asyncio
async def test_one_long_break_is_not_flapping(watch: _Watch) -> None:
    for _ in range(20):
        await watch.look(up=False, after_s=5.0)
    assert len(watch.condition().breaks) == 1
    assert not watch.condition().flapping(watch.clock.now())


@pytest.mark.asyncio
async def test_not_being_seen_between_two_breaks_is_no_recurrence(watch: _Watch) -> None:
    for up in (False, None, False, None, False, None, False):
        await watch.look(up=up, after_s=5.0)
    assert len(watch.condition().breaks) == 1


@pytest.mark.asyncio
async def test_a_flapping_break_stays_one_ticket_that_says_so(watch: _Watch) -> None:
    await watch.flap(2, every_s=60.0)
    await watch.look(up=False, after_s=20.0)
    opened = len(watch.states())
    assert watch.states()[-1] == (TicketState.OPEN, True)
    # It would be resolved and opened again each time, if it were not flapping.
    await watch.look(up=True, after_s=20.0)
    for _ in range(8):
        await watch.look(up=True, after_s=20.0)
        await watch.look(up=False, after_s=20.0)
        await watch.look(up=True, after_s=20.0)
    assert len(watch.states()) == opened
    told = watch.store.entries.after(0, limit=999)
    assert sum(one.kind is Kind.TICKET_FLAPPING for one in told) == 1


@pytest.mark.asyncio
async def test_it_is_resolved_when_it_has_held_for_as_long_as_it_takes(watch: _Watch) -> None:
    await watch.flap(3, every_s=40.0)
    assert watch.states()[-1] == (TicketState.OPEN, True)
    await watch.look(up=True, after_s=FLAP_S - 1.0)
    assert watch.states()[-1] == (TicketState.OPEN, True)
    await watch.look(up=True, after_s=1.0)
    assert watch.states()[-1] == (TicketState.RESOLVED, True)


@pytest.mark.asyncio
async def test_flapping_is_known_across_a_restart(watch: _Watch) -> None:
    for _ in range(3):
        await watch.flap(1, every_s=60.0)
        watch.restart()
    assert watch.condition().flapping(watch.clock.now())
    await watch.look(up=True, after_s=STABLE_S * 2)
    assert watch.states()[-1] == (TicketState.OPEN, True)


@pytest.mark.asyncio
async def test_what_is_remembered_of_breaks_is_bounded(watch: _Watch) -> None:
    await watch.flap(BREAKS_KEPT * 3, every_s=2.0)
    assert len(watch.condition().breaks) == BREAKS_KEPT


def test_old_breaks_count_no_more() -> None:
    breaks = tuple(NOON + timedelta(seconds=second) for second in (0, 10, 20))
    one = Condition("shop", "up", "n", Health.HEALTHY, NOON, None, "", breaks)
    assert one.flapping(NOON + timedelta(seconds=FLAP_S))
    assert not one.flapping(NOON + timedelta(seconds=FLAP_S + 1))
