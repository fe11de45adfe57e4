"""Workers that are killed, paused and bereft of their engine: each ticket ends once, no repair
runs twice, none is stuck."""

from __future__ import annotations

import asyncio
import random
import shutil
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

import operator_sre
from operator_protocols.domain.entry import Actor, Entry, Kind
from operator_protocols.domain.permit import ApprovalState
from operator_protocols.domain.ticket import Ticket, TicketState
from operator_protocols.domain.verdict import Mode
from operator_sre.engine.queues import SCHEMA
from operator_sre.store import postgres
from operator_sre.store.maintenance import Maintenance
from operator_sre.store.schema import PROJECTIONS
from operator_sre.store.store import database_at
from operator_sre.store.transaction import Rules
from tests.contract.postgres import Server, database_in, shared_server
from tests.engines.floor import Floor, violations
from tests.engines.worker import LEASE_S, WorkerProcess
from tests.processes.waiting import eventually
from tests.store.life import quietly

pytestmark = pytest.mark.asyncio

ENDS = (Kind.TICKET_RESOLVED, Kind.TICKET_ESCALATED)
ENTRIES_MAX = 1_000_000
TRIES_MAX = 5


class Shift:
    """A floor, the tickets on it, and the workers that come and go."""

    def __init__(self, floor: Floor, engine: str) -> None:
        self.floor = floor
        self._engine = engine
        self.workers: list[WorkerProcess] = []

    def hire(
        self, count: int = 1, *, mode: Mode = Mode.EXECUTE, code: Path | None = None
    ) -> list[WorkerProcess]:
        """So many more; returns when all of them work."""
        new = [
            WorkerProcess(self.floor.where, self.floor.folder, self._engine, mode, code)
            for _ in range(count)
        ]
        self.workers += new
        for worker in new:
            worker.ready()
        return new

    def left(self) -> list[Ticket]:
        """Tickets that have not ended."""
        live = (TicketState.OPEN, TicketState.CLAIMED)
        return list(self.floor.store.tickets.find(states=live))

    def entries(self, *kinds: Kind) -> list[Entry]:
        """What is in the ledger of these kinds."""
        told = self.floor.store.entries.after(0, limit=ENTRIES_MAX)
        return [entry for entry in told if entry.kind in kinds]

    async def until_over(self, within_s: float) -> None:
        """Wait until every ticket has ended."""
        await eventually(lambda: not self.left(), within_s=within_s)

    def must_be_right(self, count: int) -> None:
        """Every ticket ended once, no repair ran twice, and what was begun has an end."""
        ends = Counter(entry.ticket for entry in self.entries(*ENDS))
        assert ends == Counter(range(1, count + 1))
        finished = Counter(entry.run for entry in self.entries(Kind.RUN_FINISHED))
        assert set(finished.values()) == {1}
        repaired = self.floor.repaired()
        assert set(repaired.values()) <= {1}, repaired.most_common(3)
        intents = {entry.payload["permit"]: entry for entry in self.entries(Kind.TOOL_CALL)}
        outcomes = [entry.payload["permit"] for entry in self.entries(Kind.TOOL_RESULT)]
        assert len(outcomes) == len(set(outcomes))
        assert len(intents) == len(self.entries(Kind.TOOL_CALL))
        # Whose workers died too often is given up: what became of its last deed is settled by
        # whoever looks after what was abandoned, and no such process is here.
        left = {intents[permit].ticket for permit in set(intents) - set(outcomes)}
        assert left <= self._given_up()
        proven = {entry.ticket for entry in self.entries(Kind.TICKET_RESOLVED)}
        assert {f"bay-{number - 1}" for number in proven if number} <= set(repaired)

    def _given_up(self) -> set[int | None]:
        ends = self.entries(Kind.TICKET_ESCALATED)
        return {end.ticket for end in ends if "attempts ended" in end.payload["reason"]}

    def close(self) -> None:
        """End everybody."""
        for worker in self.workers:
            worker.end(signal.SIGKILL)
        self.floor.close()


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Server:
    """The server of this process."""
    return shared_server(request.config)


