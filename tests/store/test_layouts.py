"""A store of every released layout opens today, on every database, and loses nothing."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from operator_sre.store.schema import RELEASED, SCHEMA_VERSION, layout_of
from tests.contract.clock import HeldClock
from tests.store.layouts import FOLDER, unpack
from tests.store.life import Estate, quietly

VERSIONS = sorted(RELEASED)
COUNTS = ("SELECT count(*) FROM entries", "SELECT count(*) FROM tickets")


def test_every_released_layout_is_kept() -> None:
    assert sorted(FOLDER.glob("*.gz")) == [FOLDER / f"{version}.db.gz" for version in VERSIONS]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_released_layout_never_changes(tmp_path: Path, version: int) -> None:
    """A new column or table is a new version with a migration, else stores in use would break."""
    layout = layout_of(version)
    with closing(sqlite3.connect(unpack(version, tmp_path))) as kept:
        tables = kept.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        assert set(layout.tables) <= {name for (name,) in tables}
        for table in layout.tables:
            sql = "SELECT name FROM pragma_table_info(?)"
            columns = kept.execute(sql, (table,)).fetchall()
            assert tuple(name for (name,) in columns) == layout.columns(table), table


@pytest.mark.parametrize("version", VERSIONS)
def test_a_home_of_every_layout_is_migrated_in_place_after_a_backup(
    tmp_path: Path, version: int
) -> None:
    place = unpack(version, tmp_path)
    estate = Estate(str(place), tmp_path, HeldClock())
    before = estate.change(*COUNTS)
    done = estate.upkeep.migrate()
    assert (done.before, done.after) == (version, SCHEMA_VERSION)
    assert (done.backup is None) is (version == SCHEMA_VERSION)
    assert estate.change(*COUNTS) == before
    assert before[0][0][0] > 50
    estate.open().close()
    assert estate.upkeep.check(progress=quietly).problems == ()


@pytest.mark.parametrize("version", VERSIONS)
def test_a_backup_of_every_layout_fills_every_database(
    estate: Estate, tmp_path: Path, version: int
) -> None:
    file = unpack(version, tmp_path)
    kept = estate.elsewhere(str(file)).change(*COUNTS)
    done = estate.upkeep.restore(file, force=False, progress=quietly)
    assert done.entries == kept[0][0][0]
    assert estate.change(COUNTS[1]) == [kept[1]]
    estate.open().close()
