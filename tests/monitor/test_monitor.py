"""One look at a subject, whatever the subject does meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from operator_protocols.domain.health import Health
from operator_protocols.domain.observation import Observation
from operator_protocols.domain.ticket import TicketState
from operator_protocols.errors import ObservationError
from operator_protocols.ports import Condition
from operator_sre.monitor import OBSERVABLE, Monitor, Watched, run_check
from operator_sre.store import open_store
from operator_sre.tickets import Desk
from tests.contract.clock import HeldClock
from tests.contract.plants import Plant, Up

pytestmark = pytest.mark.asyncio

TIMEOUT_S = 0.05
BLIND_GRACE_S = 4.0
STABLE_S = 10.0


class _Watch:
    """A monitor and a desk on a real store that can be reopened."""

    def __init__(self, path: Path) -> None:
        self.clock = HeldClock()
        self.plant = Plant(self.clock)
        self._path = path
        self.gap_s = math.inf
        self.store = open_store(path, clock=self.clock)

    def restart(self) -> None:
        """As another process would go on."""
        self.store.close()
        self.store = open_store(self._path, clock=self.clock)

    async def look(self) -> Watched:
        """One look, filed, as the pipeline does it."""
        monitor = Monitor(
            clock=self.clock,
            conditions=self.store.conditions,
            observations=self.store.observations,
            timeout_s=TIMEOUT_S,
            blind_grace_s=BLIND_GRACE_S,
            gap_of=lambda subject: self.gap_s,
        )
        desk = Desk(tickets=self.store.tickets, leases=self.store.leases, stable_s=STABLE_S)
        watched = await monitor.watch(self.plant)
        await desk.file(watched.violations, self.plant.targets())
        await desk.recover("shop", watched.conditions, self.clock.now())
        return watched

    async def looks(self, count: int, *, every_s: float = 2.0) -> None:
        for _ in range(count):
            await self.look()
            self.clock.advance(every_s)

    def tickets(self) -> list[tuple[TicketState, list[str]]]:
        return [
            (one.state, [violation.key for violation in one.violations])
            for one in self.store.tickets.find()
        ]


@pytest.fixture
def watch(tmp_path: Path) -> Iterator[_Watch]:
    one = _Watch(tmp_path / "operator.db")
    yield one
    one.store.close()


def _fail(watch: _Watch, how: str) -> None:
    """Make every look fail in one of the ways there are."""
    if how == "raises":
        watch.plant.error = ObservationError("there is no route")
    elif how == "crashes":
        watch.plant.error = ZeroDivisionError()
    elif how == "times out by itself":
        watch.plant.error = TimeoutError()
    elif how == "hangs":
        watch.plant.hangs = True


WAYS = ["raises", "crashes", "times out by itself", "hangs"]


async def test_a_healthy_subject_opens_nothing(watch: _Watch) -> None:
    watched = await watch.look()
    assert {finding.health for finding in watched.check.findings} == {Health.HEALTHY}
    assert {one.health for one in watched.conditions} == {Health.HEALTHY}
    assert watch.tickets() == []


async def test_a_broken_target_opens_one_ticket_however_often_it_is_seen(watch: _Watch) -> None:
    watch.plant.up["node-1"] = False
    await watch.looks(5)
    assert watch.tickets() == [(TicketState.OPEN, ["shop/node-1/up"])]


@pytest.mark.parametrize("way", WAYS)
async def test_a_failed_check_closes_nothing_and_opens_a_ticket_of_its_own(
    watch: _Watch, way: str
) -> None:
    watch.plant.up["node-1"] = False
    await watch.look()
    _fail(watch, way)
    await watch.looks(20)
    assert watch.tickets() == [
        (TicketState.OPEN, ["shop/node-1/up"]),
        (TicketState.OPEN, ["shop/shop/observable"]),
    ]


@pytest.mark.parametrize("way", WAYS)
async def test_a_look_that_fails_knows_nothing(watch: _Watch, way: str) -> None:
    await watch.look()
    _fail(watch, way)
    watch.clock.advance(1.0)
    watched = await watch.look()
    health = {(one.invariant, one.target): one.health for one in watched.conditions}
    assert health == {
        (OBSERVABLE, "shop"): Health.BROKEN,
        (OBSERVABLE, "node-1"): Health.UNKNOWN,
        (OBSERVABLE, "node-2"): Health.UNKNOWN,
        ("up", "node-1"): Health.UNKNOWN,
        ("up", "node-2"): Health.UNKNOWN,
    }
    assert watched.check.observation.problem
    assert watched.check.observation.at == watch.clock.now()


async def test_a_failed_look_is_remembered_too(watch: _Watch) -> None:
    watch.plant.error = ObservationError("there is no route")
    await watch.look()
    (kept,) = watch.store.observations.newest("shop", limit=5)
    assert "there is no route" in kept.problem


async def test_blindness_has_its_grace(watch: _Watch) -> None:
    watch.plant.error = ObservationError("there is no route")
    await watch.look()
    watch.clock.advance(BLIND_GRACE_S - 0.1)
    await watch.look()
    assert watch.tickets() == []
    watch.clock.advance(0.1)
    await watch.look()
    assert watch.tickets() == [(TicketState.OPEN, ["shop/shop/observable"])]


async def test_seeing_again_ends_blindness_after_a_while(watch: _Watch) -> None:
    watch.plant.error = ObservationError("there is no route")
    await watch.looks(4)
    watch.plant.error = None
    await watch.looks(4, every_s=3.0)
    assert [state for state, _ in watch.tickets()] == [TicketState.OPEN]
    await watch.looks(2, every_s=3.0)
    assert [state for state, _ in watch.tickets()] == [TicketState.RESOLVED]


async def test_one_target_that_cannot_be_looked_at_does_not_blind_us(watch: _Watch) -> None:
    watch.plant.up = {"node-1": None, "node-2": False}
    await watch.looks(4)
    assert watch.tickets() == [
        (TicketState.OPEN, ["shop/node-2/up"]),
        (TicketState.OPEN, ["shop/node-1/observable"]),
    ]


async def test_a_check_that_crashes_knows_nothing_and_says_so(watch: _Watch) -> None:
    watch.plant.up["node-1"] = False
    await watch.look()
    watch.plant.invariants = (Up(error=KeyError("up")), Up(name="other"))
    watch.plant.up["node-1"] = True
    await watch.looks(20)
    assert (TicketState.OPEN, ["shop/node-1/up"]) in watch.tickets()
    assert (TicketState.OPEN, ["shop/shop/observable"]) in watch.tickets()
    conditions = {(one.invariant, one.target): one for one in watch.store.conditions.of("shop")}
    assert conditions["up", "node-1"].health is Health.UNKNOWN
    assert "KeyError" in conditions["up", "node-1"].detail
    assert conditions["other", "node-1"].health is Health.HEALTHY


async def test_a_grace_clock_goes_on_across_a_restart(watch: _Watch) -> None:
    watch.plant.invariants = (Up(grace_s=10.0),)
    watch.plant.up["node-1"] = False
    await watch.look()
    for _ in range(4):
        watch.clock.advance(2.4)
        watch.restart()
        await watch.look()
    assert watch.tickets() == []
    watch.clock.advance(0.4)
    watch.restart()
    await watch.look()
    assert watch.tickets() == [(TicketState.OPEN, ["shop/node-1/up"])]


async def test_a_recovery_clock_goes_on_across_a_restart(watch: _Watch) -> None:
    watch.plant.up["node-1"] = False
    await watch.look()
    watch.plant.up["node-1"] = True
    await watch.look()
    watch.clock.advance(STABLE_S)
    watch.restart()
    await watch.look()
    assert [state for state, _ in watch.tickets()] == [TicketState.RESOLVED]


async def test_not_seeing_a_break_does_not_restart_its_grace(watch: _Watch) -> None:
    watch.plant.invariants = (Up(grace_s=10.0),)
    watch.plant.up["node-1"] = False
    await watch.look()
    watch.clock.advance(6.0)
    watch.plant.up["node-1"] = None
    await watch.look()
    watch.clock.advance(4.0)
    watch.plant.up["node-1"] = False
    watched = await watch.look()
    assert "shop/node-1/up" in [one.key for one in watched.violations]


async def test_flapping_is_no_recovery(watch: _Watch) -> None:
    watch.plant.up["node-1"] = False
    await watch.look()
    for up in [True, None] * 10:
        watch.clock.advance(STABLE_S - 1.0)
        watch.plant.up["node-1"] = up
        await watch.look()
    assert (TicketState.OPEN, ["shop/node-1/up"]) in watch.tickets()


async def test_whoever_stops_the_monitor_is_not_mistaken_for_the_subject(watch: _Watch) -> None:
    watch.plant.hangs = True
    looking = asyncio.ensure_future(watch.look())
    await watch.plant.begun.wait()
    looking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await looking
    assert list(watch.store.observations.newest("shop", limit=1)) == []


async def test_a_subject_that_cannot_name_its_targets_does_not_end_the_watch(
    watch: _Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone() -> list[object]:
        raise FileNotFoundError("rig.json")

    with monkeypatch.context() as patch:
        patch.setattr(watch.plant, "targets", gone)
        monitor = Monitor(
            clock=watch.clock,
            conditions=watch.store.conditions,
            observations=watch.store.observations,
            timeout_s=TIMEOUT_S,
            blind_grace_s=0.0,
        )
        watched = await monitor.watch(watch.plant)
    assert watched.targets == ()
    assert [one.key for one in watched.violations] == ["shop/shop/observable"]


async def test_a_target_that_vanishes_is_forgotten_unless_it_was_broken(watch: _Watch) -> None:
    watch.plant.up["node-1"] = False
    await watch.looks(2)
    plant = Plant(watch.clock, needs={"node-3": ()})
    watch.plant = plant
    watched = await watch.look()
    known = {(one.target, one.invariant): one.health for one in watched.conditions}
    assert ("node-2", "up") not in known
    assert known["node-1", "up"] is Health.UNKNOWN
    assert {one.target for one in watch.store.conditions.of("shop")} == {"shop", "node-1", "node-3"}
    assert watch.tickets() == [(TicketState.OPEN, ["shop/node-1/up"])]


async def test_a_check_begins_before_anything_is_observed(
    watch: _Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    observe = watch.plant.observe

    async def slowly() -> Observation:
        watch.clock.advance(5.0)
        return await observe()

    monkeypatch.setattr(watch.plant, "observe", slowly)
    began = watch.clock.now()
    watched = await watch.look()
    assert watched.began == began
    assert watched.check.observation.at > began


async def test_only_what_changes_is_written(watch: _Watch) -> None:
    await watch.look()
    written: list[int] = []

    class Counting:
        """The store's own conditions, and how many were written each time."""

        of = watch.store.conditions.of
        forget = watch.store.conditions.forget

        async def update(self, conditions: Sequence[Condition]) -> None:
            written.append(len(conditions))
            await watch.store.conditions.update(conditions)

    monitor = Monitor(
        clock=watch.clock,
        conditions=Counting(),
        observations=watch.store.observations,
        timeout_s=TIMEOUT_S,
        blind_grace_s=0.0,
    )
    await monitor.watch(watch.plant)
    watch.plant.up["node-1"] = False
    await monitor.watch(watch.plant)
    assert written == [0, 1]


