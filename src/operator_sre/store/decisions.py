"""Reads decisions from the ledger, so that an edited row cannot allow anything.

A person with access to the database can edit a row, and append an entry with a correct hash, but
cannot sign. So a decision that allows something counts only when a signed head covers its entry. A
decision that forbids something counts as soon as it is there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from heapq import merge
from typing import TYPE_CHECKING, Any

from operator_protocols.domain.entry import Entry, Kind
from operator_protocols.errors import LedgerDamagedError
from operator_sre.chain import GENESIS, chain_hash, digest_of_body, entry_from, record_from, seq_of
from operator_sre.store.database import Rows, plain
from operator_sre.store.entries import REMEDY
from operator_sre.store.schema import DECIDED

if TYPE_CHECKING:
    from operator_protocols.ports import Signer
    from operator_sre.store.database import Reader

__all__ = ["SIGNED", "UNCONFIRMED", "Decisions", "Rows"]

# The head is signed with each of these, so that the decision counts at once.
SIGNED = frozenset(
    {
        *(Kind.APPROVAL_DECIDED, Kind.CONFIRMATION_DECIDED, Kind.RULE_ADDED, Kind.RULE_REVOKED),
        *(Kind.KILL_SWITCH_ON, Kind.KILL_SWITCH_OFF, Kind.MODE_SET, Kind.MODE_RESET),
        *(Kind.TOKEN_CREATED, Kind.TOKEN_REVOKED, Kind.SESSION_HELD, Kind.SESSION_RESET),
        Kind.CONFIRMATION_SETTLED,
    }
)
UNCONFIRMED = "its record does not match the ledger"
PAGE = 100
PROVEN_MAX = 4096
_COLUMNS = "SELECT seq, body, digest, previous, hash, kind FROM entries"
_LAST_SIGNED = "SELECT seq, body, key, signature FROM checkpoints ORDER BY seq DESC LIMIT 1"
_VERIFY = "Verify the ledger with: operator audit verify"
# The condition of the partial index, so that the planner uses it.
_OF_KIND = f"{_COLUMNS} WHERE kind IN {DECIDED} AND kind = ?"
# Retention purges these with their request or rule.
_PURGED = frozenset(
    {
        *(Kind.APPROVAL_DECIDED, Kind.RULE_REVOKED),
        *(Kind.CONFIRMATION_DECIDED, Kind.CONFIRMATION_SETTLED),
    }
)
log = logging.getLogger(__name__)


class Decisions:
    """Entries with decisions, each checked against its own bytes and a signed head.

    `trouble` returns what else invalidates the whole store, such as a head kept outside of it.
    """

    def __init__(self, signer: Signer | None, trouble: Callable[[Rows], str] | None = None) -> None:
        self._signer = signer
        self._trouble = trouble
        self._whole: str | None = None
        self._remedy = ""
        self._proven: dict[int, bytes] = {}
        self._clean = (0, GENESIS)

    @contextmanager
    def snapshot(self, reader: Reader) -> Iterator[Rows]:
        """Queries that all see the same moment, for a row and the entries that confirm it.

        The check of the whole store comes first, because a head that is kept outside of it may be
        newer than an earlier snapshot.
        """
        with suppress(LedgerDamagedError):  # `newest` raises it again
            self.must_be_whole(reader.rows)
        with reader.snapshot() as rows:
            yield rows

    def must_be_whole(self, rows: Rows) -> None:
        """LedgerDamagedError when a signed entry is missing or changed; checked only once."""
        if self._whole is None:
            self._whole, self._remedy = self._trouble(rows) if self._trouble else "", REMEDY
            if not self._whole and self._signer:
                self._whole, self._remedy = self._missing(rows), _VERIFY
        if self._whole:
            raise LedgerDamagedError(self._whole, next_step=self._remedy)

    def may_sign(self, rows: Rows, head: tuple[int, bytes], *, restored: bool = False) -> bool:
        """Whether this process may sign entries that it appends after this head.

        Operator signs every decision as it writes it. An unsigned decision was written by another
        program, and a signature after it would make it count. A store that a person has `restored`
        may have the signatures of another home, which do not count here.
        """
        if head == self._clean or self._signer is None:
            return True
        seq, linked = 0, GENESIS
        for at, body, key, signature in rows(_LAST_SIGNED, ()):
            record = self._signed_record(at, body, key, signature)
            if record is None and not restored:
                return False
            record = record or record_from(bytes(body))
            seq, linked = at, bytes.fromhex(record["head"])
        if self._clean[0] > seq:
            seq, linked = self._clean
        sql = f"{_COLUMNS} WHERE seq > ? AND seq <= ? ORDER BY seq LIMIT ?"
        while page := rows(sql, (seq, head[0], PAGE)):
            for row in page:
                entry = _read(row)
                seq += 1
                if row[0] != seq or bytes(row[3]) != linked or (entry is None and row[1]):
                    return False
                if entry is not None and entry.kind in SIGNED:
                    return False
                linked = bytes(row[4])
        if (seq, linked) == head:
            self._clean = head
        return (seq, linked) == head

    def follow(self, head: tuple[int, bytes], new: tuple[int, bytes]) -> None:
        """Entries that this process has appended after a clean head are clean."""
        if self._clean == head:
            self._clean = new

    def about(
        self, rows: Rows, kinds: Sequence[Kind], name: str, *, field: str = "id", after: int = 0
    ) -> Iterator[Entry]:
        """The entries of these kinds whose `field` is this name, newest first.

        LedgerDamagedError for an unsigned entry with another name, because an attacker may have
        replaced the name.
        """
        for entry in self.newest(rows, kinds, after=after):
            if plain(str(entry.payload.get(field))) == plain(name):
                yield entry
            elif not self.holds(rows, entry):
                raise _damage(entry.seq)

    def entry(self, rows: Rows, seq: object, kind: Kind) -> Entry | None:
        """The entry of this number and kind, if its hash is correct."""
        return _find_entry(rows, "seq", seq, kind) if type(seq) is int else None

    def entry_by_key(self, rows: Rows, key: str, kind: Kind) -> Entry | None:
        """The entry of this key and kind, if its hash is correct."""
        return _find_entry(rows, "key", key, kind)

    def story(
        self, rows: Rows, seq: int, name: str, begins: Kind, *goes_on: Kind
    ) -> Sequence[Entry]:
        """The first entry of a request or rule and the decisions on it, oldest first.

        Empty when the ledger does not have all of them as they were written.
        """
        first = self.entry(rows, seq, begins)
        if first is None:
            return []
        try:
            return [first, *reversed([*self.about(rows, goes_on, name, after=first.seq)])]
        except LedgerDamagedError:
            return []

    def newest(self, rows: Rows, kinds: Sequence[Kind], *, after: int = 0) -> Iterator[Entry]:
        """The entries of these kinds after `after`, newest first.

        LedgerDamagedError for an unreadable entry, because it may forbid something.
        """
        self.must_be_whole(rows)
        entries = [_of_kind(rows, kind, after) for kind in kinds]
        yield from merge(*entries, key=lambda entry: entry.seq, reverse=True)

    def of_run(self, rows: Rows, run: str, kind: Kind) -> list[Entry]:
        """The readable entries of one kind that a run has written, oldest first."""
        sql = f"{_COLUMNS} WHERE run = ? AND kind = ? ORDER BY seq"
        entries = (_read(row) for row in rows(sql, (run, kind.value)))
        return [entry for entry in entries if entry is not None and entry.kind is kind]

    def holds(self, rows: Rows, entry: Entry) -> bool:
        """True when a head signed by this home covers an entry, so that Operator wrote it."""
        linked = bytes.fromhex(entry.hash)
        if self._proven.get(entry.seq) == linked:
            return True
        if not self._is_covered(rows, entry.seq, linked, bytes.fromhex(entry.previous)):
            log.warning("entry %d is not confirmed by a signature of this home", entry.seq)
            return False
        if len(self._proven) >= PROVEN_MAX:
            self._proven.clear()
        self._proven[entry.seq] = linked
        return True

    def _is_covered(self, rows: Rows, seq: int, linked: bytes, previous: bytes) -> bool:
        before = rows("SELECT hash FROM entries WHERE seq = ?", (seq - 1,))
        if previous != (bytes(before[0][0]) if before else GENESIS if seq == 1 else b""):
            return False
        if self._signer is None:
            return True  # a store without a signer has no signatures to check
        signed = rows(
            "SELECT seq, body, key, signature FROM checkpoints WHERE seq >= ? ORDER BY seq LIMIT 1",
            (seq,),
        )
        if not signed:
            return False
        at = signed[0][0]
        record = self._signed_record(*signed[0])
        if record is None:
            return False
        behind = rows(
            "SELECT seq, digest, previous, hash FROM entries WHERE seq > ? AND seq <= ?"
            " ORDER BY seq",
            (seq, at),
        )
        for number, digest, claimed, following in behind:
            seq += 1
            if number != seq or bytes(claimed) != linked:
                return False
            linked = chain_hash(linked, bytes(digest))
            if linked != bytes(following):
                return False
        return bool(seq == at and linked.hex() == record["head"])

    def _signed_record(self, seq: int, body: Any, key: str, signature: Any) -> Any:
        """The record of a checkpoint, None without a valid signature of this home."""
        assert self._signer is not None
        record = record_from(bytes(body))
        if key != self._signer.key or record["seq"] != seq:
            return None
        # Ed25519 signatures are deterministic, so signing again verifies them.
        return record if self._signer.sign(bytes(body)) == bytes(signature) else None

    def _missing(self, rows: Rows) -> str:
        """A sentence about a signed entry that is missing or changed, or "".

        Checkpoints are chained, and every decision has one, so that none can be removed unnoticed.
        """
        previous = ""
        last: Sequence[Any] = ()
        for last in rows(
            "SELECT checkpoints.seq, checkpoints.body, checkpoints.key, checkpoints.signature,"
            " entries.hash FROM checkpoints LEFT JOIN entries ON entries.seq = checkpoints.seq"
            " ORDER BY checkpoints.seq",
            (),
        ):
            record = record_from(bytes(last[1]))
            if record["previous"] != previous or record["seq"] != last[0]:
                return f"A signed head before entry {last[0]} is missing."
            if last[4] is None or bytes(last[4]).hex() != record["head"]:
                return f"Entry {last[0]} does not match the signed entry."
            previous = sha256(bytes(last[1])).hexdigest()
        if last and self._signed_record(*last[:4]) is None:
            return f"The head at entry {last[0]} was signed by another key than that of this home."
        return ""


def _find_entry(rows: Rows, column: str, value: object, kind: Kind) -> Entry | None:
    stored = rows(f"{_COLUMNS} WHERE {column} = ?", (value,))
    entry = _read(stored[0]) if stored else None
    return entry if entry is not None and entry.kind is kind else None


def _of_kind(rows: Rows, kind: Kind, after: int) -> Iterator[Entry]:
    sql = f"{_OF_KIND} AND seq > ? AND seq < ? ORDER BY seq DESC LIMIT ?"
    before = 2**62
    while page := rows(sql, (kind.value, after, before, PAGE)):
        for row in page:
            entry = _read(row)
            if entry is not None and entry.kind is kind:
                yield entry
            elif row[1] is not None or kind not in _PURGED:
                raise _damage(row[0])
        before = page[-1][0]


def _read(row: Sequence[Any]) -> Entry | None:
    """An entry from a stored row, None when its hash is not correct."""
    seq, body, digest, previous, linked, kind = row
    try:
        body, digest, previous, linked = map(bytes, (body, digest, previous, linked))
    except TypeError:
        return None  # purged, or text instead of bytes
    if digest_of_body(body) != digest or chain_hash(previous, digest) != linked:
        return None
    entry = entry_from(seq, body, previous, linked) if seq_of(body) == seq else None
    return entry if entry is not None and entry.kind == kind else None


def _damage(seq: int) -> LedgerDamagedError:
    return LedgerDamagedError(
        f"Entry {seq} was altered after it was written; its decision is void.",
        next_step=_VERIFY,
    )
