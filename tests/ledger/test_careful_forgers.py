"""Forgers who know the format: what they do to the file is damage, and never stops the check."""

from __future__ import annotations

from pathlib import Path

import pytest

from operator_sre.chain import chain_hash, digest_of_body
from tests.ledger.ledgers import ENTRIES, EVERY, Ledger


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path)


@pytest.mark.parametrize("purged", [False, True])
@pytest.mark.parametrize("column", ["digest", "previous", "hash"])
def test_a_hash_that_is_text_is_damage_and_the_check_goes_on(
    ledger: Ledger, column: str, purged: bool
) -> None:
    if purged:
        ledger.sql("UPDATE entries SET body = NULL WHERE seq = 5")
    ledger.sql(f"UPDATE entries SET {column} = 'text' WHERE seq = 5")  # noqa: S608
    ledger.put(15, ledger.forged(15), rehash=False)
    assert ledger.damages() == [(5, "edited"), (15, "edited")]
    assert ledger.report().entries == ENTRIES


@pytest.mark.parametrize("purged", [5, 6, 7])
def test_a_purged_entry_beside_a_damage_is_no_second_damage(ledger: Ledger, purged: int) -> None:
    ledger.sql("UPDATE entries SET body = NULL WHERE seq = ?", purged)
    assert ledger.damages() == []
    ledger.sql("UPDATE entries SET hash = zeroblob(32) WHERE seq = 5")
    assert ledger.damages() == [(5, "edited")]


def test_a_purged_entry_with_another_number_is_missing_from_its_place(ledger: Ledger) -> None:
    ledger.sql("UPDATE entries SET body = NULL, seq = 30 WHERE seq = ?", ENTRIES)
    ledger.sql("DELETE FROM checkpoints WHERE seq = ?", ENTRIES)
    assert ledger.damages() == [(ENTRIES, "deleted")]


@pytest.mark.parametrize("seq", [2, 7, EVERY + 1, ENTRIES - 1])
def test_an_inserted_entry_is_named_when_its_body_has_the_right_number(
    ledger: Ledger, seq: int
) -> None:
    ledger.renumber(seq, by=1)
    before = ledger.row(seq - 1)[3]
    body = ledger.forged(seq + 1)  # the true entry of this number, which moved up
    digest = digest_of_body(body)
    ledger.sql(
        "INSERT INTO entries (seq, body, digest, previous, hash, kind, at, run, actor)"
        " VALUES (?, ?, ?, ?, ?, 'reasoning', 0, '', '')",
        *(seq, body, digest, before, chain_hash(before, digest)),
    )
    assert ledger.damages()[0] == (seq, "inserted")


def test_a_first_entry_that_follows_another_chain_is_damage(ledger: Ledger) -> None:
    ledger.put(1, ledger.row(1)[0], rehash=True, previous=b"x" * 32)
    assert ledger.damages()[0] == (1, "edited")


def test_a_copy_of_an_earlier_entry_is_no_proof_that_another_was_deleted(ledger: Ledger) -> None:
    body, digest, previous, linked = ledger.row(3)
    ledger.sql(
        "UPDATE entries SET body = ?, digest = ?, previous = ?, hash = ? WHERE seq = 7",
        *(body, digest, previous, linked),
    )
    assert ledger.damages() == [(7, "inserted")]


def test_damages_are_reported_in_the_order_of_the_ledger(ledger: Ledger) -> None:
    ledger.put(15, ledger.forged(15), rehash=False)
    ledger.sql("UPDATE checkpoints SET signature = zeroblob(64) WHERE seq = 10")
    assert ledger.damages() == [(10, "forged_checkpoint"), (15, "edited")]


def test_what_follows_a_damage_without_a_successor_belongs_to_it(ledger: Ledger) -> None:
    ledger.put(5, ledger.forged(5), rehash=False)
    ledger.put(6, ledger.row(6)[0], rehash=True, previous=b"x" * 32)
    assert ledger.damages() == [(5, "edited")]
    ledger.put(15, ledger.forged(15), rehash=False)
    assert ledger.damages() == [(5, "edited"), (15, "edited")]


def test_the_entry_behind_a_damage_is_still_compared_with_its_signature(ledger: Ledger) -> None:
    previous = b"x" * 32
    for seq in range(EVERY, ENTRIES + 1):
        previous = ledger.put(seq, ledger.forged(seq), rehash=True, previous=previous)
    ledger.sql("DELETE FROM checkpoints WHERE seq > ?", EVERY)
    details = [damage.detail for damage in ledger.report().damages]
    assert any(f"1 to {EVERY} were rewritten" in detail for detail in details)
