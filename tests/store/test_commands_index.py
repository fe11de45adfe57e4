"""The index of texts goes on from where it was left, and is only ever a copy."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from operator_protocols.domain.command import CommandFilter
from operator_protocols.domain.entry import Draft, Kind
from operator_sre.ledger.history.statistics import parse_query
from operator_sre.store import Store, open_store
from operator_sre.store.indexer import STEP_ENTRIES, Indexer
from operator_sre.store.sqlite import SqliteDatabase
from operator_sre.store.textindex import (
    TEXT_INDEXES,
    FtsIndex,
    TextIndex,
    TsvectorIndex,
    create_index,
    forget_index,
    progress,
)
from tests.contract.clock import HeldClock
from tests.contract.doing import DONE, Doer

INDEX: TextIndex = FtsIndex()


class _Library:
    """A store whose index is only filled when the test says so."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.clock = HeldClock()
        self.store: Store = open_store(path, clock=self.clock)
        self.store.writer._committed = lambda: None
        self.indexer = Indexer(SqliteDatabase(path), INDEX)

    def write(self, *texts: str) -> None:
        async def append() -> None:
            for text in texts:
                await self.store.journal.append(Draft(Kind.REASONING, {"x": text}))

        asyncio.run(append())

    def find(self, text: str) -> list[int]:
        return [one.seq for one in self.store.search.entries(parse_query(text), limit=5000)]

    def raw(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, isolation_level=None)
        connection.execute("ATTACH DATABASE ? AS search", (f"{self.path}-search",))
        return connection

    def close(self) -> None:
        self.indexer.close()
        self.store.close()


@pytest.fixture
def library(tmp_path: Path) -> Iterator[_Library]:
    one = _Library(tmp_path / "operator.db")
    yield one
    one.close()


def test_appending_touches_no_index(library: _Library) -> None:
    library.write("apple")
    assert library.find("apple") == []
    assert library.store.search.behind() == 1
    assert not SqliteDatabase(library.path).words.path.exists()


def test_a_step_is_bounded_and_says_when_more_is_left(library: _Library) -> None:
    library.write(*["apple"] * (STEP_ENTRIES + 3))
    assert library.indexer.advance(steps_max=1)
    assert library.store.search.behind() == 3
    assert library.find("apple") == list(range(STEP_ENTRIES, 0, -1))
    assert not library.indexer.advance(steps_max=9)
    assert library.store.search.behind() == 0


def test_a_reader_catches_up_only_as_far_as_it_may(library: _Library) -> None:
    library.write(*["apple"] * (STEP_ENTRIES * 2 + 3))
    left = asyncio.run(library.store.search.catch_up(entries_max=STEP_ENTRIES))
    assert left == STEP_ENTRIES + 3
    assert asyncio.run(library.store.search.catch_up(entries_max=10**6)) == 0


def test_it_goes_on_from_where_another_left_off(library: _Library) -> None:
    library.write("apple")
    library.indexer.advance(steps_max=1)
    library.write("pear apple")
    other = Indexer(SqliteDatabase(library.path), INDEX)
    other.advance(steps_max=9)
    other.close()
    library.indexer.advance(steps_max=9)
    assert library.find("apple") == [2, 1]
    assert library.find("pear") == [2]


def test_an_index_that_is_lost_is_made_anew(library: _Library) -> None:
    library.write("apple", "pear")
    library.indexer.advance(steps_max=9)
    with library.raw() as connection:
        forget_index(SqliteDatabase(library.path), connection)
    connection.close()
    assert library.store.search.behind() == 2
    assert library.find("apple") == []
    library.indexer.advance(steps_max=9)
    assert library.find("apple") == [1]


def test_a_half_of_an_index_is_no_index(library: _Library) -> None:
    library.write("apple")
    library.indexer.advance(steps_max=9)
    with library.raw() as connection:
        connection.execute("DROP TABLE indexed_up_to")
        assert progress(INDEX, lambda sql: connection.execute(sql).fetchall()) == 0
        create_index(INDEX, connection)
    connection.close()
    library.indexer.advance(steps_max=9)
    assert library.find("apple") == [1]


