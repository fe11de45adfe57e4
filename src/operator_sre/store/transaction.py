"""A Transaction appends to the chain and keeps the projections in step with it."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from operator_protocols.domain.entry import Draft, Entry, Kind
from operator_sre.chain import GENESIS, body_at, chain_hash, digest_of_body, entry_from
from operator_sre.store.database import Connection, plain
from operator_sre.store.decisions import SIGNED, Decisions
from operator_sre.store.projections import project, rows_follow

if TYPE_CHECKING:
    from operator_protocols.ports import Clock, Sealer, Signer
    from operator_sre.store.entries import KeptHead

__all__ = ["CHECKPOINT_EVERY", "Rules", "Transaction", "decisions_of"]

_INSERT = (
    "INSERT INTO entries (seq, body, digest, previous, hash, kind, at, ticket, run, actor)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_INSERT_KEYED = (
    "INSERT INTO entries (seq, body, digest, previous, hash, kind, at, ticket, run, actor, key)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_HEAD = "SELECT seq, hash FROM entries ORDER BY seq DESC LIMIT 1"
Row = tuple[object, ...]
# The entries that an interrupted run resumes from, and the entries that end it.
_GOES_ON_BY = frozenset(
    {Kind.REASONING, Kind.WORKFLOW_REQUESTED, Kind.WORKFLOW_STEP, Kind.WORKFLOW_UNDO}
)
_FINISHED = frozenset({Kind.RUN_FINISHED, Kind.WORKFLOW_ENDED})
CHECKPOINT_EVERY = 1000
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Rules:
    """The clock, redaction, sealing and signing for every entry.

    `head` keeps the last head outside of the database.
    """

    clock: Clock
    redact: Callable[[Any], Any] = lambda payload: payload
    sealer: Sealer | None = None
    signer: Signer | None = None
    checkpoint_every: int = CHECKPOINT_EVERY
    head: KeptHead | None = None


def decisions_of(rules: Rules) -> Decisions:
    """The decisions of a store under these rules."""
    return Decisions(rules.signer, rules.head.trouble if rules.head is not None else None)


class Transaction:
    """A change: reads and writes rows, and appends entries to the chain.

    The head is read inside the transaction, so writers in several processes never fork the chain.
    New entries are collected and inserted together at the end, or before the next query.
    """

    def __init__(
        self, connection: Connection, rules: Rules, decisions: Decisions | None = None
    ) -> None:
        self.connection = connection
        self.decisions = decisions or decisions_of(rules)
        self._rules = rules
        self._waiting: list[Row] = []
        self._waiting_keyed: list[Row] = []
        self._keys: dict[str, Entry] = {}
        row = connection.execute(_HEAD).fetchone()
        self._head: tuple[int, bytes] = (row[0], bytes(row[1])) if row else (0, GENESIS)
        self._found = self._head
        self._signed = False
        self._at = rules.clock.now()
        self._stamp, self._seconds = self._at.isoformat(), self._at.timestamp()
        self.appended = 0

    def now(self) -> datetime:
        """The time at which the transaction began, the same for all its entries."""
        return self._at

    def rows(self, sql: str, values: Sequence[object] = ()) -> list[Any]:
        """The rows of one query inside the transaction."""
        self.flush()
        return self.connection.execute(sql, values).fetchall()

    def append(self, draft: Draft, *, follows: bool | None = None) -> Entry:
        """Append and project one entry; an existing key returns its entry.

        `follows` tells whether the entry has projections, if the caller knows it already.
        """
        if draft.key:
            known = self._keys.get(draft.key)
            if known is not None:
                return known
            sql = "SELECT seq, body, previous, hash FROM entries WHERE key = ?"
            row = self.connection.execute(sql, (draft.key,)).fetchone()
            if row is not None:
                return entry_from(*row)
        last, previous = self._head
        seq, rules, kind = last + 1, self._rules, draft.kind
        payload = rules.redact(draft.payload)
        body = body_at(seq, self._stamp, draft, payload)
        digest = digest_of_body(body)
        linked = chain_hash(previous, digest)
        self._head = (seq, linked)
        self.appended += 1
        # The driver of SQLite binds a bytearray faster than bytes.
        stored = (seq, bytearray(body), bytearray(digest), bytearray(previous), bytearray(linked))
        columns = (str(kind), self._seconds, draft.ticket, plain(draft.run), plain(draft.actor.id))
        if draft.key:
            self._waiting_keyed.append((*stored, *columns, plain(draft.key)))
        else:
            self._waiting.append(stored + columns)
        if kind in _FINISHED:  # a finished run needs its secrets no more
            self.connection.execute("DELETE FROM sealed WHERE run = ?", (draft.run,))
        elif rules.sealer and payload is not draft.payload and _is_resumed_by(draft, payload):
            box = rules.sealer.seal(msgspec.json.encode(draft.payload), label=str(seq))
            sql = "INSERT INTO sealed (seq, run, box) VALUES (?, ?, ?)"
            self.connection.execute(sql, (seq, draft.run, box))
        if follows is None:
            follows = rows_follow(draft)
        if follows:
            entry = entry_from(seq, body, previous, linked)  # projections use the stored bytes
            project(self.connection, entry)
        else:
            about = (kind, payload, draft.ticket, draft.run, draft.actor)
            # Keyword arguments would take as long as all the rest of it.
            entry = Entry(seq, self._at, *about, previous.hex(), linked.hex())
        if draft.key:
            self._keys[draft.key] = entry
        # A proof relaxes limits, so that its signature must not come late.
        if kind in SIGNED or kind is Kind.PROOF or seq % rules.checkpoint_every == 0:
            self.checkpoint()
        return entry

    def checkpoint(self, *, restored: bool = False) -> None:
        """Sign the head, unless it is signed already or the store has no signer.

        An unsigned decision before it prevents that; in a store that a person has `restored`,
        another home may have signed it.
        """
        if self._rules.signer is not None and self._head[0]:
            self.flush()
            if not self.decisions.may_sign(self.rows, self._found, restored=restored):
                log.warning("the head is not signed: another program wrote to the ledger")
                return
            self._signed = True
            seq, head = self._head
            last = self.rows("SELECT seq, body FROM checkpoints ORDER BY seq DESC LIMIT 1")
            if last and last[0][0] >= seq:
                return
            previous = hashlib.sha256(bytes(last[0][1])).hexdigest() if last else ""
            record = {"seq": seq, "head": head.hex(), "at": self._stamp, "previous": previous}
            body = msgspec.json.encode(record, order="sorted")
            self.connection.execute(
                "INSERT INTO checkpoints (seq, body, key, signature) VALUES (?, ?, ?, ?)",
                (seq, body, self._rules.signer.key, self._rules.signer.sign(body)),
            )

    def flush(self) -> None:
        """Insert the collected entries, so that statements see them."""
        if self._waiting:
            self.connection.executemany(_INSERT, self._waiting)
            self._waiting.clear()
        if self._waiting_keyed:
            self.connection.executemany(_INSERT_KEYED, self._waiting_keyed)
            self._waiting_keyed.clear()

    def follow(self) -> None:
        """Note after the commit that this process wrote the new entries."""
        self.decisions.follow(self._found, self._head)
        if self._rules.head is not None and self._head != self._found:
            self._rules.head.note(self.rows, self._head, at_once=self._signed)

    def mark(self) -> tuple[int, bytes]:
        """Flush, and return the head for `undo`."""
        self.flush()
        return self._head

    def undo(self, mark: tuple[int, bytes]) -> None:
        """Forget the entries since the mark; the database rolls back its rows itself."""
        self._waiting.clear()
        self._waiting_keyed.clear()
        self._head = mark
        self._keys = {key: entry for key, entry in self._keys.items() if entry.seq <= mark[0]}


def _is_resumed_by(draft: Draft, redacted: Mapping[str, Any]) -> bool:
    """Whether an interrupted run needs the original of a redacted payload to resume.

    A result is needed only for an undo that is still possible.
    """
    if draft.kind is Kind.TOOL_RESULT:
        result = draft.payload.get("result")
        needed = isinstance(result, Mapping) and result.get("undo") is not None
    else:
        needed = draft.kind in _GOES_ON_BY
    return needed and redacted != draft.payload
