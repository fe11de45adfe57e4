"""Whether the chain is whole: every entry, checkpoint and anchor, and what each damage is."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from operator_protocols.errors import UsageError
from operator_sre.chain import GENESIS, chain_hash, digest_of_body, record_from, seq_of
from operator_sre.ledger.keys import signature_holds

if TYPE_CHECKING:
    from operator_protocols.domain.entry import Checkpoint
    from operator_protocols.ports import Checkpoints, RawEntry

__all__ = [
    "Anchor",
    "Damage",
    "DamageKind",
    "Report",
    "Rows",
    "add_anchor",
    "anchor_line",
    "classify",
    "own_seq",
    "read_anchors",
    "sound",
    "verify",
]


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
    if any(type(value) is not bytes for value in (digest, previous, linked)):
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
    between = Damage(seq, DamageKind.INSERTED, f"entry {seq} was inserted")
    is_next = following is not None and own_seq(following) == expected and following[3] == head
    if is_next and following is not None and row[3] != following[4]:
        return between
    if own is not None and own != seq and sound(row):
        if last is not None and last[3] == row[3]:
            # Both follow the same entry, so the one in between is not of this chain.
            return Damage(last[0], DamageKind.INSERTED, f"entry {last[0]} was inserted")
        if elsewhere:
            why = f"entry {own} is in the place of entry {seq}"
            return Damage(seq, DamageKind.REORDERED, why)
        why = f"entry {seq} is missing; {own} took its number"
        return Damage(seq, DamageKind.DELETED, why) if own > seq else between
    if not sound(row) or last is None:
        return Damage(seq, DamageKind.EDITED, f"the bytes of entry {seq} do not match its hash")
    return Damage(
        last[0], DamageKind.EDITED, f"entry {last[0]} is not the predecessor of entry {seq}"
    )


def own_seq(row: RawEntry) -> int | None:
    """The number that the body itself carries."""
    return seq_of(row[1]) if type(row[1]) is bytes else None


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
    wanted: frozenset[int]
    last: RawEntry | None = None
    count: int = 0
    hashes: dict[int, bytes] = field(default_factory=dict)


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
    wanted = frozenset([*(mark.seq for mark in signed), *(mark.seq for mark in anchors)])
    walk = _Walk(entries, wanted)
    damages: list[Damage] = []
    seq = 0
    while page := entries.raw(seq, limit=PAGE):
        broken = _follow(walk, page)
        if broken is not None:
            row = page[broken]
            behind = page[broken + 1 :] or entries.raw(row[0], limit=1)
            missing = (walk.last[0] if walk.last else 0) + 1
            elsewhere = any(
                type(row[1]) is bytes and f'"seq":{missing},'.encode() in row[1] for row in behind
            )
            following = behind[0] if behind else None
            damages.append(classify(walk.last, row, following, elsewhere=elsewhere))
            _catch_up(walk, row[0])
        assert walk.last is not None
        seq = walk.last[0]
        progress(seq)
    damages += _checkpoint_damages(signed, walk, trusted_key)
    last = walk.last[0] if walk.last else 0
    for anchor in anchors:
        found = walk.hashes.get(anchor.seq)
        if anchor.seq > last:
            why = f"entry {anchor.seq} was anchored, but the log ends at {last}"
            damages.append(Damage(last + 1, DamageKind.TAIL_CUT, why))
        elif found is not None and found.hex() != anchor.hash:
            why = f"entry {anchor.seq} was anchored with another hash"
            damages.append(Damage(anchor.seq, DamageKind.EDITED, why))
    damages.sort(key=lambda damage: damage.seq)
    return Report(
        entries=walk.count,
        head=(walk.last[4] if walk.last else GENESIS).hex(),
        checkpoints=len(signed),
        damages=tuple(damages),
    )


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


def _catch_up(walk: _Walk, seq: int) -> None:
    """Go on at the first row, from `seq` on, that is in its place and that the next one follows.

    Where there is none, the rest belongs to the damage that was named.
    """
    waiting: RawEntry | None = None
    at = seq - 1
    while page := walk.entries.raw(at, limit=PAGE):
        for row in page:
            if waiting is not None and row[3] == waiting[4]:
                if waiting[0] in walk.wanted:
                    walk.hashes[waiting[0]] = waiting[4]
                return
            waiting = row if sound(row) and own_seq(row) in (None, row[0]) else None
            walk.count += 1
            walk.last = row
        at = page[-1][0]
    if waiting is not None:
        walk.hashes[waiting[0]] = waiting[4]


def _checkpoint_damages(
    signed: Sequence[Checkpoint], walk: _Walk, trusted_key: str
) -> Iterator[Damage]:
    last = walk.last[0] if walk.last else 0
    previous, covered = "", 0
    for checkpoint in signed:
        before, previous = previous, sha256(checkpoint.body).hexdigest()
        if checkpoint.key != trusted_key:
            yield Damage(
                checkpoint.seq,
                DamageKind.WRONG_KEY,
                f"checkpoint {checkpoint.seq} was signed with another key",
            )
            continue
        if not signature_holds(checkpoint.key, checkpoint.body, checkpoint.signature):
            why = f"the signature of checkpoint {checkpoint.seq} is not valid"
            yield Damage(checkpoint.seq, DamageKind.FORGED_CHECKPOINT, why)
            continue
        record, found = record_from(checkpoint.body), walk.hashes.get(checkpoint.seq)
        if record["seq"] != checkpoint.seq or record["previous"] != before:
            why = f"checkpoint {checkpoint.seq} does not follow the one before it"
            yield Damage(checkpoint.seq, DamageKind.BROKEN_CHECKPOINTS, why)
        elif checkpoint.seq > last:
            why = f"checkpoint {checkpoint.seq} was signed, but the log ends at {last}"
            yield Damage(last + 1, DamageKind.TAIL_CUT, why)
        elif found is not None and found.hex() != record["head"]:
            span = f"entries {covered + 1} to {checkpoint.seq}"
            why = f"{span} were rewritten; their hash does not match the signed checkpoint"
            yield Damage(covered + 1, DamageKind.EDITED, why)
        else:
            covered = checkpoint.seq


def anchor_line(anchor: Anchor, *, at: str, key: str) -> str:
    """One line of JSON that names a head."""
    return json.dumps({"seq": anchor.seq, "hash": anchor.hash, "at": at, "key": key})


def add_anchor(path: Path, line: str) -> None:
    """Append a line, durable when this returns; what is there already stays."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    with os.fdopen(descriptor, "ab") as file:
        file.write(line.encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


def read_anchors(path: Path) -> Sequence[Anchor]:
    """All anchors of a file. UsageError names the line that is none."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise UsageError(
            f"The anchors {str(path)!r} cannot be read: {why}.",
            next_step="Write them with: operator audit anchor --file FILE",
        ) from error
    found = []
    for number, line in enumerate(lines, start=1):
        try:
            record = json.loads(line)
            found.append(Anchor(int(record["seq"]), str(record["hash"])))
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(f"Line {number} of {str(path)!r} is not an anchor.") from error
    return found
