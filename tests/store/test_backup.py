"""A backup is one file that is whole, or it is not there."""

from __future__ import annotations

import sqlite3
import stat
from pathlib import Path

import pytest

from operator_protocols.errors import StoreError, UsageError
from operator_sre.store import backup as module
from operator_sre.store.backup import Backup, backup, head_of
from operator_sre.store.sqlite import SqliteDatabase
from operator_sre.store.tables import LAYOUT
from operator_sre.store.transfer import Fingerprint, copy_rows, fingerprints
from tests.contract.clock import HeldClock
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
    assert SqliteDatabase(path).version() == 1


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
    with pytest.raises(StoreError, match="read back differs: entries"):
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
