"""Damage is set aside, recorded, and the log goes on in a segment that names the old head."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from operator_protocols.domain.entry import Entry, Kind
from tests.ledger.ledgers import ENTRIES, Ledger


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path)


def _begin(ledger: Ledger) -> Entry:
    found = [(one.seq, one.kind.value, one.detail) for one in ledger.report().damages]
    store = ledger.open()
    entry = asyncio.run(store.quarantine.begin_segment(found))
    store.close()
    return entry


def test_a_segment_names_the_old_head_and_the_damage(ledger: Ledger) -> None:
    ledger.put(5, ledger.forged(5), rehash=False)
    entry = _begin(ledger)
    assert (entry.seq, entry.kind) == (ENTRIES + 1, Kind.SEGMENT_STARTED)
    assert entry.payload["old_head"] == {"seq": ENTRIES, "hash": ledger.row(ENTRIES)[3].hex()}
    assert [one["seq"] for one in entry.payload["damages"]] == [5]


def test_damaged_rows_are_kept_as_they_were_found(ledger: Ledger) -> None:
    forged = ledger.forged(5)
    ledger.put(5, forged, rehash=False)
    _begin(ledger)
    with closing(sqlite3.connect(ledger.path)) as connection:
        kept = connection.execute("SELECT seq, body, damage FROM quarantine").fetchall()
    assert [(row[0], row[1]) for row in kept] == [(5, forged)]
    assert kept[0][2].startswith("edited: ")
    assert ledger.row(5)[0] == forged


def test_the_same_damage_begins_one_segment(ledger: Ledger) -> None:
    ledger.put(5, ledger.forged(5), rehash=False)
    assert _begin(ledger).seq == _begin(ledger).seq


def test_new_damage_behind_a_segment_is_found_too(ledger: Ledger) -> None:
    ledger.put(5, ledger.forged(5), rehash=False)
    _begin(ledger)
    ledger.append(10)
    assert ledger.damages() == [(5, "edited")]
    later = ENTRIES + 4
    ledger.put(later, ledger.forged(later), rehash=False)
    assert ledger.damages() == [(5, "edited"), (later, "edited")]
    assert _begin(ledger).seq > later


def test_nothing_is_dropped(ledger: Ledger) -> None:
    ledger.put(5, ledger.forged(5), rehash=False)
    _begin(ledger)
    ledger.append(3)
    assert ledger.report().entries == ENTRIES + 1 + 3
