"""What can be wrong with a chain, and how to tell one wrong from another. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from operator_sre.chain import GENESIS, chain_hash, digest_of_body, seq_of

if TYPE_CHECKING:
    from operator_protocols.ports import RawEntry

__all__ = ["Damage", "DamageKind", "classify", "own_seq", "sound"]


class DamageKind(StrEnum):
    """What was done to the record."""

    EDITED = "edited"
    INSERTED = "inserted"
    DELETED = "deleted"
    REORDERED = "reordered"
    TAIL_CUT = "tail_cut"
    FORGED_CHECKPOINT = "forged_checkpoint"
    WRONG_KEY = "wrong_key"
    BROKEN_CHECKPOINTS = "broken_checkpoint_chain"


@dataclass(frozen=True, slots=True)
class Damage:
    """One damage, at the entry where it is."""

    seq: int
    kind: DamageKind
    detail: str


def sound(row: RawEntry) -> bool:
    """True when a row agrees with itself: its body is an entry, and its hashes are its own."""
    _, body, digest, previous, linked = row
    if any(type(one) is not bytes for one in (digest, previous, linked)):
        return False
    if body is not None and (type(body) is not bytes or digest_of_body(body) != digest):
        return False
    if body is not None and seq_of(body) is None:
        return False
    return chain_hash(previous, digest) == linked


def classify(
    last: RawEntry | None, row: RawEntry, following: RawEntry | None, *, elsewhere: bool
) -> Damage:
    """Name the damage at a row that does not follow the last one.

    `elsewhere` says whether the entry that belongs here lies at another place.
    """
    expected, head = (last[0] + 1, last[4]) if last else (1, GENESIS)
    seq, own = row[0], own_seq(row)
    if seq > expected:
        return Damage(expected, DamageKind.DELETED, f"entry {expected} is missing")
    if _is_next(following, expected, head) and following is not None and row[3] != following[4]:
        return Damage(seq, DamageKind.INSERTED, f"entry {seq} was put in between")
    if own is not None and own != seq and sound(row):
        return _misplaced(last, row, own, elsewhere=elsewhere)
    if not sound(row) or last is None:
        return Damage(seq, DamageKind.EDITED, f"the bytes of entry {seq} do not match its hash")
    return Damage(
        last[0], DamageKind.EDITED, f"entry {last[0]} is not the one that entry {seq} follows"
    )


def _is_next(row: RawEntry | None, seq: int, head: bytes) -> bool:
    """True when a row is the entry that belongs behind this head."""
    return row is not None and own_seq(row) == seq and row[3] == head


def _misplaced(last: RawEntry | None, row: RawEntry, own: int, *, elsewhere: bool) -> Damage:
    seq = row[0]
    if last is not None and last[3] == row[3]:
        # Both follow the same entry, so the one in between is not of this chain.
        return Damage(last[0], DamageKind.INSERTED, f"entry {last[0]} was put in between")
    if elsewhere:
        return Damage(seq, DamageKind.REORDERED, f"entry {own} lies in the place of entry {seq}")
    if own > seq:
        return Damage(seq, DamageKind.DELETED, f"entry {seq} is missing; {own} took its number")
    return Damage(seq, DamageKind.INSERTED, f"entry {seq} was put in between")


def own_seq(row: RawEntry) -> int | None:
    """The number that the body itself carries."""
    return seq_of(row[1]) if type(row[1]) is bytes else None
