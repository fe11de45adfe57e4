"""Damage is named with its exact place and kind, whatever was done to the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from operator_sre.chain import GENESIS, chain_hash, digest_of_body
from operator_sre.ledger import Anchor, DamageKind, KeyFile, Report
from operator_sre.store import open_store
from tests.contract.clock import HeldClock
from tests.contract.verified import verified
from tests.ledger.ledgers import ENTRIES, EVERY, Ledger

PLACES = [1, 2, 7, EVERY, EVERY + 1, ENTRIES - 1]


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path)


def test_a_whole_chain_reports_its_length_its_head_and_its_signatures(ledger: Ledger) -> None:
    assert ledger.report() == Report(ENTRIES, ledger.row(ENTRIES)[3].hex(), 3, ())


def test_an_empty_chain_is_whole(tmp_path: Path) -> None:
    store = open_store(tmp_path / "operator.db", clock=HeldClock())
    assert verified(store.entries) == Report(0, GENESIS.hex(), 0, ())
    store.close()


def test_the_walk_tells_how_far_it_is(ledger: Ledger) -> None:
    told: list[int] = []
    store = ledger.open()
    verified(store.entries, progress=told.append)
    store.close()
    assert told == [ENTRIES]


@pytest.mark.parametrize("seq", [*PLACES, ENTRIES])
def test_one_edited_byte_is_found(ledger: Ledger, seq: int) -> None:
    ledger.put(seq, ledger.forged(seq), rehash=False)
    assert ledger.damages() == [(seq, "edited")]


# The first entry has no predecessor but zeros.
HASHES = [
    (seq, column)
    for seq in PLACES
    for column in ("digest", "previous", "hash")
    if (seq, column) != (1, "previous")
]


@pytest.mark.parametrize(("seq", "column"), HASHES)
def test_an_edited_hash_is_found(ledger: Ledger, seq: int, column: str) -> None:
    ledger.sql(f"UPDATE entries SET {column} = zeroblob(32) WHERE seq = ?", seq)  # noqa: S608
    assert ledger.damages()[0] == (seq, "edited")


@pytest.mark.parametrize("seq", PLACES)
def test_an_edit_with_fitting_hashes_breaks_the_link_to_the_next(ledger: Ledger, seq: int) -> None:
    ledger.put(seq, ledger.forged(seq), rehash=True)
    assert (seq, "edited") in ledger.damages()


def test_a_tail_that_was_written_anew_does_not_fit_its_signature(ledger: Ledger) -> None:
    previous = ledger.row(14)[3]
    for seq in range(15, ENTRIES + 1):
        previous = ledger.put(seq, ledger.forged(seq), rehash=True, previous=previous)
    assert ledger.damages() == [(EVERY + 1, "edited"), (EVERY + 1, "edited")]
    assert "11 to 20 were rewritten" in ledger.first().detail


@pytest.mark.parametrize("seq", PLACES)
def test_a_deleted_entry_is_found(ledger: Ledger, seq: int) -> None:
    ledger.sql("DELETE FROM entries WHERE seq = ?", seq)
    assert ledger.damages()[0] == (seq, "deleted")


@pytest.mark.parametrize("seq", PLACES)
def test_a_deleted_entry_is_found_when_the_rest_moves_up(ledger: Ledger, seq: int) -> None:
    ledger.sql("DELETE FROM entries WHERE seq = ?", seq)
    ledger.renumber(seq + 1, by=-1)
    assert ledger.damages()[0] == (seq, "deleted")


@pytest.mark.parametrize("distance", [1, 3])
@pytest.mark.parametrize("seq", PLACES[:-2])
def test_swapped_entries_are_found(ledger: Ledger, seq: int, distance: int) -> None:
    for new, old in ((99, seq), (seq, seq + distance), (seq + distance, 99)):
        ledger.sql("UPDATE entries SET seq = ? WHERE seq = ?", new, old)
    assert ledger.damages()[0] == (seq, "reordered")


@pytest.mark.parametrize("fitting", [True, False])
@pytest.mark.parametrize("seq", [2, 7, EVERY + 1, ENTRIES - 1])
def test_an_inserted_entry_is_found(ledger: Ledger, seq: int, fitting: bool) -> None:
    ledger.renumber(seq, by=1)
    body, before = ledger.forged(1), ledger.row(seq - 1)[3]
    linked = chain_hash(before, digest_of_body(body)) if fitting else bytes(32)
    ledger.sql(
        "INSERT INTO entries (seq, body, digest, previous, hash, kind, at, run, actor)"
        " VALUES (?, ?, ?, ?, ?, 'reasoning', 0, '', '')",
        *(seq, body, digest_of_body(body), before, linked),
    )
    assert ledger.damages()[0] == (seq, "inserted")


@pytest.mark.parametrize("forged", [b"not json", b"[]", b"null", b'{"a": 1}', b"\xff\xfe", b"{}"])
def test_bytes_that_are_no_entry_are_damage_even_with_fitting_hashes(
    ledger: Ledger, forged: bytes
) -> None:
    ledger.put(ENTRIES, forged, rehash=True)
    assert ledger.damages()[0] == (ENTRIES, "edited")


def test_a_value_of_another_type_is_damage(ledger: Ledger) -> None:
    ledger.sql("UPDATE entries SET body = 'text', digest = 7 WHERE seq = 5")
    assert ledger.damages()[0] == (5, "edited")


@pytest.mark.parametrize("left", [0, 3, EVERY, ENTRIES - 1])
def test_a_cut_tail_is_found_by_what_was_signed(ledger: Ledger, left: int) -> None:
    ledger.sql("DELETE FROM entries WHERE seq > ?", left)
    assert (left + 1, "tail_cut") in ledger.damages()


def test_a_tail_cut_with_its_checkpoints_is_found_by_an_anchor(ledger: Ledger) -> None:
    anchor = Anchor(ENTRIES, ledger.row(ENTRIES)[3].hex())
    assert ledger.damages([anchor]) == []
    ledger.sql("DELETE FROM entries WHERE seq > 8")
    ledger.sql("DELETE FROM checkpoints")
    assert ledger.damages() == []
    assert ledger.damages([anchor]) == [(9, "tail_cut")]


def test_a_ledger_written_anew_is_found_by_an_anchor(ledger: Ledger) -> None:
    anchor = Anchor(20, ledger.row(20)[3].hex())
    previous = GENESIS
    for seq in range(1, ENTRIES + 1):
        previous = ledger.put(seq, ledger.forged(seq), rehash=True, previous=previous)
    ledger.sql("DELETE FROM checkpoints")
    assert ledger.damages() == []
    assert ledger.damages([anchor]) == [(20, "edited")]


def test_a_forged_checkpoint_is_named(ledger: Ledger) -> None:
    ledger.sql("UPDATE checkpoints SET signature = zeroblob(64) WHERE seq = 20")
    assert ledger.damages() == [(20, "forged_checkpoint")]


def test_a_checkpoint_with_another_head_is_forged(ledger: Ledger) -> None:
    ledger.sql("UPDATE checkpoints SET body = replace(body, '1', '2') WHERE seq = 10")
    assert (10, "forged_checkpoint") in ledger.damages()


def test_a_checkpoint_of_another_key_is_named(ledger: Ledger, tmp_path: Path) -> None:
    other = KeyFile(tmp_path / "other.key")
    report = ledger.report(key=other.key)
    kinds = {(one.seq, one.kind) for one in report.damages}
    assert kinds == {(seq, DamageKind.WRONG_KEY) for seq in (10, 20, 25)}


def test_a_missing_checkpoint_breaks_the_chain_of_checkpoints(ledger: Ledger) -> None:
    ledger.sql("DELETE FROM checkpoints WHERE seq = 10")
    assert ledger.damages() == [(20, "broken_checkpoint_chain")]


def test_writing_goes_on_behind_unnoticed_damage_and_does_not_hide_it(ledger: Ledger) -> None:
    ledger.put(5, ledger.forged(5), rehash=False)
    ledger.append(15)
    assert ledger.damages() == [(5, "edited")]
    assert ledger.report().entries == ENTRIES + 15
