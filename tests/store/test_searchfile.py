"""The file with the index is only ever a copy, of the ledger that it lies beside."""

from __future__ import annotations

import asyncio
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from operator_protocols.domain.entry import Draft, Kind
from operator_sre.ledger.history.statistics import parse_query
from operator_sre.store import Store, open_store, sqlite
from operator_sre.store.indexer import Indexer
from operator_sre.store.sqlite import (
    SearchFile,
    SqliteDatabase,
    is_damaged,
    make_private,
    with_companions,
)
from operator_sre.store.textindex import (
    NOWHERE,
    FtsIndex,
    forget_index,
    progress,
    reach,
    set_reach,
)
from tests.contract.clock import HeldClock

INDEX = FtsIndex()


def _opened(path: Path) -> Store:
    store = open_store(path, clock=HeldClock())
    store.writer._committed = lambda: None
    return store


def _write(store: Store, *texts: str) -> None:
    async def append() -> None:
        for text in texts:
            await store.journal.append(Draft(Kind.REASONING, {"x": text}))

    asyncio.run(append())


def _find(store: Store, text: str) -> list[int]:
    return [one.seq for one in store.search.entries(parse_query(text), limit=50)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "operator.db"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    one = _opened(path)
    yield one
    one.close()


def test_it_lies_beside_the_store_and_only_its_owner_reads_it(store: Store, path: Path) -> None:
    _write(store, "apple")
    store.indexer.advance(steps_max=9)
    file = SqliteDatabase(path).words
    assert file.path == path.with_name("operator.db-search")
    assert file.files() == with_companions(file.path)
    assert set(file.files()) < set(SqliteDatabase(path).files())
    for one in file.files():
        assert stat.S_IMODE(one.stat().st_mode) == 0o600, one


def test_a_reader_that_was_there_before_it_sees_it(store: Store) -> None:
    assert _find(store, "apple") == []
    _write(store, "apple")
    assert store.search.behind() == 1
    store.indexer.advance(steps_max=9)
    assert (_find(store, "apple"), store.search.behind()) == ([1], 0)


@pytest.mark.parametrize(
    "bytes_", [b"no database at all" * 100, b"SQLite format 3\0" + b"x" * 9000]
)
def test_a_damaged_one_is_made_anew(path: Path, bytes_: bytes) -> None:
    with closing(_opened(path)) as store:
        _write(store, "apple")
        store.indexer.advance(steps_max=9)
    SqliteDatabase(path).words.path.write_bytes(bytes_)
    with closing(_opened(path)) as store:
        _write(store, "pear")
        assert (_find(store, "apple"), store.search.behind()) == ([], 2)
        while store.search.behind():
            store.indexer.advance(steps_max=9)
        assert (_find(store, "apple"), _find(store, "pear")) == ([1], [2])


def test_pages_that_are_damaged_are_not_lived_with(path: Path) -> None:
    with closing(_opened(path)) as store:
        _write(store, *["apple"] * 50)
        store.indexer.advance(steps_max=9)
    file = SqliteDatabase(path).words.path
    whole = file.read_bytes()
    file.write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))
    with closing(_opened(path)) as store:
        for _ in range(3):
            store.indexer.advance(steps_max=9)
        assert len(_find(store, "apple")) == 50


def test_one_of_another_ledger_is_not_believed(tmp_path: Path) -> None:
    texts = {"one": ("apple", "pear"), "other": ("plum", "cherry", "apple")}
    for name, words in texts.items():
        with closing(_opened(tmp_path / name)) as store:
            _write(store, *words)
            store.indexer.advance(steps_max=9)
    (tmp_path / "one-search").replace(tmp_path / "other-search")
    with closing(_opened(tmp_path / "other")) as store:
        assert store.search.behind() == 3
        assert _find(store, "apple") == []
        store.indexer.advance(steps_max=9)
        assert (_find(store, "apple"), _find(store, "pear")) == ([3], [])


