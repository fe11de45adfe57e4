"""The store in one SQLite file: who may read it, and which files it leaves alone."""

from __future__ import annotations

import asyncio
import hashlib
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from operator_protocols.domain.entry import Draft, Kind
from operator_protocols.errors import StoreError
from operator_sre.store import Store, open_store, sqlite
from operator_sre.store.schema import SCHEMA_VERSION
from operator_sre.store.sqlite import APPLICATION_ID, SqliteDatabase
from tests.contract.clock import HeldClock


def _digests(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """An empty store."""
    one = open_store(tmp_path / "operator.db", clock=HeldClock())
    yield one
    one.close()


def _path(store: Store) -> Path:
    assert isinstance(store.database, SqliteDatabase)
    return store.database.path


def test_nobody_else_can_read_the_file_or_its_folder(tmp_path: Path) -> None:
    open_store(tmp_path / "home" / "operator.db", clock=HeldClock()).close()
    assert stat.S_IMODE((tmp_path / "home").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "home" / "operator.db").stat().st_mode) == 0o600


def test_the_file_says_whose_it_is(store: Store) -> None:
    connection = sqlite3.connect(_path(store))
    assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
    assert connection.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()


def test_a_database_of_another_program_is_refused_untouched(tmp_path: Path) -> None:
    path = tmp_path / "operator.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE precious (a)")
    connection.execute("INSERT INTO precious VALUES (42)")
    connection.commit()
    connection.close()
    before = _digests(tmp_path)
    with pytest.raises(StoreError, match="another program"):
        open_store(path, clock=HeldClock())
    assert _digests(tmp_path) == before


@pytest.mark.parametrize("pragma", ["application_id = 7", "user_version = 1"])
def test_an_empty_database_with_a_mark_of_another_is_refused(tmp_path: Path, pragma: str) -> None:
    path = tmp_path / "operator.db"
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA {pragma}")
    connection.close()
    before = _digests(tmp_path)
    with pytest.raises(StoreError, match="another program"):
        open_store(path, clock=HeldClock())
    assert _digests(tmp_path) == before


def test_a_file_that_is_no_database_is_refused_untouched(tmp_path: Path) -> None:
    path = tmp_path / "operator.db"
    path.write_text("my diary, " * 500)
    before = _digests(tmp_path)
    with pytest.raises(StoreError) as caught:
        open_store(path, clock=HeldClock())
    assert "--home" in caught.value.next_step
    assert _digests(tmp_path) == before


def test_a_newer_schema_is_refused_untouched(tmp_path: Path) -> None:
    path = tmp_path / "operator.db"
    open_store(path, clock=HeldClock()).close()
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    connection.close()
    before = _digests(tmp_path)
    with pytest.raises(StoreError, match="newer Operator") as caught:
        open_store(path, clock=HeldClock())
    assert "Upgrade" in caught.value.next_step
    assert _digests(tmp_path) == before


def test_a_home_that_cannot_be_made_is_told_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be used") as caught:
        open_store(tmp_path / "file" / "home" / "operator.db", clock=HeldClock())
    assert "OPERATOR_HOME" in caught.value.next_step


def test_a_folder_in_the_place_of_the_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "operator.db").mkdir()
    with pytest.raises(StoreError, match="cannot be used"):
        open_store(tmp_path / "operator.db", clock=HeldClock())


@pytest.mark.parametrize("name", ["a b?c#d%41.db", "ü.db"])
def test_any_name_will_do(tmp_path: Path, name: str) -> None:
    store = open_store(tmp_path / name, clock=HeldClock())
    written = asyncio.run(store.journal.append(Draft(Kind.REASONING)))
    assert store.entries.get(1) == written
    store.close()
    assert (tmp_path / name).exists()


def test_a_relative_path_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    open_store(Path("operator.db"), clock=HeldClock()).close()
    assert (tmp_path / "operator.db").exists()


def test_reads_do_not_wait_for_a_writer(store: Store) -> None:
    other = sqlite3.connect(_path(store), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    other.execute("INSERT INTO leases VALUES (1, 1, 1.0)")
    assert list(store.entries.newest(limit=1)) == []
    other.execute("ROLLBACK")
    other.close()


def test_a_writer_waits_for_another_only_so_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "BUSY_S", 0.05)
    store = open_store(tmp_path / "operator.db", clock=HeldClock())
    other = sqlite3.connect(_path(store), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match="could not be written"):
        asyncio.run(store.journal.append(Draft(Kind.REASONING)))
    other.execute("ROLLBACK")
    other.close()
    assert asyncio.run(store.journal.append(Draft(Kind.REASONING))).seq == 1
    store.close()


def test_a_damaged_table_is_told_in_one_sentence(store: Store) -> None:
    other = sqlite3.connect(_path(store), isolation_level=None)
    other.execute("DROP TABLE approvals")
    other.close()
    with pytest.raises(StoreError, match="could not be read"):
        store.approvals.get("a")


def test_a_reader_cannot_write(store: Store) -> None:
    with pytest.raises(StoreError, match="readonly"):
        store.reader.rows("DELETE FROM entries")
