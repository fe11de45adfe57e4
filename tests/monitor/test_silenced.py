"""What is silenced opens no ticket, and opens it at once when the silence is over."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from operator_protocols.domain.silence import Silence
from operator_protocols.domain.ticket import TicketState
from operator_sre.monitor import Monitor, Watched
from operator_sre.store import open_store
from operator_sre.tickets import Desk
from tests.contract.clock import NOON, HeldClock
from tests.contract.plants import Plant, Up

pytestmark = pytest.mark.asyncio


class _Watch:
    """A monitor that asks the store which silences hold."""

    def __init__(self, path: Path) -> None:
        self.clock = HeldClock()
        self.plant = Plant(self.clock, invariants=(Up(grace_s=20.0),))
        self.store = open_store(path, clock=self.clock)

    async def look(self, after_s: float = 0.0) -> Watched:
        self.clock.advance(after_s)
        store = self.store

        def quiet(subject: str) -> Sequence[Silence]:
            return store.silences.find(at=self.clock.now())

        monitor = Monitor(
            clock=self.clock,
            conditions=store.conditions,
            observations=store.observations,
            timeout_s=5.0,
            blind_grace_s=4.0,
            quiet=quiet,
        )
        watched = await monitor.watch(self.plant)
        desk = Desk(tickets=store.tickets, leases=store.leases, stable_s=10.0)
        await desk.file(watched.violations, watched.targets)
        await desk.recover("shop", watched.conditions, self.clock.now())
        return watched

    async def silence(self, target: str, *, minutes: float) -> None:
        until = self.clock.now() + timedelta(minutes=minutes)
        quiet = Silence("quiet-1", self.clock.now(), until, "ada", "x", target=target)
        await self.store.silences.add(quiet)

    def states(self) -> list[TicketState]:
        return [one.state for one in self.store.tickets.find()]


@pytest.fixture
def watch(tmp_path: Path) -> Iterator[_Watch]:
    one = _Watch(tmp_path / "operator.db")
    yield one
    one.store.close()


async def test_a_silenced_violation_opens_no_ticket_and_is_told_apart(watch: _Watch) -> None:
    await watch.silence("node-1", minutes=10)
    watch.plant.up = {"node-1": False, "node-2": False}
    await watch.look()
    watched = await watch.look(30.0)
    assert [one.target for one in watched.silenced] == ["node-1"]
    assert [one.target for one in watched.violations] == ["node-2"]
    (ticket,) = watch.store.tickets.find()
    assert ticket.target == "node-2"


async def test_the_ticket_opens_at_once_when_the_silence_is_over(watch: _Watch) -> None:
    await watch.silence("*", minutes=10)
    watch.plant.up["node-1"] = False
    for _ in range(5):
        await watch.look(60.0)
    assert watch.states() == []
    # The grace was over long ago, so that nobody waits for it again.
    await watch.look(300.0)
    assert watch.states() == [TicketState.OPEN]
    (ticket,) = watch.store.tickets.find()
    assert ticket.violations[0].since == NOON + timedelta(seconds=60)


async def test_the_ticket_opens_at_once_when_somebody_ends_the_silence(watch: _Watch) -> None:
    await watch.silence("node-*", minutes=600)
    watch.plant.up["node-1"] = False
    await watch.look(60.0)
    await watch.look(60.0)
    await watch.store.silences.end("quiet-1", by="bob", reason="done")
    await watch.look()
    assert watch.states() == [TicketState.OPEN]


async def test_what_recovers_within_a_silence_never_opens_a_ticket(watch: _Watch) -> None:
    await watch.silence("*", minutes=10)
    watch.plant.up["node-1"] = False
    await watch.look(60.0)
    await watch.look(60.0)
    watch.plant.up["node-1"] = True
    await watch.look(60.0)
    await watch.look(600.0)
    assert watch.states() == []


async def test_what_is_worked_on_stays(watch: _Watch) -> None:
    watch.plant.up["node-1"] = False
    await watch.look()
    await watch.look(30.0)
    claimed = await watch.store.leases.claim("w", run="r", lease_s=1e6, attempts_max=3)
    await watch.silence("*", minutes=10)
    await watch.look(60.0)
    assert claimed is not None
    assert watch.store.tickets.get(claimed.id) == claimed