def test_an_older_store_gets_rid_of_the_one_inside(store: Store, path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as raw:
        raw.execute("CREATE VIRTUAL TABLE entries_text USING fts5(words, parts, content='')")
        raw.execute("INSERT INTO entries_text (rowid, words) VALUES (1, 'bygone')")
        raw.execute("CREATE TABLE indexed (seq BIGINT NOT NULL)")
        raw.execute("INSERT INTO indexed VALUES (1)")
    _write(store, "apple")
    assert (_find(store, "bygone"), store.search.behind()) == ([], 1)
    store.indexer.advance(steps_max=9)
    assert (_find(store, "bygone"), _find(store, "apple")) == ([], [1])
    with closing(sqlite3.connect(path)) as raw:
        left = raw.execute("SELECT name FROM sqlite_master WHERE name LIKE '%text%'").fetchall()
    assert left == []


def test_one_that_was_forgotten_is_not_begun_before_the_texts_are_gone(
    store: Store, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise words would come back while the purge that takes their texts is under way."""
    monkeypatch.setattr(sqlite, "BUSY_S", 0.05)
    _write(store, "apple", "pear")
    store.indexer.advance(steps_max=9)
    database = SqliteDatabase(path)
    with closing(database.session()) as session:
        database.begin(session)
        forget_index(database, session)
        session.execute("UPDATE entries SET body = NULL WHERE seq = 1")
        store.indexer.advance(steps_max=9)
        assert (_find(store, "apple"), store.search.behind()) == ([], 2)
        session.execute("COMMIT")
    store.indexer.advance(steps_max=9)
    with closing(database.reader()) as raw:
        clause, value = INDEX.match("entries_text", [(["apple"], False)])
        sql = f"SELECT rowid FROM entries_text WHERE {clause}"  # noqa: S608
        assert raw.execute(sql, (value,)).fetchall() == []
    assert _find(store, "pear") == [2]


def test_filling_it_keeps_nobody_from_appending(store: Store, path: Path) -> None:
    _write(store, "apple")
    store.indexer.advance(steps_max=9)
    database = SqliteDatabase(path)
    with closing(database.indexer()) as other:
        database.hold_index(other, afresh=False)
        _write(store, "pear")
        other.execute("ROLLBACK")
        assert store.entries.newest(limit=1)[0].seq == 2


def test_how_far_it_is_goes_by_the_hash_of_an_entry(store: Store, path: Path) -> None:
    _write(store, "apple")
    store.indexer.advance(steps_max=9)
    with closing(SqliteDatabase(path).indexer()) as session:

        def rows(sql: str) -> list[tuple[int, bytes]]:
            return session.execute(sql).fetchall()

        seq, digest = reach(INDEX, rows)
        assert (seq, digest.hex()) == (1, store.entries.newest(limit=1)[0].hash)
        set_reach(session, (1, bytes(32)))
        assert (reach(INDEX, rows), progress(INDEX, rows)) == ((1, bytes(32)), 0)
        set_reach(session, NOWHERE)
        assert (reach(INDEX, rows), progress(INDEX, rows)) == (NOWHERE, 0)


def test_only_a_file_that_is_wrong_itself_is_thrown_away(tmp_path: Path) -> None:
    file = SearchFile(tmp_path / "words")
    file.path.write_bytes(b"no database")
    with closing(sqlite3.connect(file.path)) as raw, pytest.raises(sqlite3.DatabaseError) as damage:
        raw.execute("SELECT * FROM sqlite_master")
    with closing(sqlite3.connect(":memory:")) as raw, pytest.raises(sqlite3.Error) as other:
        raw.execute("SELECT * FROM nothing")
    assert is_damaged(damage.value)
    assert isinstance(other.value, sqlite3.DatabaseError)
    assert not is_damaged(other.value)
    file.drop(["anything"])
    assert not file.path.exists()
    file.drop(["anything"])
    file.shrink()
    assert not file.path.exists()


def test_an_indexer_of_its_own_fills_it_too(store: Store, path: Path) -> None:
    _write(store, "apple")
    other = Indexer(SqliteDatabase(path), INDEX)
    assert other.behind() == 1
    other.advance(steps_max=1)
    assert other.behind() == 0
    other.close()
    assert _find(store, "apple") == [1]


def test_a_place_where_it_cannot_be_made_does_no_harm(
    store: Store, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    _write(store, "apple")
    SqliteDatabase(path).words.path.mkdir()
    assert not store.indexer.advance(steps_max=9)
    assert "cannot be made" in caplog.text
    assert (_find(store, "apple"), store.search.behind()) == ([], 1)
    SqliteDatabase(path).words.path.rmdir()
    store.indexer.advance(steps_max=9)
    assert _find(store, "apple") == [1]


@pytest.mark.parametrize("wanted", ["indexer", "reader", "session", "writer"])
def test_a_session_that_cannot_be_made_ready_is_closed(
    wanted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database, opened = SqliteDatabase(tmp_path / "operator.db"), list[sqlite3.Connection]()

    class Broken(sqlite3.Connection):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            opened.append(self)

        def execute(self, sql: str, values: Any = (), /) -> sqlite3.Cursor:
            raise sqlite3.OperationalError("disk I/O error")

    database.prepare()
    monkeypatch.setattr(sqlite, "_Session", Broken)
    with pytest.raises(sqlite3.OperationalError, match="disk I/O"):
        getattr(database, wanted)()
    (session,) = opened
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        session.cursor()


def _close_elsewhere(path: Path) -> None:
    """Another process opens a file of SQLite and closes it: the last one takes the log with it."""
    code = (
        "import sqlite3, sys; one = sqlite3.connect(sys.argv[1]);"
        " one.execute('SELECT count(*) FROM sqlite_master').fetchall(); one.close()"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], check=True, timeout=60)


@pytest.mark.parametrize("which", ["ledger", "index"])
def test_opening_a_file_again_takes_no_lock_from_who_has_it_open(
    which: str, tmp_path: Path
) -> None:
    """A file that is closed in a process loses the locks of all its sessions there."""
    database = SqliteDatabase(tmp_path / "operator.db")
    database.prepare()
    path = database.path if which == "ledger" else database.words.path
    with closing(database.indexer()) as first:
        schema = "main" if which == "ledger" else "search"
        first.execute(f"CREATE TABLE {schema}.held (number INTEGER)")
        database.prepare()
        with closing(database.indexer()):
            _close_elsewhere(path)
            assert path.with_name(f"{path.name}-wal").exists(), "its log is still in use"
        first.execute("INSERT INTO held VALUES (7)")
    with closing(sqlite3.connect(path)) as later:
        assert later.execute("SELECT number FROM held").fetchall() == [(7,)]


def test_a_new_file_is_for_its_owner_alone_and_one_that_is_there_is_let_be(tmp_path: Path) -> None:
    path = tmp_path / "new"
    make_private(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.write_text("kept")
    make_private(path)
    assert path.read_text() == "kept"
