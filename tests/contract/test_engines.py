"""What every engine promises: tickets are taken up, once each, and given back when it stops."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from operator_protocols.domain.entry import Kind
from operator_protocols.domain.run import Answer, Ask, Escalate
from operator_protocols.domain.ticket import TicketState
from operator_protocols.domain.watcher import Worker
from operator_protocols.errors import MissingExtraError, UsageError
from operator_protocols.ports import Backlog, Engine, Model, Workers
from operator_sre.engine import ClusterEngine, LocalEngine
from operator_sre.engine import cluster as engine_cluster
from operator_sre.engine.cluster import ENGINES, engine_named
from operator_sre.engine.queues import SCHEMA, TicketQueue
from tests.contract.clock import NOON
from tests.contract.postgres import database_in, shared_server
from tests.contract.stores import Home, Ports
from tests.contract.workshop import Endless
from tests.engines.floor import Floor
from tests.processes.waiting import eventually

pytestmark = pytest.mark.asyncio

LIVE = (TicketState.OPEN, TicketState.CLAIMED)
WITHIN_S = 60.0
Make = Callable[..., Floor]


@pytest.fixture
def floor(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Make]:
    """Call it for a floor on a PostgreSQL of its own."""
    made: list[Floor] = []
    with database_in("postgresql", tmp_path, request.config) as where:

        def make(model: Model | None = None, *, stroke_s: float = 0.02) -> Floor:
            made.append(Floor(where, tmp_path, model=model, stroke_s=stroke_s))
            return made[-1]

        yield make
        for one in made:
            one.close()


@pytest.fixture(params=ENGINES)
def kind(request: pytest.FixtureRequest) -> str:
    """One more engine is one more name in ENGINES."""
    return str(request.param)


@asynccontextmanager
async def _working(engine: Engine) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.ensure_future(engine.work())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled(), task.exception()


class _Failing:
    """A mind that fails for the first ticket it is asked about, and gives up on all others."""

    name = "failing"

    async def answer(self, ask: Ask) -> Answer:
        if ask.briefing.ticket.id == 1:
            raise ConnectionError("the model is away")
        return Answer("", (Escalate("a person has to take over"),))


async def test_an_engine_is_known_by_its_name(floor: Make, kind: str) -> None:
    engine = floor().engine(kind)
    assert isinstance(engine, Engine)
    assert engine.name == kind


async def test_tickets_are_worked_on_and_stopping_gives_back_what_is_under_way(
    floor: Make, kind: str
) -> None:
    one = floor()
    await one.open_tickets(3)
    async with _working(one.engine(kind)):
        await eventually(lambda: not one.store.tickets.find(states=LIVE), within_s=WITHIN_S)
    assert [ticket.state for ticket in one.store.tickets.find()] == [TicketState.RESOLVED] * 3
    assert set(one.repaired().values()) == {1}
    await one.open_tickets(1, behind=3)
    mind = Endless()
    other = floor(mind)
    async with _working(other.engine(kind)):
        await asyncio.wait_for(mind.begun.wait(), WITHIN_S)
    (parked,) = one.store.tickets.find(states=LIVE)
    assert (parked.state, parked.worker, parked.attempts) == (TicketState.OPEN, "", 0)
    assert one.store.backlog.waiting(limit=9) == [parked]


async def test_a_run_that_fails_ends_neither_the_engine_nor_the_others(
    floor: Make, kind: str
) -> None:
    one = floor(_Failing())
    await one.open_tickets(3)

    def others_ended() -> bool:
        return len(one.store.tickets.find(states=(TicketState.ESCALATED,))) == 2

    async with _working(one.engine(kind)) as task:
        await eventually(others_ended, within_s=WITHIN_S)
        assert not task.done()
    first = one.store.tickets.get(1)
    assert first is not None
    assert (first.state, first.attempts) == (TicketState.OPEN, 1)
    assert "the model is away" in first.reason


async def test_a_ticket_of_somebody_else_is_left_alone_until_the_lease_is_over(
    floor: Make, kind: str
) -> None:
    one = floor()
    await one.open_tickets(2)
    leases = one.store.leases
    taken = await leases.claim("other", run="run-x", lease_s=600.0, attempts_max=9, ticket=1)
    assert taken is not None
    async with _working(one.engine(kind)):
        await eventually(lambda: len(one.repaired()) == 1, within_s=WITHIN_S)
        assert one.store.tickets.get(1) == taken
        assert await leases.renew(taken, lease_s=0.0)
        await eventually(lambda: not one.store.tickets.find(states=LIVE), within_s=WITHIN_S)
    claims = one.store.entries.after(0, limit=1000, ticket=1)
    assert [entry.payload["epoch"] for entry in claims if entry.kind is Kind.TICKET_CLAIMED] == [
        1,
        2,
    ]


async def test_what_is_being_done_may_end_before_an_engine_stops(floor: Make, kind: str) -> None:
    one = floor(stroke_s=1.0)
    await one.open_tickets(1)
    async with _working(one.engine(kind, grace_s=30.0)):
        await eventually(one.repaired, within_s=WITHIN_S)
    entries = one.store.entries.after(0, limit=1000, ticket=1)
    (told,) = [entry for entry in entries if entry.kind is Kind.TOOL_RESULT]
    assert told.payload["result"]["outcome"] == "ran"


async def test_a_number_that_a_worker_took_and_never_claimed_is_handed_out_again(
    floor: Make,
) -> None:
    one = floor()
    await one.open_tickets(1)
    dead = TicketQueue(one.where, executor="dead:1-a", at_once=1)
    taken, over = threading.Event(), threading.Event()

    def hang(ticket: int) -> str:
        taken.set()
        over.wait(2 * WITHIN_S)
        return ""

    await asyncio.to_thread(dead.open, hang)
    try:
        await asyncio.to_thread(dead.add, "ticket-1-0-0", 1, rank=1)
        assert await asyncio.to_thread(taken.wait, WITHIN_S)
        await asyncio.to_thread(dead.close)
        async with _working(one.engine("dbos")):
            await eventually(lambda: not one.store.tickets.find(states=LIVE), within_s=WITHIN_S)
    finally:
        over.set()
    assert set(one.repaired().values()) == {1}


async def test_a_kill_switch_keeps_an_engine_from_taking_anything_up(
    floor: Make, kind: str
) -> None:
    one = floor()
    await one.store.switch.turn_on(by="ada", reason="stop")
    await one.open_tickets(1)
    async with _working(one.engine(kind)):
        with pytest.raises(TimeoutError):  # it would be claimed at the first poll
            await asyncio.wait_for(asyncio.Event().wait(), 1.5)
        assert one.store.entries.after(0, limit=99, ticket=1)[-1].kind is Kind.TICKET_OPENED
        await one.store.switch.turn_off(by="ada", reason="go on")
        await eventually(lambda: not one.store.tickets.find(states=LIVE), within_s=WITHIN_S)


async def test_only_numbers_lie_in_the_tables_of_the_engine(
    floor: Make, request: pytest.FixtureRequest
) -> None:
    one = floor()
    await one.open_tickets(2)
    async with _working(one.engine("dbos")):
        await eventually(lambda: not one.store.tickets.find(states=LIVE), within_s=WITHIN_S)
    name = one.where.rpartition("/")[2]
    server = shared_server(request.config)
    told = ""
    tables = f"SELECT tablename FROM pg_tables WHERE schemaname = '{SCHEMA}'"  # noqa: S608
    for (table,) in server.ask(tables, name=name):
        told += str(server.ask(f'SELECT * FROM {SCHEMA}."{table}"', name=name))  # noqa: S608
    assert "ticket-1-0-0" in told
    for secret in ("mend", "press", "bay-", "stands still", "py_pickle"):
        assert secret not in told
    mine = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
    assert ("workflow_status",) not in server.ask(mine, name=name)


async def test_which_engine_a_name_means(
    floor: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = floor()
    local = one.engine("local")
    assert isinstance(local, LocalEngine)
    store = one.store

    def chosen(name: str, where: str | Path = one.where) -> Engine:
        return engine_named(name, local, where, backlog=store.backlog, workers=store.workers)

    assert chosen("local", tmp_path) is local
    assert isinstance(chosen("dbos"), ClusterEngine)
    with pytest.raises(UsageError, match="no engine 'celery'"):
        chosen("celery")
    with pytest.raises(UsageError, match="needs a store in PostgreSQL"):
        chosen("dbos", tmp_path / "operator.db")

    def missing() -> None:
        raise MissingExtraError("cluster", needed_for="The engine dbos")

    monkeypatch.setattr(engine_cluster, "must_be_installed", missing)
    with pytest.raises(MissingExtraError, match="the extra 'cluster'"):
        chosen("dbos")


HERE = Worker("here:1-a", "here", "host-1", 1, "local", "1.0", NOON, NOON)


async def test_the_last_word_of_a_worker_counts_and_survives(home: Home) -> None:
    ports = home.open()
    assert isinstance(ports.workers, Workers)
    await ports.workers.beat(HERE)
    later = replace(HERE, at=NOON + timedelta(seconds=5))
    await ports.workers.beat(later)
    other = replace(HERE, id="there:2-b", at=NOON + timedelta(seconds=6))
    await ports.workers.beat(other)
    home.close()
    again = home.open().workers
    assert list(again.find()) == [other, later]
    await again.leave(other.id)
    await again.leave("nosuch")
    assert list(again.find()) == [later]


async def test_who_was_silent_for_days_is_forgotten(ports: Ports) -> None:
    await ports.workers.beat(HERE)
    late = replace(HERE, id="there:2-b", at=NOON + timedelta(days=2))
    await ports.workers.beat(late)
    assert list(ports.workers.find()) == [late]


async def test_a_backlog_holds_what_could_be_claimed_and_nothing_else(ports: Ports) -> None:
    from operator_protocols.domain.health import Severity
    from tests.contract.samples import violation

    assert isinstance(ports.backlog, Backlog)
    mild = await ports.tickets.open([violation("node-1", severity=Severity.WARNING)])
    urgent = await ports.tickets.open([violation("node-2")])
    held = await ports.tickets.open([violation("node-3")])
    waits = await ports.tickets.open([violation("node-4")])
    for ticket in (held, waits):
        claimed = await ports.leases.claim(
            "w", run=f"r{ticket.id}", lease_s=60.0, attempts_max=9, ticket=ticket.id
        )
        assert claimed is not None
        assert claimed.id == ticket.id
        if ticket is waits:
            await ports.leases.release(claimed, reason="later", wait_s=60.0)
    assert list(ports.backlog.waiting(limit=9)) == [urgent, mild]
    assert list(ports.backlog.waiting(limit=1)) == [urgent]
    other = await ports.leases.claim("w", run="r", lease_s=60.0, attempts_max=9, ticket=held.id)
    assert other is None, "a ticket that is held is not replaced by another"
