"""Damage is named with its exact place, whatever was done to the file."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from operator_protocols.domain.entry import GENESIS, Draft, Kind, chain_hash
from operator_sre.ledger import Damage, Report, verify
from operator_sre.store import open_store
from tests.contract.clock import HeldClock

ENTRIES = 12
PLACES = [1, 2, 6, ENTRIES - 1, ENTRIES]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A ledger of twelve entries."""
    path = tmp_path / "operator.db"
    store = open_store(path, clock=HeldClock())

    async def fill() -> None:
        for number in range(1, ENTRIES + 1):
            await store.journal.append(Draft(Kind.REASONING, {"text": f"step {number}"}))

    asyncio.run(fill())
    store.close()
    return path


def _verify(path: Path, progress: Callable[[int], None] = lambda seq: None) -> Report:
    store = open_store(path, clock=HeldClock())
    try:
        return verify(store.entries, progress=progress)
    finally:
        store.close()


def _damage(path: Path) -> Damage:
    report = _verify(path)
    assert report.damage is not None
    assert report.entries == report.damage.seq - 1
    assert str(report.damage.seq) in report.damage.detail
    return report.damage


def _change(path: Path, *statements: tuple[str, tuple[object, ...]]) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    for sql, values in statements:
        assert connection.execute(sql, values).rowcount == 1, sql
    connection.close()


def _row(path: Path, seq: int) -> tuple[bytes, str, str]:
    connection = sqlite3.connect(path)
    row = connection.execute(
        "SELECT body, previous, hash FROM entries WHERE seq = ?", (seq,)
    ).fetchone()
    connection.close()
    return bytes(row[0]), str(row[1]), str(row[2])


def _set(seq: int, **columns: object) -> tuple[str, tuple[object, ...]]:
    names = ", ".join(f"{name} = ?" for name in columns)
    return f"UPDATE entries SET {names} WHERE seq = ?", (*columns.values(), seq)  # noqa: S608


def test_a_whole_chain_reports_its_length_and_its_head(file: Path) -> None:
    assert _verify(file) == Report(ENTRIES, _row(file, ENTRIES)[2], None)


def test_an_empty_chain_is_whole(tmp_path: Path) -> None:
    assert _verify(tmp_path / "operator.db") == Report(0, GENESIS, None)


def test_the_walk_tells_how_far_it_is(file: Path) -> None:
    told: list[int] = []
    _verify(file, told.append)
    assert told == [ENTRIES]


@pytest.mark.parametrize("seq", PLACES)
def test_one_edited_byte_is_found(file: Path, seq: int) -> None:
    body = _row(file, seq)[0]
    _change(file, _set(seq, body=body.replace(b"step", b"stop")))
    damage = _damage(file)
    assert (damage.seq, damage.kind) == (seq, "edited")


@pytest.mark.parametrize("seq", PLACES)
def test_an_edited_hash_is_found(file: Path, seq: int) -> None:
    _change(file, _set(seq, hash="f" * 64))
    assert _damage(file).seq == seq


@pytest.mark.parametrize("seq", PLACES[:-1])
def test_a_deleted_entry_is_found(file: Path, seq: int) -> None:
    _change(file, ("DELETE FROM entries WHERE seq = ?", (seq,)))
    damage = _damage(file)
    assert (damage.seq, damage.kind) == (seq, "deleted")


@pytest.mark.parametrize("seq", PLACES[:-1])
def test_swapped_entries_are_found(file: Path, seq: int) -> None:
    _change(
        file,
        ("UPDATE entries SET seq = 99 WHERE seq = ?", (seq,)),
        ("UPDATE entries SET seq = ? WHERE seq = ?", (seq, seq + 1)),
        ("UPDATE entries SET seq = ? WHERE seq = 99", (seq + 1,)),
    )
    damage = _damage(file)
    assert (damage.seq, damage.kind) == (seq, "reordered")


@pytest.mark.parametrize("seq", PLACES[:-1])
def test_swapped_bytes_are_found(file: Path, seq: int) -> None:
    one, other = _row(file, seq)[0], _row(file, seq + 1)[0]
    _change(file, _set(seq, body=other), _set(seq + 1, body=one))
    assert _damage(file).seq == seq


@pytest.mark.parametrize("seq", PLACES[:-1])
def test_an_edit_with_a_new_hash_breaks_the_link_to_the_next(file: Path, seq: int) -> None:
    body, previous, _ = _row(file, seq)
    forged = body.replace(b"step", b"stop")
    _change(file, _set(seq, body=forged, hash=chain_hash(previous, forged)))
    damage = _damage(file)
    assert (damage.seq, damage.kind) == (seq + 1, "reordered")


def test_an_inserted_entry_is_found(file: Path) -> None:
    body, previous, _ = _row(file, 5)
    forged = body.replace(b"step", b"stop")
    columns = "(seq, body, previous, hash, kind, run)"
    insert = f"INSERT INTO entries {columns} VALUES (?, ?, ?, ?, 'reasoning', '')"  # noqa: S608
    last = _row(file, ENTRIES)[2]
    _change(file, (insert, (ENTRIES + 1, forged, last, chain_hash(last, forged))))
    assert previous != last
    damage = _damage(file)
    assert (damage.seq, damage.kind) == (ENTRIES + 1, "reordered")


@pytest.mark.parametrize("forged", [b"not json", b"[]", b"null", b'{"a": 1}', b"\xff\xfe", b"{}"])
def test_bytes_that_are_no_entry_are_damage_even_with_a_right_hash(
    file: Path, forged: bytes
) -> None:
    _, previous, _ = _row(file, ENTRIES)
    _change(file, _set(ENTRIES, body=forged, hash=chain_hash(previous, forged)))
    assert _damage(file).seq == ENTRIES


def test_only_the_first_damage_is_named(file: Path) -> None:
    for seq in (4, 9):
        _change(file, _set(seq, body=b"x"))
    assert _damage(file).seq == 4