def test_an_index_of_a_longer_ledger_is_not_believed(library: _Library) -> None:
    library.write("apple", "pear", "plum")
    library.indexer.advance(steps_max=9)
    with library.raw() as connection:
        connection.execute("DELETE FROM entries WHERE seq > 1")
    connection.close()
    library.indexer.advance(steps_max=9)
    library.write("cherry")
    library.indexer.advance(steps_max=9)
    assert library.find("cherry") == [2]
    assert library.find("apple") == [1]
    assert library.find("plum") == []


def test_a_damaged_entry_does_not_stop_it(library: _Library) -> None:
    library.write("apple", "pear", "plum", "cherry")
    with library.raw() as connection:
        connection.execute("UPDATE entries SET body = X'00FF7B' WHERE seq = 1")
        connection.execute("UPDATE entries SET body = NULL WHERE seq = 2")
        connection.execute("UPDATE entries SET body = '[1]' WHERE seq = 3")
    connection.close()
    library.indexer.advance(steps_max=9)
    assert library.find("cherry") == [4]


def test_a_store_that_cannot_be_written_is_tried_again_later(
    library: _Library, caplog: pytest.LogCaptureFixture
) -> None:
    library.write("apple")
    with library.raw() as connection:
        connection.execute("CREATE TABLE search.indexed_up_to (wrong TEXT)")
        assert not library.indexer.advance(steps_max=9)
        assert "tries again later" in caplog.text
        connection.execute("DROP TABLE indexed_up_to")
    connection.close()
    library.indexer.advance(steps_max=9)
    assert library.find("apple") == [1]


@pytest.mark.parametrize("steps", [[1, 1], [0, 2], [2, 0]])
def test_a_command_is_indexed_alike_whenever_it_is(library: _Library, steps: list[int]) -> None:
    async def live() -> None:
        doer = await Doer.hired(library.store, library.clock)
        intent, _ = await doer.begin("df -h")
        library.indexer.advance(steps_max=steps[0])
        await library.store.intents.end(intent, replace(DONE, stdout="plenty of room"))
        library.indexer.advance(steps_max=steps[1] or 1)

    asyncio.run(live())
    search, every = library.store.search, CommandFilter()
    assert len(search.commands(parse_query("df plenty"), every, limit=9)) == 1
    with library.raw() as connection:
        connection.execute("INSERT INTO commands_text(commands_text) VALUES ('integrity-check')")
        connection.execute(
            "CREATE VIRTUAL TABLE temp.seen USING fts5vocab(search, commands_text, row)"
        )
        found = connection.execute("SELECT doc, cnt FROM seen WHERE term = 'df'").fetchall()
    connection.close()
    assert found == [(1, 1)]


def test_every_database_has_its_index() -> None:
    assert {name: type(index) for name, index in TEXT_INDEXES.items()} == {
        "postgresql": TsvectorIndex,
        "sqlite": FtsIndex,
    }


def test_a_tsvector_has_words_with_places_and_parts_without() -> None:
    _, vector = TsvectorIndex().row(1, "ls -la /var/log ls")
    lexemes = str(vector).split()
    assert lexemes[:3] == ["'ls':1,4", "'-la':2", "'/var/log':3"]
    assert sorted(lexemes[3:]) == ["'la'", "'log'", "'var'"]


WRITER = """
import asyncio, sys
from pathlib import Path
from operator_protocols.domain.entry import Draft, Kind
from operator_sre.clock import SystemClock
from operator_sre.store import open_store

async def main():
    store = open_store(Path(sys.argv[1]), clock=SystemClock())
    while True:
        for n in range(200):
            await store.journal.append(Draft(Kind.REASONING, {"x": f"word{n} all"}))
        sys.stdout.write(".")
        sys.stdout.flush()

asyncio.run(main())
"""


def test_a_killed_writer_leaves_an_index_that_can_be_trusted(tmp_path: Path) -> None:
    path = tmp_path / "operator.db"
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE)
    assert writer.stdout is not None
    for _ in range(3):
        assert writer.stdout.read(1) == b"."
    os.kill(writer.pid, signal.SIGKILL)
    writer.communicate()
    store = open_store(path, clock=HeldClock())
    assert asyncio.run(store.search.catch_up(entries_max=10**6)) == 0
    found = [one.seq for one in store.search.entries(parse_query("all"), limit=10**6)]
    head = store.entries.newest(limit=1)[0].seq
    assert found == list(range(head, 0, -1))
    store.close()
