"""One process that works on tickets: it outlives its failures and lets go of what it lost."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path

import pytest

from operator_protocols.domain.action import Argument, Result
from operator_protocols.domain.entry import Kind
from operator_protocols.domain.run import Answer, Ask, Escalate
from operator_protocols.domain.ticket import Ticket, TicketState
from operator_protocols.errors import ObservationError
from operator_protocols.ports import Job, Model
from operator_sre.engine import LocalEngine
from operator_sre.engine.local import ATTEMPTS_MAX, POLL_S
from operator_sre.store import open_store
from tests.contract.clock import NOON, HeldClock
from tests.contract.samples import violation
from tests.contract.workshop import DIAGNOSIS, MEND, Endless, Script, Workshop

pytestmark = pytest.mark.asyncio

LEASE_S = 30.0
INTERVAL_S = 10.0
GIVES_UP = Answer("", (Escalate("a person has to take over"),))


class _Failing:
    """A mind that is not there."""

    name = "failing"

    async def answer(self, ask: Ask) -> Answer:
        raise ConnectionError("the model is away")


class _Plant:
    """An engine in a workshop of its own."""

    def __init__(self, folder: Path, model: Model) -> None:
        self.folder = folder
        self.clock = HeldClock()
        self.shop = Workshop(folder, model, clock=self.clock)

    def engine(self, worker: str = "worker") -> LocalEngine:
        return LocalEngine(
            pipeline=self.shop.pipeline(),
            leases=self.shop.store.leases,
            clock=self.clock,
            worker=worker,
            new_id=lambda: next(self.shop.new_id),
            interval_s=INTERVAL_S,
            lease_s=LEASE_S,
        )

    async def open(self) -> Ticket:
        return await self.shop.store.tickets.open([violation("node-1", "up")])

    def ticket(self) -> Ticket:
        found = self.shop.store.tickets.get(1)
        assert found is not None
        return found

    async def steal(self) -> Ticket:
        """Another worker, for whom the lease has run out, takes the ticket."""
        late = open_store(
            self.folder / "operator.db", clock=HeldClock(NOON + timedelta(seconds=1000))
        )
        stolen = await late.leases.claim("thief", run="run-x", lease_s=1e6, attempts_max=9)
        late.close()
        assert stolen is not None
        return stolen


Make = Callable[[Model], _Plant]


@pytest.fixture
def plant(tmp_path: Path) -> Iterator[Make]:
    """Call it with a mind."""
    made: list[_Plant] = []

    def make(model: Model) -> _Plant:
        made.append(_Plant(tmp_path, model))
        return made[-1]

    yield make
    for one in made:
        one.shop.close()


async def _stop(task: asyncio.Task[None] | asyncio.Task[bool]) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_an_empty_home_is_no_work(plant: Make) -> None:
    one = plant(Script())
    assert not await one.engine().work_once()
    assert one.shop.entries() == []


async def test_a_ticket_is_worked_to_its_end(plant: Make) -> None:
    one = plant(Script(GIVES_UP))
    await one.open()
    assert await one.engine().work_once()
    assert (one.ticket().state, one.ticket().attempts) == (TicketState.ESCALATED, 1)
    assert not await one.engine().work_once()


async def test_it_waits_for_tickets_and_takes_them_as_they_come(plant: Make) -> None:
    one = plant(Script(GIVES_UP))
    working = asyncio.ensure_future(one.engine().work())
    await one.clock.asleep(for_s=POLL_S)
    await one.open()
    one.clock.advance(POLL_S)
    await one.clock.asleep(for_s=POLL_S)
    assert one.ticket().state is TicketState.ESCALATED
    await _stop(working)


async def test_a_run_that_fails_is_released_with_growing_back_off(plant: Make) -> None:
    one = plant(_Failing())
    await one.open()
    engine = one.engine()
    waits = []
    for attempt in range(1, ATTEMPTS_MAX + 1):
        assert await engine.work_once()
        assert one.ticket().state is TicketState.OPEN
        assert "the model is away" in one.ticket().reason
        assert one.ticket().attempts == attempt
        (*_, released) = one.shop.entries(Kind.TICKET_RELEASED)
        wait_s = released.payload["not_before"] - one.clock.now().timestamp()
        waits.append(wait_s)
        one.clock.advance(wait_s - 0.1)
        assert not await engine.work_once()
        one.clock.advance(0.1)
    assert waits == sorted(set(waits))
    assert waits[0] >= 5.0
    assert not await engine.work_once()
    assert one.ticket().state is TicketState.ESCALATED


async def test_a_run_that_fails_does_not_end_the_engine(
    plant: Make, caplog: pytest.LogCaptureFixture
) -> None:
    one = plant(_Failing())
    await one.open()
    working = asyncio.ensure_future(one.engine().work())
    with caplog.at_level(logging.ERROR):
        await one.clock.asleep(for_s=POLL_S)
    assert not working.done()
    assert "the model is away" in caplog.text
    await _stop(working)


async def test_a_failed_run_goes_on_under_its_own_id(plant: Make) -> None:
    one = plant(_Failing())
    await one.open()
    engine = one.engine()
    await engine.work_once()
    first = one.ticket().run
    one.clock.advance(100.0)
    await engine.work_once()
    assert one.ticket().run == first
    assert len(one.shop.entries(Kind.RUN_STARTED)) == 1


async def test_a_lease_is_kept_for_as_long_as_the_work_takes(plant: Make) -> None:
    mind = Endless()
    one = plant(mind)
    await one.open()
    working = asyncio.ensure_future(one.engine().work_once())
    await mind.begun.wait()
    for _ in range(10):
        await one.clock.asleep(for_s=LEASE_S / 3)
        one.clock.advance(LEASE_S / 3)
        await one.clock.asleep(for_s=LEASE_S / 3)
        other = await one.shop.store.leases.claim("b", run="r", lease_s=1.0, attempts_max=9)
        assert other is None
    await _stop(working)


async def test_a_lost_lease_ends_the_work_and_not_the_engine(
    plant: Make, caplog: pytest.LogCaptureFixture
) -> None:
    mind = Endless()
    one = plant(mind)
    await one.open()
    working = asyncio.ensure_future(one.engine().work_once())
    await mind.begun.wait()
    await one.clock.asleep(for_s=LEASE_S / 3)
    stolen = await one.steal()
    one.clock.advance(LEASE_S / 3)
    assert await working
    assert one.ticket() == stolen
    assert "the lease was lost" in caplog.text


async def test_work_that_ends_after_its_lease_was_lost_changes_nothing(plant: Make) -> None:
    stolen: list[Ticket] = []

    class Slow:
        name = "slow"

        async def answer(self, ask: Ask) -> Answer:
            stolen.append(await one.steal())
            return Answer("", (DIAGNOSIS, MEND, Escalate("over")))

    one = plant(Slow())
    await one.open()
    assert await one.engine().work_once()
    assert one.shop.mend.calls == []
    # What was said stays on record; nothing of it was done, and the ticket does not show it.
    assert one.ticket() == stolen[0]
    assert len(one.shop.entries(Kind.REASONING)) == 1
    assert one.shop.entries(Kind.DIAGNOSIS, Kind.TOOL_CALL, Kind.TICKET_ESCALATED) == []


async def test_an_engine_that_is_stopped_parks_its_ticket_for_the_next(plant: Make) -> None:
    mind = Endless()
    one = plant(mind)
    await one.open()
    working = asyncio.ensure_future(one.engine().work())
    await mind.begun.wait()
    run = one.ticket().run
    await _stop(working)
    assert (one.ticket().state, one.ticket().worker) == (TicketState.OPEN, "")
    assert "stopped" in one.ticket().reason
    again = await one.shop.store.leases.claim("next", run="new", lease_s=1.0, attempts_max=9)
    assert again is not None
    assert again.run == run


async def test_a_ticket_is_given_back_however_often_the_engine_is_told_to_stop(
    plant: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    mind = Endless()
    one = plant(mind)
    await one.open()
    engine = one.engine()
    asked, go_on = asyncio.Event(), asyncio.Event()
    release = type(engine.leases).release

    async def slow_release(*words: object, **more: object) -> None:
        asked.set()
        await go_on.wait()
        await release(*words, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(type(engine.leases), "release", slow_release)
    task = asyncio.ensure_future(engine.work_once())
    await mind.begun.wait()
    task.cancel()
    await asked.wait()
    task.cancel()
    await asyncio.sleep(0)
    assert not task.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert one.ticket().state is TicketState.OPEN


async def test_an_engine_stops_even_when_everything_is_stopped_at_once(plant: Make) -> None:
    """As at the end of an event loop, which cancels every task there is."""
    mind = Endless()
    one = plant(mind)
    await one.open()
    before = asyncio.all_tasks()
    working = asyncio.ensure_future(one.engine().work())
    await mind.begun.wait()
    for task in asyncio.all_tasks() - before:
        task.cancel()
    done, _ = await asyncio.wait([working], timeout=5.0)
    assert done == {working}
    assert working.cancelled()
    assert one.ticket().state is TicketState.OPEN


async def test_an_engine_that_is_stopped_while_it_acts_records_what_it_cut_off(plant: Make) -> None:
    begun = asyncio.Event()

    async def hang(arguments: Mapping[str, Argument], job: Job) -> Result:
        begun.set()
        await asyncio.Event().wait()
        raise AssertionError("nothing wakes it")

    one = plant(Script(Answer("", (DIAGNOSIS, MEND)), GIVES_UP))
    one.shop.mend.call = hang  # type: ignore[method-assign]
    await one.open()
    working = asyncio.ensure_future(one.engine().work())
    await begun.wait()
    await _stop(working)
    (outcome,) = one.shop.entries(Kind.TOOL_RESULT)
    assert outcome.payload["result"]["outcome"] == "cancelled"
    assert one.ticket().state is TicketState.OPEN


async def test_watching_goes_on_at_its_interval_whatever_the_subject_does(plant: Make) -> None:
    one = plant(Script())
    watching = asyncio.ensure_future(one.engine().watch(["shop"]))
    for looks in range(1, 5):
        await one.clock.asleep()
        assert one.shop.plant.looks == looks
        one.shop.plant.error = ObservationError("gone") if looks == 2 else None
        one.clock.advance(INTERVAL_S)
    await one.clock.asleep()
    assert not watching.done()
    opened = [entry.payload["summary"] for entry in one.shop.entries(Kind.TICKET_OPENED)]
    assert len(opened) == 2
    assert one.ticket().violations[0].key == "shop/node-1/up"
    await _stop(watching)


async def test_several_subjects_are_watched_side_by_side(plant: Make) -> None:
    one = plant(Script())
    watching = asyncio.ensure_future(one.engine().watch(["shop", "shop"]))
    await one.clock.asleep(2)
    assert one.shop.plant.looks == 1
    one.clock.advance(INTERVAL_S - 0.1)
    await one.clock.asleep(2)
    assert one.shop.plant.looks == 2
    assert len(one.shop.store.tickets.find()) == 1
    await _stop(watching)
