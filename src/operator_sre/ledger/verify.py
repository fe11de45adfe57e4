"""Walking the chain from its first entry to its head."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

from operator_protocols.domain.entry import GENESIS, chain_hash
from operator_protocols.ports import Entries

__all__ = ["Damage", "Report", "verify"]

PAGE = 1000


@dataclass(frozen=True, slots=True)
class Damage:
    """The first entry that is not what it was."""

    seq: int
    kind: str
    detail: str


@dataclass(frozen=True, slots=True)
class Report:
    """What a walk along the chain found."""

    entries: int
    head: str
    damage: Damage | None


def verify(entries: Entries, *, progress: Callable[[int], None] = lambda seq: None) -> Report:
    """Check every entry against its bytes and its predecessor; stops at the first damage."""
    seq, previous, count = 0, GENESIS, 0
    while page := entries.raw(seq, limit=PAGE):
        for at, body, claimed_previous, claimed in page:
            damage = _damage(seq, previous, at, body, claimed_previous, claimed)
            if damage is not None:
                return Report(count, previous, damage)
            seq, previous, count = at, claimed, count + 1
        progress(seq)
    return Report(count, previous, None)


def _damage(
    last: int, previous: str, seq: int, body: bytes, claimed_previous: str, claimed: str
) -> Damage | None:
    if seq != last + 1:
        return Damage(last + 1, "deleted", f"entry {last + 1} is missing; the next is {seq}")
    if chain_hash(claimed_previous, body) != claimed:
        return Damage(seq, "edited", f"the bytes of entry {seq} do not match its hash")
    if claimed_previous != previous:
        return Damage(seq, "reordered", f"entry {seq} does not follow the one before it")
    try:
        record = json.loads(body)
    except ValueError:
        record = None
    if not isinstance(record, dict):
        return Damage(seq, "edited", f"the bytes of entry {seq} are not an entry")
    if record.get("seq") != seq:
        return Damage(seq, "reordered", f"entry {seq} says that it is another one")
    return None
