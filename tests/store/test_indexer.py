"""The index follows the ledger, in a thread or in a process that nobody has to end."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from operator_protocols.domain.entry import Actor, Draft, Kind
from operator_sre.ledger.history.statistics import parse_query
from operator_sre.store import Store, indexer, open_store, open_store_at
from operator_sre.store.database import Connection, Maintained
from operator_sre.store.indexer import APART_ENTRIES, STEP_ENTRIES, Indexer, IndexProcess, fill
from operator_sre.store.maintenance import plan_purge, purge
from operator_sre.store.store import database_at
from operator_sre.store.textindex import TEXT_INDEXES, forget_index
from operator_sre.store.transaction import Rules
from tests.contract.clock import HeldClock
from tests.processes.waiting import eventually, gone, processes_in
from tests.store.life import quietly


class _Interrupted(Indexer):
    """Something happens once, just when it has read the texts."""

    meanwhile: Callable[[], object] = staticmethod(lambda: None)

    def _read(self, connection: Connection, read: Any, gentle_since: float | None) -> None:
        super()._read(connection, read, gentle_since)
        meanwhile, self.meanwhile = self.meanwhile, lambda: None
        meanwhile()


class _Desk:
    """A store whose index is only filled when the test says so."""

    def __init__(self, place: str) -> None:
        self.clock = HeldClock()
        self.rules = Rules(self.clock)
        self.store: Store = open_store_at(place, self.rules)
        self.store.writer._committed = lambda: None
        self.database: Maintained = database_at(place)
        self.indexer = _Interrupted(self.database, TEXT_INDEXES[self.database.name])

    def write(self, *texts: str) -> None:
        async def append() -> None:
            for text in texts:
                await self.store.journal.append(Draft(Kind.REASONING, {"x": text}))

        asyncio.run(append())

    def change(self, sql: str, *values: object) -> None:
        with closing(self.database.session()) as session:
            session.execute(sql, values)

    def purge(self) -> None:
        """Take all texts away that are there."""
        before = self.clock.now() + timedelta(seconds=1)
        with closing(self.database.session()) as session:
            self.database.begin(session)
            plan = plan_purge(session, before)
            session.execute("ROLLBACK")
        purge(self.database, self.rules, plan, by=Actor(), progress=quietly)

    def indexed(self, word: str) -> list[int]:
        """What the index itself says, whether or not there still is such an entry."""
        index = TEXT_INDEXES[self.database.name]
        clause, value = index.match("entries_text", [([word], False)])
        rows = self.store.reader.rows(
            f"SELECT {index.key} FROM entries_text WHERE {clause} ORDER BY 1",  # noqa: S608
            (value,),
        )
        return [seq for (seq,) in rows]

    def close(self) -> None:
        self.indexer.close()
        self.store.close()


@pytest.fixture
def desk(place: str) -> Iterator[_Desk]:
    one = _Desk(place)
    yield one
    one.close()


def test_a_purge_meanwhile_leaves_no_word_behind(desk: _Desk) -> None:
    desk.write("apple", "pear")
    desk.indexer.meanwhile = desk.purge
    desk.indexer.advance(steps_max=9)
    desk.write("plum")
    desk.indexer.advance(steps_max=9)
    assert (desk.indexed("apple"), desk.indexed("plum")) == ([], [4])


def test_a_purge_behind_the_first_step_leaves_no_word_behind(desk: _Desk) -> None:
    desk.write("apple")
    desk.indexer.advance(steps_max=9)
    desk.write("pear")
    desk.indexer.meanwhile = desk.purge
    desk.indexer.advance(steps_max=9)
    desk.indexer.advance(steps_max=9)
    assert (desk.indexed("apple"), desk.indexed("pear")) == ([], [])
    assert desk.store.search.behind() == 0


def test_entries_that_were_replaced_meanwhile_are_read_again(desk: _Desk) -> None:
    desk.write("apple")
    other = b'{"actor":{"id":"a"},"kind":"proof","payload":"pear","run":""}'
    sql = "UPDATE entries SET body = ?, hash = ? WHERE seq = 1"
    desk.indexer.meanwhile = lambda: desk.change(sql, other, bytes(32))
    desk.indexer.advance(steps_max=9)
    desk.indexer.advance(steps_max=9)
    assert (desk.indexed("apple"), desk.indexed("pear")) == ([], [1])


def test_an_index_that_another_fills_meanwhile_is_filled_once(desk: _Desk) -> None:
    desk.write("apple")
    other = Indexer(desk.database, TEXT_INDEXES[desk.database.name])
    desk.indexer.meanwhile = lambda: other.advance(steps_max=1)
    desk.indexer.advance(steps_max=9)
    other.close()
    assert desk.indexed("apple") == [1]


def test_nobody_forgets_an_index_while_somebody_writes_it(desk: _Desk) -> None:
    """Otherwise words of texts that are just being taken away could stay."""
    desk.write("apple")
    database = desk.database
    with closing(database.session()) as session:
        database.begin(session)
        forget_index(database, session)
        with closing(database.indexer()) as other:
            if database.name == "postgresql":
                other.execute("SET lock_timeout = '100ms'")
                with pytest.raises(database.failures, match="lock timeout"):
                    database.hold_index(other, afresh=True)
            else:
                assert not database.begin(other, wait=False)
        session.execute("COMMIT")
    desk.indexer.advance(steps_max=9)
    assert desk.indexed("apple") == [1]


def test_it_does_not_wait_for_a_lull_when_nobody_writes(desk: _Desk) -> None:
    desk.write(*["apple"] * 100)
    assert not desk.indexer.advance(steps_max=9, gentle_since=time.perf_counter())
    assert len(desk.indexed("apple")) == 100


def test_the_index_keeps_up_with_those_who_write_without_a_pause(place: str) -> None:
    store = open_store_at(place, Rules(HeldClock()))
    wanted = 2 * STEP_ENTRIES

    async def write() -> None:
        draft = Draft(Kind.REASONING, {"x": "apple"})
        for _ in range(wanted // 50):
            await asyncio.gather(*(store.journal.append(draft) for _ in range(50)))
        async with asyncio.timeout(100.0):
            while store.search.behind() > STEP_ENTRIES:
                await store.journal.append(draft)

    asyncio.run(write())
    assert store.search.entries(parse_query("apple"), limit=1)
    store.close()


def _run(path: Path, work: Callable[[Store], object]) -> None:
    store = open_store(path, clock=HeldClock())
    try:
        asyncio.run(_awaited(work(store)))
    finally:
        store.close()


async def _awaited(work: object) -> None:
    if asyncio.iscoroutine(work):
        await work


async def _write(store: Store, count: int) -> None:
    draft = Draft(Kind.REASONING, {"x": "apple"})
    for _ in range(0, count, 500):
        await asyncio.gather(*(store.journal.append(draft) for _ in range(min(count, 500))))


def test_much_is_left_to_a_process_that_ends_with_its_store(tmp_path: Path) -> None:
    async def work(store: Store) -> None:
        # The thread must find that much is waiting at once, however fast it is itself.
        with store.indexer._lock:
            await _write(store, APART_ENTRIES + 1000)
        await eventually(lambda: processes_in(tmp_path))
        await eventually(lambda: not store.search.behind())
        await _write(store, 500)
        await eventually(lambda: not store.search.behind())
        assert len(store.search.entries(parse_query("apple"), limit=9999)) == APART_ENTRIES + 1500

    _run(tmp_path / "operator.db", work)
    assert processes_in(tmp_path) == []


def test_few_entries_start_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("operator_sre.store.store.IndexProcess", _never)

    async def work(store: Store) -> None:
        await _write(store, 3)
        await eventually(lambda: not store.search.behind())

    _run(tmp_path / "operator.db", work)


def _never(path: Path) -> IndexProcess:
    raise AssertionError(path)


def test_one_that_cannot_start_or_dies_is_done_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexer, "APART_ENTRIES", 0)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "nowhere"))

    async def work(store: Store) -> None:
        await _write(store, 3)
        await eventually(lambda: not store.search.behind())

    _run(tmp_path / "one.db", work)
    monkeypatch.setattr(sys, "executable", "/bin/false")
    _run(tmp_path / "other.db", work)
    monkeypatch.setattr(IndexProcess, "notify", lambda self: True)  # notified just before it died
    monkeypatch.setattr(indexer, "PROCESS_IDLE_S", 0.1)
    _run(tmp_path / "third.db", work)


def test_a_process_that_starts_slowly_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[int] = []

    def start(path: Path) -> IndexProcess:
        process = IndexProcess(path)
        os.kill(process.id, signal.SIGSTOP)
        started.append(process.id)
        return process

    monkeypatch.setattr(indexer, "APART_ENTRIES", 0)
    monkeypatch.setattr(indexer, "PROCESS_IDLE_S", 0.01)
    monkeypatch.setattr("operator_sre.store.store.IndexProcess", start)

    async def work(store: Store) -> None:
        await _write(store, 3)
        await eventually(lambda: started)
        checks = 0
        is_idle = store.indexer._is_idle

        def count() -> bool:
            nonlocal checks
            checks += 1
            return is_idle()

        monkeypatch.setattr(store.indexer, "_is_idle", count)
        await eventually(lambda: checks >= 3)
        assert len(started) == 1
        os.kill(started[0], signal.SIGCONT)
        await eventually(lambda: not store.search.behind())
        await eventually(lambda: gone(started))

    _run(tmp_path / "operator.db", work)


def test_an_idle_one_is_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexer, "APART_ENTRIES", 0)
    monkeypatch.setattr(indexer, "PROCESS_IDLE_S", 0.01)

    async def work(store: Store) -> None:
        await _write(store, 3)
        await eventually(lambda: not store.search.behind())
        await eventually(lambda: not processes_in(tmp_path))
        await _write(store, 3)
        await eventually(lambda: not store.search.behind())

    _run(tmp_path / "operator.db", work)


OWNER = """
import sys, time
from pathlib import Path
from operator_sre.store.indexer import IndexProcess
one = IndexProcess(Path(sys.argv[1]))
one.notify()
print(one.id, flush=True)
time.sleep(600)
"""


def test_it_is_gone_when_its_owner_is_killed(tmp_path: Path) -> None:
    open_store(tmp_path / "operator.db", clock=HeldClock()).close()
    argv = [sys.executable, "-c", OWNER, str(tmp_path / "operator.db")]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        child = int(owner.stdout.readline())
        assert not gone([child])
        os.kill(owner.pid, signal.SIGKILL)
    asyncio.run(eventually(lambda: gone([child])))


def test_it_has_no_secret_of_its_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPERATOR_TEST_TOKEN", "hunter2")
    open_store(tmp_path / "operator.db", clock=HeldClock()).close()
    one = IndexProcess(tmp_path / "operator.db")
    try:
        assert b"hunter2" not in Path(f"/proc/{one.id}/environ").read_bytes()
        assert one.notify()
    finally:
        assert one.close()
    assert not one.notify()
    assert not one.close()


def test_it_fills_until_its_input_ends(tmp_path: Path) -> None:
    path = tmp_path / "operator.db"
    store = open_store(path, clock=HeldClock())
    store.writer._committed = lambda: None
    asyncio.run(_write(store, 3))
    told, tell = os.pipe()
    filling = threading.Thread(target=fill, args=(path, told))
    filling.start()
    os.write(tell, b".")
    asyncio.run(eventually(lambda: not store.search.behind()))
    os.close(tell)
    filling.join(30.0)
    assert not filling.is_alive()
    os.close(told)
    store.close()
