"""A backup holds everything as it was, and becomes a store again."""

from __future__ import annotations

import hashlib
import sqlite3
import stat
from pathlib import Path
from typing import Any

import pytest

from operator_protocols.domain.entry import Kind
from operator_protocols.domain.observation import Observation
from operator_protocols.errors import NotFoundError, StoreError, UsageError
from operator_sre.store import Store
from operator_sre.store import backup as module
from operator_sre.store.backup import (
    Backup,
    Fingerprint,
    Restored,
    backup,
    copy_rows,
    fingerprints,
    head_of,
    restore,
)
from operator_sre.store.schema import LAYOUT, SCHEMA_VERSION
from operator_sre.store.sqlite import SqliteDatabase
from tests.contract.clock import NOON, HeldClock
from tests.contract.samples import violation
from tests.contract.verified import verified
from tests.store.life import Estate, quietly


def _save(estate: Estate, path: Path, *, force: bool = False) -> Backup:
    return estate.upkeep.backup(path, force=force, progress=quietly)


def _prints(estate: Estate) -> dict[str, Fingerprint]:
    database = estate.upkeep.database
    connection = database.session()
    database.snapshot(connection)
    found = dict(fingerprints(database, connection, LAYOUT))
    connection.close()
    return found


def test_a_backup_holds_every_row_and_can_be_opened_as_a_store(
    lived: Estate, tmp_path: Path
) -> None:
    done = _save(lived, tmp_path / "saved.db")
    copy = lived.elsewhere(str(done.path))
    assert _prints(copy) == _prints(lived)
    store = copy.open()
    report = verified(store.entries)
    assert (report.entries, report.head, report.whole) == (done.entries, done.head, True)
    store.close()
    assert copy.upkeep.check(progress=quietly).sound


def test_a_backup_is_one_file_that_only_its_owner_can_read(lived: Estate, tmp_path: Path) -> None:
    folder = tmp_path / "safe"
    folder.mkdir()
    done = _save(lived, folder / "saved.db")
    assert [path.name for path in folder.iterdir()] == ["saved.db"]
    assert stat.S_IMODE(done.path.stat().st_mode) == 0o600
    assert done.size_bytes == done.path.stat().st_size


def test_a_file_that_is_there_is_overwritten_only_when_told(lived: Estate, tmp_path: Path) -> None:
    path = tmp_path / "saved.db"
    path.write_text("precious")
    with pytest.raises(UsageError, match="already"):
        _save(lived, path)
    assert path.read_text() == "precious"
    assert _save(lived, path, force=True).entries > 0
    assert SqliteDatabase(path).version() == SCHEMA_VERSION


@pytest.mark.parametrize("name", ["operator.db", "operator.db-wal", "./x/../operator.db"])
def test_the_store_itself_is_never_the_backup(tmp_path: Path, clock: HeldClock, name: str) -> None:
    estate = Estate(str(tmp_path / "operator.db"), tmp_path, clock)
    estate.think({"mine": 1})
    (tmp_path / "x").mkdir()
    with pytest.raises(UsageError, match="the store itself"):
        _save(estate, tmp_path / name, force=True)


@pytest.mark.parametrize("name", ["nowhere/saved.db", "."])
def test_a_place_that_cannot_be_written_is_told_in_one_sentence(
    lived: Estate, tmp_path: Path, name: str
) -> None:
    with pytest.raises((StoreError, UsageError), match=r"could not be written|is a directory"):
        _save(lived, tmp_path / name)


