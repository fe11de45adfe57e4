"""Old contents go, the chain still verifies, and nothing that lives is touched."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from sqlite3 import connect

import pytest

from operator_protocols.domain.command import Query, Term
from operator_protocols.domain.entry import Actor, Draft, Entry, Kind
from operator_protocols.domain.ticket import Ticket, TicketState
from operator_protocols.errors import ConflictError
from operator_sre.ledger import KeyFile, verify
from operator_sre.store import Store, sqlite
from operator_sre.store.maintenance import PurgePlan, plan_purge, purge
from operator_sre.store.sqlite import SqliteDatabase
from tests.contract.clock import NOON, HeldClock
from tests.contract.samples import (
    escalated,
    resolved,
    run_finished,
    run_started,
    violation,
    workflow_record,
)
from tests.store.life import Estate, quietly

DAY_S = 86_400.0
ADA = Actor("ada", "user")


async def _work(store: Store, target: str, *, run: str) -> Ticket:
    await store.tickets.open([violation(target)])
    ticket = await store.leases.claim("worker", run=run, lease_s=1e9, attempts_max=3)
    assert ticket is not None
    await store.journal.append(run_started(ticket))
    thought = Draft(Kind.REASONING, {"secret": f"of {target}"}, ticket=ticket.id, run=run)
    await store.journal.append(thought)
    return ticket


async def _finish(store: Store, ticket: Ticket) -> None:
    await store.journal.append(run_finished(ticket))
    await store.leases.end(ticket, resolved(ticket))


async def _days(store: Store, clock: HeldClock) -> None:
    """Four tickets and some thoughts on the first day; one is resolved only on the second."""
    over = await _work(store, "bygone", run="run-over")
    await _finish(store, over)
    late = await _work(store, "late", run="run-late")
    alive = await _work(store, "alive", run="run-alive")
    person = await _work(store, "person", run="run-person")
    await store.leases.end(person, escalated(person))
    await store.journal.append(Draft(Kind.OBSERVED, {"text": "alone"}))
    await store.journal.append(Draft(Kind.REASONING, {"text": "a run alone"}, run="run-none"))
    await store.journal.append(Draft(Kind.SEGMENT_STARTED, {}))
    clock.advance(DAY_S)
    await _finish(store, late)
    await store.journal.append(Draft(Kind.REASONING, {"text": "today"}))
    assert alive.state is TicketState.CLAIMED


@pytest.fixture
def aged(estate: Estate, clock: HeldClock) -> Estate:
    """A store on its second day."""
    estate.do(lambda store: _days(store, clock))
    return estate


def _bodies(estate: Estate) -> dict[int, bool]:
    rows = estate.change("SELECT seq, body IS NULL FROM entries ORDER BY seq")[0]
    return {seq: bool(gone) for seq, gone in rows}


def _purge(estate: Estate, before: datetime = NOON + timedelta(days=1)) -> Entry:
    return estate.upkeep.purge(estate.upkeep.plan(before), by=ADA, progress=quietly)


def test_only_stories_that_are_over_are_taken(aged: Estate) -> None:
    plan = aged.upkeep.plan(NOON + timedelta(days=1))
    assert (plan.tickets, plan.runs) == (frozenset({1}), frozenset({"run-over", "run-none"}))
    assert plan.entries == 8
    _purge(aged)
    store = aged.open()
    kept = [entry for entry in store.entries.after(0, limit=100) if entry.at.year != 1970]
    assert {entry.ticket for entry in kept} == {2, 3, 4, None}
    texts = {entry.payload.get("text") for entry in kept if entry.ticket is None}
    assert texts == {None, "today"}
    store.close()


def test_the_chain_still_verifies_with_its_signatures(aged: Estate, tmp_path: Path) -> None:
    head = aged.change("SELECT hash FROM entries ORDER BY seq DESC LIMIT 1")[0][0][0]
    entry = _purge(aged)
    store = aged.open()
    key = KeyFile(tmp_path / "ledger.key").key
    report = verify(store.entries, store.checkpoints, trusted_key=key)
    store.close()
    assert report.whole
    assert (report.entries, entry.previous) == (entry.seq, bytes(head).hex())


def test_the_purge_is_in_the_ledger_with_who_and_what(aged: Estate) -> None:
    plan = aged.upkeep.plan(NOON + timedelta(days=1))
    entry = _purge(aged)
    assert (entry.kind, entry.actor) == (Kind.PURGED, ADA)
    assert entry.payload == {
        "before": "2026-03-05T12:00:00+00:00",
        "entries": plan.entries,
        "size_bytes": plan.size_bytes,
        "first": 1,
        "last": plan.last,
        "tickets": 1,
    }
    store = aged.open()
    assert store.entries.get(entry.seq) == entry
    store.close()


def test_everything_that_is_left_follows_from_what_is_left(aged: Estate) -> None:
    _purge(aged)
    report = aged.upkeep.check(progress=quietly)
    assert report.sound
    assert report.purged == 8
    assert aged.upkeep.rebuild(progress=quietly) == ()
    store = aged.open()
    assert store.tickets.get(1) is None
    assert {one.id for one in store.tickets.find()} == {2, 3, 4}
    store.close()


def test_words_that_were_taken_are_found_no_more(aged: Estate) -> None:
    async def found(store: Store, word: str) -> int:
        while await store.search.catch_up(entries_max=1000):
            pass
        return len(store.search.entries(Query(word, (Term(word),)), limit=10))

    async def look(store: Store) -> None:
        assert await found(store, "bygone") > 0

    async def look_again(store: Store) -> None:
        assert await found(store, "bygone") == 0
        assert await found(store, "alive") > 0

    aged.do(look)
    _purge(aged)
    aged.do(look_again)


def test_the_bytes_are_nowhere_in_the_file(tmp_path: Path, clock: HeldClock) -> None:
    aged = Estate(str(tmp_path / "operator.db"), tmp_path, clock)
    aged.do(lambda store: _days(store, clock))
    aged.do(_catch_up)
    assert b"of bygone" in Path(aged.place).read_bytes()
    assert b"bygone" in Path(f"{aged.place}-search").read_bytes()
    _purge(aged)
    files = [path.name for path in tmp_path.glob("operator.db*")]
    left = b"".join((tmp_path / name).read_bytes() for name in files)
    assert "operator.db-search" in files
    assert b"of bygone" not in left
    assert b"of alive" in left
    assert b"bygone" not in Path(f"{aged.place}-search").read_bytes()


@pytest.mark.parametrize("read", ["operator.db", "operator.db-search"])
def test_what_is_read_while_it_is_purged_goes_with_the_next_write(
    tmp_path: Path, clock: HeldClock, read: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "BUSY_S", 0.2)
    monkeypatch.setattr(sqlite, "WORDS_BUSY_S", 0.2)
    aged = Estate(str(tmp_path / "operator.db"), tmp_path, clock)
    aged.do(lambda store: _days(store, clock))
    aged.do(_catch_up)
    word = b"of bygone" if read == "operator.db" else b"bygone"

    def left() -> bool:
        return word in b"".join(one.read_bytes() for one in tmp_path.glob(f"{read}*"))

    with closing(connect(tmp_path / read, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM sqlite_master").fetchone()
        _purge(aged)
        assert left()
        assert not aged.upkeep.tidy(), "whoever asked for it is told"
        assert not SqliteDatabase(tmp_path / "operator.db").tidy()
        reader.execute("COMMIT")
        aged.think({"text": "the next write"})
        assert not left()
        assert aged.upkeep.tidy()
    assert not list(tmp_path.glob("*-owed"))


def test_a_purge_that_was_cut_off_is_tidied_up_when_the_store_is_opened(
    tmp_path: Path, clock: HeldClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    aged = Estate(str(tmp_path / "operator.db"), tmp_path, clock)
    aged.do(lambda store: _days(store, clock))
    aged.do(_catch_up)
    with monkeypatch.context() as cut:
        cut.setattr(SqliteDatabase, "settle", lambda database, connection: False)
        _purge(aged)
    assert list(tmp_path.glob("*-owed"))
    SqliteDatabase(tmp_path / "operator.db").prepare()
    assert not list(tmp_path.glob("*-owed"))
    assert b"bygone" not in Path(f"{aged.place}-search").read_bytes()


async def _catch_up(store: Store) -> None:
    assert await store.search.catch_up(entries_max=1000) == 0


def test_a_number_is_never_given_twice(aged: Estate, clock: HeldClock) -> None:
    aged.do(_finish_all)
    clock.advance(DAY_S)
    _purge(aged, NOON + timedelta(days=2))
    opened: list[int] = []

    async def open_one(store: Store) -> None:
        opened.append((await store.tickets.open([violation("new")])).id)

    aged.do(open_one)
    assert opened == [5]


async def _finish_all(store: Store) -> None:
    for ticket in store.tickets.find(states=[TicketState.CLAIMED]):
        await _finish(store, ticket)


def test_a_second_purge_finds_nothing(aged: Estate) -> None:
    _purge(aged)
    plan = aged.upkeep.plan(NOON + timedelta(days=1))
    assert (plan.entries, plan.first, plan.last) == (0, 0, 0)


def test_what_changed_since_it_was_planned_is_not_purged(aged: Estate) -> None:
    plan = aged.upkeep.plan(NOON + timedelta(days=1))
    before = _bodies(aged)
    with pytest.raises(ConflictError, match="changed since"):
        aged.upkeep.purge(replace(plan, entries=plan.entries - 1), by=ADA, progress=quietly)
    assert _bodies(aged) == before


def test_life_goes_on_while_a_purge_is_prepared(aged: Estate) -> None:
    plan = aged.upkeep.plan(NOON + timedelta(days=1))
    aged.think({"text": "meanwhile"})
    entry = aged.upkeep.purge(plan, by=ADA, progress=quietly)
    assert _bodies(aged)[entry.seq - 1] is False
    assert aged.upkeep.check(progress=quietly).sound


@pytest.mark.parametrize(
    ("kind", "hours", "ticket", "run", "expected"),
    [
        ("reasoning", 1, 1, "", True),
        ("reasoning", 25, 1, "", False),
        ("reasoning", 24, 1, "", False),
        ("reasoning", 1, 2, "run-1", False),
        ("reasoning", 1, None, "run-1", True),
        ("reasoning", 1, None, "run-2", False),
        ("reasoning", 1, None, "", True),
        ("pattern_created", 1, None, "", False),
        ("segment_started", 1, 1, "", False),
        ("purged", 1, None, "", False),
    ],
)
def test_an_entry_goes_with_its_story(
    kind: str, hours: int, ticket: int | None, run: str, expected: bool
) -> None:
    midnight = datetime(2026, 3, 4, tzinfo=UTC)
    tomorrow = midnight + timedelta(days=1)
    plan = PurgePlan(tomorrow, 0, 0, 0, 0, frozenset({1}), frozenset({"run-1"}))
    at = (midnight + timedelta(hours=hours)).timestamp()
    assert plan.takes(kind, at, ticket, run) is expected
    assert plan_purge.__doc__
    assert purge.__doc__


def test_what_waits_for_its_time_is_not_purged_however_old_it_is(lived: Estate) -> None:
    clock = lived.clock
    assert isinstance(clock, HeldClock)
    later = workflow_record("workflow-9", at=clock.now(), in_s=1e7)
    lived.do(lambda store: store.workflows.add(later))
    clock.advance(9e6)
    plan = lived.upkeep.plan(clock.now())
    assert "workflow-1" in plan.runs
    assert "workflow-9" not in plan.runs
    lived.upkeep.purge(plan, by=ADA, progress=quietly)
    left = lived.change("SELECT id FROM workflows ORDER BY id")[0]
    assert ("workflow-9",) in left
    assert ("workflow-1",) not in left
    assert lived.upkeep.rebuild(progress=quietly) == ()
