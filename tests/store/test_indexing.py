"""What happens between reading texts and writing their words, on every database."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from typing import Any

import pytest

from operator_protocols.domain.entry import Actor, Draft, Kind
from operator_sre.ledger.history.query import parse_query
from operator_sre.store import Store, open_store_at
from operator_sre.store.database import Connection, Maintained
from operator_sre.store.indexing import STEP_ENTRIES, Indexer
from operator_sre.store.places import database_at
from operator_sre.store.purge import plan_purge, purge
from operator_sre.store.textindex import TEXT_INDEXES, forget_index
from operator_sre.store.transaction import Rules
from tests.contract.clock import HeldClock
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
        async with asyncio.timeout(10.0):
            while store.search.behind() > STEP_ENTRIES:
                await store.journal.append(draft)

    asyncio.run(write())
    assert store.search.entries(parse_query("apple"), limit=1)
    store.close()