@pytest.fixture
def shift(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[str], Shift]]:
    """Call it with the name of an engine."""
    made: list[Shift] = []
    with database_in("postgresql", tmp_path, request.config) as where:

        def make(engine: str) -> Shift:
            made.append(Shift(Floor(where, tmp_path), engine))
            return made[-1]

        yield make
        for one in made:
            one.close()


async def _treat_roughly(shift: Shift, *, workers: int, seed: int, every_s: float) -> None:
    """Until all is over: kill one and hire another, or pause one past its lease and let it go on.

    Which one, when and how follows from the seed; where the work stands then does not.
    """
    dice = random.Random(seed)
    staff = shift.hire(workers)
    paused: list[tuple[float, WorkerProcess]] = []
    loop = asyncio.get_running_loop()
    while shift.left():
        await asyncio.sleep(dice.uniform(0.5, 1.5) * every_s)
        for until, worker in [one for one in paused if one[0] <= loop.time()]:
            worker.go_on()
            paused.remove((until, worker))
        still = [worker for _, worker in paused]
        victim = dice.choice(staff)
        if victim in still:
            continue
        if dice.random() < 0.5:
            victim.end(signal.SIGKILL)
            staff.remove(victim)
            staff += await asyncio.to_thread(shift.hire)
        elif len(still) < workers - 1:
            victim.pause()
            paused.append((loop.time() + dice.uniform(1.2, 2.0) * LEASE_S, victim))
    for _, worker in paused:
        worker.go_on()
    for worker in staff:
        assert worker.end() == 0


@pytest.mark.timeout(300)
async def test_others_end_every_ticket_once_while_one_worker_is_paused_and_one_killed(
    shift: Callable[[str], Shift],
) -> None:
    one = shift("dbos")
    await one.floor.open_tickets(20)
    first, second = one.hire(2)
    await eventually(lambda: len(one.floor.repaired()) >= 3)
    first.pause()
    second.end(signal.SIGKILL)
    one.hire()
    await eventually(lambda: len(one.left()) <= 4)
    first.go_on()
    await one.until_over(100.0)
    assert first.end() == 0, "who was paused ends as politely as anybody"
    one.must_be_right(20)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("workers", [2, 4])
@pytest.mark.parametrize("engine", ["dbos", "local"])
async def test_five_hundred_tickets_end_once_whatever_happens_to_their_workers(
    shift: Callable[[str], Shift], engine: str, workers: int
) -> None:
    one = shift(engine)
    await one.floor.open_tickets(500)
    await _treat_roughly(one, workers=workers, seed=workers, every_s=2.0)
    await one.until_over(120.0)
    one.must_be_right(500)
    assert len(one.workers) > workers, "nobody was killed"


