"""Walking the chain from its first entry to its head, and its checkpoints beside it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Protocol

from operator_sre.chain import GENESIS, record_from, seq_of
from operator_sre.ledger.damage import Damage, DamageKind, classify, own_seq, sound
from operator_sre.ledger.signing import signature_holds

if TYPE_CHECKING:
    from operator_protocols.domain.checkpoint import Checkpoint
    from operator_protocols.ports import Checkpoints, RawEntry

__all__ = ["Anchor", "Report", "Rows", "verify"]

PAGE = 5_000
CHECKPOINTS_MAX = 1_000_000


class Rows(Protocol):
    """Stored rows, oldest first: a ledger, or a bundle of one."""

    def raw(self, seq: int, *, limit: int) -> Sequence[RawEntry]:
        """Rows behind `seq` as they lie."""
        ...


@dataclass(frozen=True, slots=True)
class Anchor:
    """A head that was written down elsewhere."""

    seq: int
    hash: str


@dataclass(frozen=True, slots=True)
class Report:
    """What a walk along the chain found; `head` is the hash of the last entry."""

    entries: int
    head: str
    checkpoints: int
    damages: tuple[Damage, ...]

    @property
    def whole(self) -> bool:
        """True when nothing is damaged."""
        return not self.damages


@dataclass(slots=True)
class _Walk:
    entries: Rows
    progress: Callable[[int], None]
    wanted: frozenset[int]
    last: RawEntry | None = None
    count: int = 0
    hashes: dict[int, bytes] = field(default_factory=dict)
    damages: list[Damage] = field(default_factory=list)


def verify(
    entries: Rows,
    checkpoints: Checkpoints,
    *,
    trusted_key: str,
    anchors: Sequence[Anchor] = (),
    progress: Callable[[int], None] = lambda seq: None,
) -> Report:
    """Check every entry against its bytes and its predecessor, every signature, every anchor.

    Behind a damage the walk goes on, so that a second one is found as well.
    """
    signed = checkpoints.after(0, limit=CHECKPOINTS_MAX)
    wanted = frozenset([*(one.seq for one in signed), *(one.seq for one in anchors)])
    walk = _Walk(entries, progress, wanted)
    _walk(walk)
    damages = [*walk.damages, *_checkpoint_damages(signed, walk, trusted_key)]
    damages += _anchor_damages(anchors, walk)
    damages.sort(key=lambda damage: damage.seq)
    return Report(
        entries=walk.count,
        head=(walk.last[4] if walk.last else GENESIS).hex(),
        checkpoints=len(signed),
        damages=tuple(damages),
    )


def _walk(walk: _Walk) -> None:
    seq = 0
    while page := walk.entries.raw(seq, limit=PAGE):
        broken = _follow(walk, page)
        if broken is not None:
            walk.damages.append(_name(walk, page, broken))
            _catch_up(walk, page[broken][0])
        assert walk.last is not None
        seq = walk.last[0]
        walk.progress(seq)


def _follow(walk: _Walk, page: Sequence[RawEntry]) -> int | None:
    """Walk over a page; the index of the first row that does not follow, or None.

    This loop is the speed of `verify`, so it does nothing twice and calls nothing it can avoid.
    """
    at, previous = (walk.last[0], walk.last[4]) if walk.last else (0, GENESIS)
    wanted, hashes = walk.wanted, walk.hashes
    index = 0
    try:
        for seq, body, digest, claimed, linked in page:
            at += 1
            if (
                seq != at
                or claimed != previous
                or (body is not None and (sha256(body).digest() != digest or seq_of(body) != at))
                or sha256(previous + digest).digest() != linked
            ):
                break
            if seq in wanted:
                hashes[seq] = linked
            previous = linked
            index += 1
    except TypeError:
        pass  # a value that is no bytes at all: this row was tampered with
    walk.last = page[index - 1] if index else walk.last
    walk.count += index
    return None if index == len(page) else index


def _name(walk: _Walk, page: Sequence[RawEntry], broken: int) -> Damage:
    row = page[broken]
    behind = page[broken + 1 :] or walk.entries.raw(row[0], limit=1)
    missing = (walk.last[0] if walk.last else 0) + 1
    elsewhere = any(
        type(one[1]) is bytes and f'"seq":{missing},'.encode() in one[1] for one in behind
    )
    return classify(walk.last, row, behind[0] if behind else None, elsewhere=elsewhere)


def _catch_up(walk: _Walk, seq: int) -> None:
    """Go on at the first row, from `seq` on, that is in its place and that the next one follows.

    Where there is none, the rest belongs to the damage that was named.
    """
    waiting: RawEntry | None = None
    at = seq - 1
    while page := walk.entries.raw(at, limit=PAGE):
        for row in page:
            if waiting is not None and row[3] == waiting[4]:
                _stand_at(walk, waiting)
                return
            waiting = row if sound(row) and own_seq(row) in (None, row[0]) else None
            walk.count += 1
            walk.last = row
        at = page[-1][0]
    if waiting is not None:
        walk.hashes[waiting[0]] = waiting[4]


def _stand_at(walk: _Walk, row: RawEntry) -> None:
    walk.last = row
    if row[0] in walk.wanted:
        walk.hashes[row[0]] = row[4]


def _checkpoint_damages(
    signed: Sequence[Checkpoint], walk: _Walk, trusted_key: str
) -> list[Damage]:
    damages: list[Damage] = []
    previous = ""
    last = walk.last[0] if walk.last else 0
    covered = 0
    for one in signed:
        damage = _checkpoint_damage(one, walk, trusted_key, previous, last, covered)
        if damage is not None:
            damages.append(damage)
        else:
            covered = one.seq
        previous = hashlib.sha256(one.body).hexdigest()
    return damages


def _checkpoint_damage(
    one: Checkpoint, walk: _Walk, trusted_key: str, previous: str, last: int, covered: int
) -> Damage | None:
    if one.key != trusted_key:
        return Damage(one.seq, DamageKind.WRONG_KEY, f"checkpoint {one.seq} has another key")
    if not signature_holds(one.key, one.body, one.signature):
        why = f"the signature of checkpoint {one.seq} does not hold"
        return Damage(one.seq, DamageKind.FORGED_CHECKPOINT, why)
    record = record_from(one.body)
    if record["seq"] != one.seq or record["previous"] != previous:
        why = f"checkpoint {one.seq} does not follow the one before it"
        return Damage(one.seq, DamageKind.BROKEN_CHECKPOINTS, why)
    if one.seq > last:
        why = f"checkpoint {one.seq} was signed, and the log ends at {last}"
        return Damage(last + 1, DamageKind.TAIL_CUT, why)
    found = walk.hashes.get(one.seq)
    if found is not None and found.hex() != record["head"]:
        why = f"entries {covered + 1} to {one.seq} were written anew; their signed head is another"
        return Damage(covered + 1, DamageKind.EDITED, why)
    return None


def _anchor_damages(anchors: Sequence[Anchor], walk: _Walk) -> list[Damage]:
    last = walk.last[0] if walk.last else 0
    damages = []
    for anchor in anchors:
        found = walk.hashes.get(anchor.seq)
        if anchor.seq > last:
            why = f"entry {anchor.seq} was anchored, and the log ends at {last}"
            damages.append(Damage(last + 1, DamageKind.TAIL_CUT, why))
        elif found is not None and found.hex() != anchor.hash:
            why = f"entry {anchor.seq} was anchored with another hash"
            damages.append(Damage(anchor.seq, DamageKind.EDITED, why))
    return damages