async def test_a_look_that_does_not_stop_when_it_is_told_to_is_left_behind(
    watch: _Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    released = asyncio.Event()

    async def stubborn() -> Observation:
        while not released.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await released.wait()
        return Observation("shop", watch.clock.now())

    monkeypatch.setattr(watch.plant, "observe", stubborn)
    check, _ = await run_check(watch.plant, watch.clock, timeout_s=TIMEOUT_S)
    assert "took longer" in check.observation.problem
    released.set()


async def test_hours_in_which_nobody_looked_open_no_ticket_and_close_none(watch: _Watch) -> None:
    watch.gap_s = 10.0
    watch.plant.error = ObservationError("there is no route")
    await watch.look()
    watch.clock.advance(3600.0)
    watch.restart()
    await watch.look()
    assert watch.tickets() == [], "it was seen to be broken for no time at all"
    watch.clock.advance(BLIND_GRACE_S)
    await watch.look()
    assert [state for state, _ in watch.tickets()] == [TicketState.OPEN]
    watch.plant.error = None
    await watch.look()
    watch.clock.advance(3600.0)
    await watch.look()
    assert [state for state, _ in watch.tickets()] == [TicketState.OPEN]
    watch.clock.advance(STABLE_S)
    await watch.look()
    assert [state for state, _ in watch.tickets()] == [TicketState.RESOLVED]
