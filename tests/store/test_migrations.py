"""Forward from any released version, with a backup first, wholly or not at all."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from operator_protocols.errors import StoreError, UsageError
from operator_sre.store.database import Connection
from operator_sre.store.schema import (
    LAYOUT,
    MIGRATIONS,
    RELEASED,
    SCHEMA,
    SCHEMA_VERSION,
    Layout,
    Migrated,
    Migration,
    layout_of,
    migrate,
    must_be_current,
)
from tests.store.life import Estate, quietly

Words = Callable[[str], str]


def _colour(connection: Connection, worded: Words) -> None:
    connection.execute(worded("ALTER TABLE tickets ADD COLUMN colour TEXT NOT NULL DEFAULT ''"))
    connection.execute("UPDATE tickets SET colour = 'red'")


def _weigh(connection: Connection, worded: Words) -> None:
    connection.execute(worded("CREATE TABLE weights (ticket {int} PRIMARY KEY, grams {real})"))


def _fail(connection: Connection, worded: Words) -> None:
    connection.execute("INSERT INTO nowhere VALUES (1)")


def _give_up(connection: Connection, worded: Words) -> None:
    raise ValueError("a colour is missing")


NEXT = SCHEMA_VERSION + 1
COLOUR = Migration(NEXT, "tickets have a colour", _colour)
WEIGHT = Migration(NEXT + 1, "tickets have a weight", _weigh)


def _migrate(estate: Estate, *steps: Migration) -> Migrated:
    def save() -> Path:
        path = estate.folder / "before.db"
        return estate.upkeep.backup(path, force=False, progress=quietly).path

    return migrate(estate.upkeep.database, backup=save, migrations=steps)


def test_a_store_of_today_needs_nothing(lived: Estate) -> None:
    assert lived.upkeep.migrate() == Migrated(SCHEMA_VERSION, SCHEMA_VERSION, (), None)
    assert not (lived.folder / "backups").exists()


def test_a_store_that_is_not_there_is_not_made(estate: Estate) -> None:
    assert estate.upkeep.migrate() == Migrated(0, 0, (), None)
    assert estate.upkeep.database.version() == 0


def test_steps_lead_forward_one_after_another(lived: Estate) -> None:
    done = _migrate(lived, COLOUR, WEIGHT)
    assert done.steps == ("tickets have a colour", "tickets have a weight")
    assert (done.before, done.after) == (SCHEMA_VERSION, NEXT + 1)
    assert lived.upkeep.database.version() == NEXT + 1
    assert lived.change("SELECT DISTINCT colour FROM tickets", "SELECT * FROM weights") == [
        [("red",)],
        [],
    ]


def test_tickets_get_their_last_diagnosis(lived: Estate) -> None:
    wanted = lived.change("SELECT id, diagnosis FROM tickets ORDER BY id")
    assert wanted[0][0] == (1, "node-1: it is not running ?")
    assert wanted[0][1] == (2, "")
    lived.change("ALTER TABLE tickets DROP COLUMN diagnosis")
    first = lived.upkeep.database
    with closing(first.session()) as connection:
        first.begin(connection)
        first.mark(connection, 1)
        connection.execute("COMMIT")
    done = lived.upkeep.migrate()
    assert (done.before, done.steps) == (1, ("tickets have their diagnosis",))
    assert lived.change("SELECT id, diagnosis FROM tickets ORDER BY id") == wanted
    assert lived.upkeep.check(progress=quietly).sound


def test_only_steps_that_are_missing_are_made(lived: Estate) -> None:
    _migrate(lived, COLOUR)
    lived.change("UPDATE tickets SET colour = 'blue'")
    done = migrate(lived.upkeep.database, backup=lambda: lived.folder, migrations=(COLOUR, WEIGHT))
    assert done.steps == ("tickets have a weight",)
    assert lived.change("SELECT DISTINCT colour FROM tickets")[0] == [("blue",)]


def test_the_backup_is_what_was_there_before(lived: Estate) -> None:
    tables = [f"{LAYOUT.select(table)} ORDER BY 1, 2" for table in LAYOUT.tables]
    before = lived.change(*tables)
    done = _migrate(lived, COLOUR)
    assert done.backup is not None
    copy = lived.elsewhere(str(done.backup))
    assert copy.change(*tables) == before
    assert copy.upkeep.database.version() == SCHEMA_VERSION


@pytest.mark.parametrize(
    ("step", "error"), [(_fail, StoreError), (_give_up, ValueError)], ids=["database", "step"]
)
def test_a_step_that_fails_undoes_all_of_them(
    lived: Estate,
    step: Callable[[Connection, Words], None],
    error: type[Exception],
) -> None:
    before = lived.change("SELECT * FROM tickets ORDER BY id")
    with pytest.raises(error):
        _migrate(lived, COLOUR, Migration(NEXT + 1, "it fails", step))
    assert lived.upkeep.database.version() == SCHEMA_VERSION
    assert lived.change("SELECT * FROM tickets ORDER BY id") == before
    lived.open().close()


def test_the_sentence_names_the_step_that_failed(lived: Estate) -> None:
    with pytest.raises(StoreError, match=rf"step {NEXT} \(it fails\) failed.*unchanged"):
        _migrate(lived, Migration(NEXT, "it fails", _fail))


def test_without_a_backup_nothing_is_migrated(lived: Estate) -> None:
    (lived.folder / "before.db").write_text("in the way")
    with pytest.raises(UsageError, match="already"):
        _migrate(lived, COLOUR)
    assert lived.upkeep.database.version() == SCHEMA_VERSION


def test_an_older_store_is_opened_by_nobody_before_it_is_migrated(lived: Estate) -> None:
    with pytest.raises(StoreError, match="older Operator") as caught:
        must_be_current(SCHEMA_VERSION, lived.place, current=NEXT)
    assert "operator store migrate" in caught.value.next_step


def test_a_newer_store_is_refused_and_stays_as_it_is(lived: Estate) -> None:
    _migrate(lived, COLOUR)
    for act in (lived.open, lived.upkeep.migrate, lambda: lived.upkeep.check(progress=quietly)):
        with pytest.raises(StoreError, match=rf"newer Operator \(schema {NEXT}\)"):
            act()
    assert lived.upkeep.database.version() == NEXT


def test_every_released_version_leads_to_today() -> None:
    assert sorted(RELEASED) == list(range(1, SCHEMA_VERSION + 1))
    assert [one.version for one in MIGRATIONS] == list(range(2, SCHEMA_VERSION + 1))
    assert RELEASED[SCHEMA_VERSION] == SCHEMA == layout_of(SCHEMA_VERSION).schema


def test_a_layout_knows_its_tables_columns_and_keys() -> None:
    layout = Layout(
        "-- a comment; with a semicolon\n"
        "CREATE TABLE IF NOT EXISTS things (\n    id {int} PRIMARY KEY,\n    name TEXT NOT NULL\n);"
        "CREATE TABLE IF NOT EXISTS parts (\n    thing {int},\n    name TEXT,\n"
        "    PRIMARY KEY (thing, name)\n);"
        "CREATE UNIQUE INDEX IF NOT EXISTS parts_by_name ON parts (name);"
        "CREATE TABLE IF NOT EXISTS notes (\n    text TEXT\n);"
    )
    assert layout.tables == ("things", "parts", "notes")
    assert layout.indexes == ("parts_by_name",)
    assert layout.columns("parts") == ("thing", "name")
    assert [layout.key(table) for table in layout.tables] == [
        ("id",),
        ("thing", "name"),
        ("text",),
    ]
    assert layout.insert("things") == "INSERT INTO things (id, name) VALUES (?, ?)"
    assert len(layout.statements("parts")) == 2


def test_the_parts_of_our_schema_are_all_there(lived: Estate) -> None:
    assert set(LAYOUT.tables) >= {"entries", "checkpoints", "tickets", "observations"}
    for table in LAYOUT.tables:
        lived.change(f"{LAYOUT.select(table)} ORDER BY {', '.join(LAYOUT.key(table))}")