def test_a_copy_that_differs_never_gets_the_name(
    lived: Estate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def meddle(path: Path) -> None:
        connection = sqlite3.connect(path)
        connection.execute("UPDATE entries SET run = 'other' WHERE seq = 1")
        connection.commit()
        connection.close()

    proven = module._prove

    def prove(fresh: Path, *rest: object) -> None:
        meddle(fresh)
        proven(fresh, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "_prove", prove)
    with pytest.raises(StoreError, match="written backup differs: entries"):
        _save(lived, tmp_path / "safe.db")
    assert [path for path in tmp_path.iterdir() if "safe" in path.name] == []


def test_who_writes_meanwhile_is_not_in_it_by_half(lived: Estate, tmp_path: Path) -> None:
    lived.think(*({"n": n} for n in range(600)))
    before = lived.change("SELECT count(*) FROM entries")[0][0][0]

    told: list[int] = []

    def write(count: int) -> None:
        told.append(count)
        lived.think({"late": count})

    done = lived.upkeep.backup(tmp_path / "saved.db", force=False, progress=write)
    copy = lived.elsewhere(str(done.path))
    assert told[0] == 0
    assert done.entries == before
    assert copy.upkeep.check(progress=quietly).sound


def test_rows_are_the_same_in_any_order_and_never_twice() -> None:
    one, other, twice = Fingerprint(), Fingerprint(), Fingerprint()
    rows = [(1, "a", None, b"x", 0.5), (2, "b\0", None, b"", 1.0)]
    for row in rows:
        one.add(row)
    for row in reversed(rows):
        other.add(row)
    for row in (rows[0], rows[0]):
        twice.add(row)
    assert one == other
    assert hash(one) == hash(other)
    assert one != twice
    plain = Fingerprint()
    plain.add((2, "b?", None, b"", 1.0))
    nul = Fingerprint()
    nul.add(rows[1])
    assert plain == nul  # one database keeps what another cannot


def test_the_head_of_nothing_is_nothing(estate: Estate) -> None:
    estate.open().close()
    connection = estate.upkeep.database.reader()
    assert head_of(connection) == ""
    connection.close()
    assert backup.__doc__
    assert copy_rows.__doc__


@pytest.fixture
def saved(tmp_path: Path, clock: HeldClock) -> Path:
    """A backup of another store, in which everything has happened."""
    folder = tmp_path / "other"
    folder.mkdir()
    other = Estate(str(folder / "operator.db"), folder, clock)
    other.live()
    return other.upkeep.backup(tmp_path / "saved.db", force=False, progress=quietly).path


def _restore(estate: Estate, file: Path, *, force: bool = False) -> Restored:
    return estate.upkeep.restore(file, force=force, progress=quietly)


def _rows(estate: Estate, *, last: int = 2**62) -> list[list[tuple[Any, ...]]]:
    """All rows, of the ledger and its signed heads those up to an entry."""
    apart = {"entries", "checkpoints"}
    where = {table: f"WHERE seq <= {last} " if table in apart else "" for table in LAYOUT.tables}
    return estate.change(
        *(f"{LAYOUT.select(table)} {where[table]}ORDER BY 1, 2" for table in LAYOUT.tables)
    )


def test_an_absent_store_is_filled(estate: Estate, saved: Path) -> None:
    done = _restore(estate, saved)
    assert done.saved is None
    assert _rows(estate, last=done.seq) == _rows(estate.elsewhere(str(saved)))
    store = estate.open()
    report = verified(store.entries)
    assert (report.entries, report.whole) == (done.entries + 1, True)
    (recorded,) = store.entries.newest(limit=1)
    assert (recorded.kind, recorded.previous) == (Kind.STORE_RESTORED, done.head)
    store.close()
    assert estate.upkeep.check(progress=quietly).sound


def test_life_goes_on_in_a_restored_store(estate: Estate, saved: Path) -> None:
    done = _restore(estate, saved)
    estate.do(_go_on)
    store = estate.open()
    assert verified(store.entries).whole
    assert verified(store.entries).entries > done.entries
    store.close()
    assert estate.upkeep.check(progress=quietly).sound


async def _go_on(store: Store) -> None:
    await store.tickets.open([violation("node-77")])
    await store.observations.add(Observation("shop", NOON))


def test_an_empty_store_is_filled(estate: Estate, saved: Path) -> None:
    estate.open().close()
    assert _restore(estate, saved).entries > 0


def test_a_store_that_holds_something_is_left_alone(estate: Estate, saved: Path) -> None:
    estate.think({"mine": 1})
    before = _rows(estate)
    with pytest.raises(UsageError, match="not empty"):
        _restore(estate, saved)
    assert _rows(estate) == before


def test_what_was_there_is_saved_before_it_is_replaced(estate: Estate, saved: Path) -> None:
    estate.think({"mine": 1}, {"mine": 2})
    before = _rows(estate)
    done = _restore(estate, saved, force=True)
    assert done.saved is not None
    assert _rows(estate.elsewhere(str(done.saved))) == before
    assert _rows(estate, last=done.seq) == _rows(estate.elsewhere(str(saved)))
    again = _restore(estate, done.saved, force=True)
    assert _rows(estate, last=again.seq) == before


@pytest.mark.parametrize(
    ("meddle", "says"),
    [
        ("PRAGMA application_id = 7", "another program"),
        (f"PRAGMA user_version = {SCHEMA_VERSION + 1}", "newer Operator"),
        ("DROP INDEX entries_by_key", "entries_by_key is missing"),
    ],
)
def test_a_file_that_is_no_good_backup_is_refused(
    estate: Estate, saved: Path, meddle: str, says: str
) -> None:
    connection = sqlite3.connect(saved)
    connection.execute(meddle)
    connection.commit()
    connection.close()
    with pytest.raises(StoreError, match=says):
        _restore(estate, saved)
    assert estate.upkeep.database.version() == 0


def test_no_file_and_an_empty_file_are_no_backups(estate: Estate, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no file"):
        _restore(estate, tmp_path / "nowhere.db")
    (tmp_path / "empty.db").touch()
    with pytest.raises(UsageError, match="empty"):
        _restore(estate, tmp_path / "empty.db")


def test_a_backup_with_flipped_bytes_is_refused(estate: Estate, saved: Path) -> None:
    content = bytearray(saved.read_bytes())
    for page in range(2, len(content) // 4096, 2):
        content[page * 4096 : page * 4096 + 8] = b"\xff" * 8
    saved.write_bytes(content)
    with pytest.raises(StoreError, match="damaged"):
        _restore(estate, saved)
    assert estate.upkeep.database.version() == 0


def test_a_file_too_damaged_to_be_read_is_set_aside_whole(
    tmp_path: Path, clock: HeldClock, saved: Path
) -> None:
    estate = Estate(str(tmp_path / "operator.db"), tmp_path, clock)
    garbage = b"not a database at all" * 300
    Path(estate.place).write_bytes(garbage)
    with pytest.raises(StoreError, match="restore FILE --force"):
        estate.open()
    with pytest.raises(StoreError, match="damaged"):
        _restore(estate, saved)
    done = _restore(estate, saved, force=True)
    assert done.saved is not None
    assert hashlib.sha256(done.saved.read_bytes()).digest() == hashlib.sha256(garbage).digest()
    assert estate.upkeep.check(progress=quietly).sound
    assert restore.__doc__


def test_a_database_of_another_program_is_never_moved(
    tmp_path: Path, clock: HeldClock, saved: Path
) -> None:
    estate = Estate(str(tmp_path / "operator.db"), tmp_path, clock)
    connection = sqlite3.connect(estate.place)
    connection.execute("CREATE TABLE precious (a)")
    connection.close()
    before = Path(estate.place).read_bytes()
    with pytest.raises(StoreError, match="another program"):
        _restore(estate, saved, force=True)
    assert Path(estate.place).read_bytes() == before