@pytest.mark.parametrize("rows", [0, 1, 3])
async def test_a_writer_that_is_frozen_in_a_transaction_holds_nobody_up_for_long(
    shift: Callable[[str], Shift], monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    monkeypatch.setattr(postgres, "IDLE_S", 1)
    one = shift("local")
    database = postgres.PostgresDatabase(one.floor.where)
    frozen = database.writer()
    database.begin(frozen)
    frozen.executemany(
        "INSERT INTO leases (ticket, epoch, until) VALUES (?, ?, ?)",
        [(number, 1, 0.0) for number in range(rows)],
    )
    await one.floor.open_tickets(1)
    assert len(one.left()) == 1
    with pytest.raises(database.failures):
        frozen.execute("COMMIT")
    frozen.close()


def _insist(server: Server, sql: str, name: str) -> None:
    """Do it, also where the workers were in its way and the server chose one of the two."""
    for left in reversed(range(TRIES_MAX)):
        try:
            server.ask(sql, name=name)
        except psycopg.errors.DeadlockDetected:
            if not left:
                raise
        else:
            return


async def _lose_everything(shift: Shift, server: Server) -> None:
    """Drop the tables of the engine, and every row that follows from the ledger."""
    where = shift.floor.where
    name = where.rpartition("/")[2]
    _insist(server, f"DROP SCHEMA {SCHEMA} CASCADE", name)
    _insist(server, f"TRUNCATE {', '.join((*PROJECTIONS, 'leases', 'workers'))}", name)
    upkeep = Maintenance(
        database=database_at(where),
        rules=Rules(shift.floor.clock),
        backups=shift.floor.folder / "backups",
    )
    await asyncio.to_thread(upkeep.rebuild, progress=quietly)


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_all_resume_when_engine_and_projections_are_lost_in_the_middle(
    shift: Callable[[str], Shift], server: Server
) -> None:
    one = shift("dbos")
    await one.floor.open_tickets(16)
    one.hire(2)
    await eventually(lambda: len(one.floor.repaired()) >= 3, within_s=60.0)
    await _lose_everything(one, server)
    assert one.left(), "it was over before anything was lost"
    await one.until_over(120.0)
    one.must_be_right(16)


def _next_release(folder: Path) -> Path:
    """Our package as it could be after an upgrade: other code where it meets the engine."""
    ours = Path(operator_sre.__file__).parent
    copied = folder / "release" / ours.name
    shutil.copytree(ours, copied, ignore=shutil.ignore_patterns("__pycache__"))
    changes = {
        "__init__.py": ('__version__ = "', '__version__ = "9'),
        "engine/queues.py": ("return work(ticket)", "done = work(ticket); return done"),
    }
    for name, (before, after) in changes.items():
        text = (copied / name).read_text()
        assert before in text
        (copied / name).write_text(text.replace(before, after))
    return copied.parent


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_a_run_that_waits_for_a_person_outlives_its_worker_and_its_release(
    shift: Callable[[str], Shift],
) -> None:
    one = shift("dbos")
    await one.floor.open_tickets(1)
    (first,) = one.hire(mode=Mode.APPROVE)
    await eventually(lambda: one.entries(Kind.TICKET_RELEASED), within_s=60.0)
    (parked,) = one.entries(Kind.TICKET_RELEASED)
    (request,) = one.floor.store.approvals.find(states=(ApprovalState.PENDING,))
    assert request.id in parked.payload["reason"]
    assert [ticket.state for ticket in one.left()] == [TicketState.OPEN]
    assert one.floor.store.backlog.waiting(limit=9) == [], "it costs nothing while it waits"
    assert first.end() == 0
    by, version = Actor("ada", "user"), request.version
    await one.floor.store.approvals.decide(
        request.id, ApprovalState.APPROVED, by=by, reason="go on", version=version
    )
    (second,) = one.hire(mode=Mode.APPROVE, code=_next_release(one.floor.folder))
    await one.until_over(60.0)
    one.must_be_right(1)
    assert len(one.entries(Kind.APPROVAL_REQUESTED)) == 1, "nobody is asked twice"
    assert len(one.entries(Kind.RUN_STARTED)) == 1
    assert len(one.floor.repaired()) == 1
    assert second.end() == 0


async def _die_again_and_again(shift: Shift, deaths: int) -> None:
    """One worker after another is killed after a random while; tickets come as others end."""
    dice = random.Random(deaths)
    opened = 0
    for _ in range(deaths):
        while len(shift.left()) < 3:
            await shift.floor.store.tickets.open(violations(shift.floor.clock, [opened]))
            opened += 1
        (worker,) = await asyncio.to_thread(shift.hire)
        await asyncio.sleep(dice.uniform(0.0, 0.4))
        worker.end(signal.SIGKILL)
    shift.hire()
    await shift.until_over(120.0)
    shift.must_be_right(opened)


@pytest.mark.timeout(300)
async def test_a_local_worker_that_is_killed_at_any_moment_repeats_nothing(
    shift: Callable[[str], Shift],
) -> None:
    await _die_again_and_again(shift("local"), 5)


@pytest.mark.slow
@pytest.mark.timeout(1800)
async def test_a_hundred_deaths_of_local_workers_repeat_nothing(
    shift: Callable[[str], Shift],
) -> None:
    await _die_again_and_again(shift("local"), 100)
