"""A store is looked through without touching it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from operator_protocols.errors import NotFoundError, StoreError
from operator_sre.store.rebuild import (
    CheckReport,
    Difference,
    RawRow,
    check,
    rebuild,
    walk,
    wrong_columns,
)
from operator_sre.store.sqlite import SqliteDatabase
from tests.store.life import Estate, quietly

MEDDLING = {
    "UPDATE entries SET ticket = 7 WHERE seq = 3": "the bytes of entry 3 do not match its ticket",
    "UPDATE entries SET run = 'x', at = 0 WHERE seq = 2": "do not match its at, run",
    "UPDATE entries SET body = digest WHERE seq = 4": "Entry 4 is damaged",
    "DROP INDEX one_live_ticket_per_violation": "one_live_ticket_per_violation is missing",
    "DROP TABLE leases": "leases is missing",
}


def test_a_store_that_is_as_it_was_written_is_sound(lived: Estate) -> None:
    report = check(lived.upkeep.database, progress=quietly)
    entries = lived.change("SELECT count(*) FROM entries")[0][0][0]
    assert report == CheckReport(entries, 0, (), ())
    assert report.sound


def test_an_empty_store_is_sound(estate: Estate) -> None:
    estate.open().close()
    assert estate.upkeep.check(progress=quietly) == CheckReport(0, 0, (), ())


def test_a_store_that_cannot_be_opened_is_told_in_a_sentence(tmp_path: Path) -> None:
    gone = SqliteDatabase(tmp_path / "operator.db")
    for act, sentence in ((check, "could not be checked"), (rebuild, "could not be rebuilt")):
        with pytest.raises(StoreError, match=sentence):
            act(gone, progress=quietly)


def test_a_store_that_is_not_there_is_not_made_by_looking(estate: Estate) -> None:
    for act in (estate.upkeep.check, estate.upkeep.rebuild):
        with pytest.raises(NotFoundError, match="no store"):
            act(progress=quietly)
    assert estate.upkeep.database.version() == 0


@pytest.mark.parametrize("statement", MEDDLING)
def test_what_was_meddled_with_is_named(lived: Estate, statement: str) -> None:
    lived.change(statement)
    report = lived.upkeep.check(progress=quietly)
    assert not report.sound
    assert [problem for problem in report.problems if MEDDLING[statement] in problem]


def test_a_table_that_does_not_follow_is_named(lived: Estate) -> None:
    lived.change("UPDATE tickets SET run = 'another' WHERE id = 1")
    report = lived.upkeep.check(progress=quietly)
    assert report.differences == (Difference("tickets", 0, 0, 1),)
    assert not report.sound
    assert lived.upkeep.check(progress=quietly) == report


def test_looking_changes_nothing_and_keeps_nobody_waiting(lived: Estate) -> None:
    lived.think(*({"n": n} for n in range(500)))
    written: list[int] = []

    def write(count: int) -> None:
        lived.think({"n": count})
        written.append(count)

    assert lived.upkeep.check(progress=write).sound
    assert written == [500]


def test_columns_are_compared_with_what_the_bytes_say(lived: Estate) -> None:
    connection = lived.upkeep.database.session()
    rows = list(walk(connection))
    connection.close()
    assert [wrong_columns(row) for row in rows] == [""] * len(rows)
    assert wrong_columns(replace(rows[0], kind="proof")).endswith("do not match its kind")
    assert "parsed as an entry" in wrong_columns(replace(rows[0], body=b"[]"))
    assert wrong_columns(replace(rows[0], body=None, kind="whatever")) == ""
    assert isinstance(rows[0], RawRow)
