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
    from operator_sre.store.head import KeptHead

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
# What a run that is interrupted goes on by, and what ends it.
_GOES_ON_BY = frozenset(
    {Kind.REASONING, Kind.WORKFLOW_REQUESTED, Kind.WORKFLOW_STEP, Kind.WORKFLOW_UNDO}
)
_FINISHED = frozenset({Kind.RUN_FINISHED, Kind.WORKFLOW_ENDED})
CHECKPOINT_EVERY = 1000
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Rules:
    """What holds for every entry: the clock, what is redacted and sealed, who signs how often.

    `head` is where the last one is kept outside of the database.
    """

    clock: Clock
    redact: Callable[[Any], Any] = lambda payload: payload
    sealer: Sealer | None = None
    signer: Signer | None = None
    checkpoint_every: int = CHECKPOINT_EVERY
    head: KeptHead | None = None


def decisions_of(rules: Rules) -> Decisions:
    """What is believed of a store under these rules."""
    return Decisions(rules.signer, rules.head.trouble if rules.head is not None else None)


class Transaction:
    """What a change may do: read and write rows, and append entries to the one chain.

    The head is read inside the transaction, so writers in several processes never fork the chain.
    New entries are gathered and inserted together at the end, or before somebody reads them.
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
        """The wall clock as it was when this began: what commits together has one time."""
        return self._at

    def rows(self, sql: str, values: Sequence[object] = ()) -> list[Any]:
        """The rows of one query, as they stand inside of it."""
        self.flush()
        return self.connection.execute(sql, values).fetchall()

    def append(self, draft: Draft, *, follows: bool | None = None) -> Entry:
        """Chain one entry and project it; a key that is there already returns its entry.

        `follows` says whether rows follow from it, where the caller has found that out.
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
        # The driver of SQLite binds these at once, and asks of bytes first what else they could be.
        stored = (seq, bytearray(body), bytearray(digest), bytearray(previous), bytearray(linked))
        columns = (str(kind), self._seconds, draft.ticket, plain(draft.run), plain(draft.actor.id))
        if draft.key:
            self._waiting_keyed.append((*stored, *columns, plain(draft.key)))
        else:
            self._waiting.append(stored + columns)
        if kind in _FINISHED:  # a run that is over needs no secret any more
            self.connection.execute("DELETE FROM sealed WHERE run = ?", (draft.run,))
        elif rules.sealer and payload is not draft.payload and _is_resumed_by(draft, payload):
            box = rules.sealer.seal(msgspec.json.encode(draft.payload), label=str(seq))
            sql = "INSERT INTO sealed (seq, run, box) VALUES (?, ?, ?)"
            self.connection.execute(sql, (seq, draft.run, box))
        if follows is None:
            follows = rows_follow(draft)
        if follows:
            entry = entry_from(seq, body, previous, linked)  # projections go by the stored bytes
            project(self.connection, entry)
        else:
            about = (kind, payload, draft.ticket, draft.run, draft.actor)
            # Without names, which take as long as all the rest of it.
            entry = Entry(seq, self._at, *about, previous.hex(), linked.hex())
        if draft.key:
            self._keys[draft.key] = entry
        if kind in SIGNED or seq % rules.checkpoint_every == 0:
            self.checkpoint()
        return entry

    def checkpoint(self, *, restored: bool = False) -> None:
        """Sign the head, unless it is signed already or there is nobody to sign.

        Not over a decision that nobody has signed; in a store that a person has `restored`, another
        home may have signed it.
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
        """Insert what is gathered, so that statements see it."""
        if self._waiting:
            self.connection.executemany(_INSERT, self._waiting)
            self._waiting.clear()
        if self._waiting_keyed:
            self.connection.executemany(_INSERT_KEYED, self._waiting_keyed)
            self._waiting_keyed.clear()

    def follow(self) -> None:
        """It is committed: what others find from here on was written by us."""
        self.decisions.follow(self._found, self._head)
        if self._rules.head is not None and self._head != self._found:
            self._rules.head.note(self.rows, self._head, at_once=self._signed)

    def mark(self) -> tuple[int, bytes]:
        """A point to come back to when a change is undone; what is gathered by then is inserted."""
        self.flush()
        return self._head

    def undo(self, mark: tuple[int, bytes]) -> None:
        """Forget what was appended since the mark; the database forgets its part itself."""
        self._waiting.clear()
        self._waiting_keyed.clear()
        self._head = mark
        self._keys = {key: one for key, one in self._keys.items() if one.seq <= mark[0]}


def _is_resumed_by(draft: Draft, redacted: Mapping[str, Any]) -> bool:
    """Whether a run that is interrupted goes on by what was redacted, which is kept as it was.

    A result is needed only where something in it may still be done.
    """
    if draft.kind is Kind.TOOL_RESULT:
        result = draft.payload.get("result")
        needed = isinstance(result, Mapping) and result.get("undo") is not None
    else:
        needed = draft.kind in _GOES_ON_BY
    return needed and redacted != draft.payload
