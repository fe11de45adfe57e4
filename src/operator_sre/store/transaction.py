"""A Transaction appends to the chain and keeps the projections in step with it."""

from __future__ import annotations

import sqlite3
from datetime import datetime

from operator_protocols.domain.entry import (
    GENESIS,
    Draft,
    Entry,
    canonical_bytes,
    chain_hash,
)
from operator_protocols.ports import Clock
from operator_sre.store.entries import entry_from
from operator_sre.store.projections import project

__all__ = ["Transaction"]


class Transaction:
    """What a change may do: read and write rows, and append entries to the one chain.

    The head is read inside the transaction, so writers in several processes never fork the chain.
    """

    def __init__(self, connection: sqlite3.Connection, clock: Clock) -> None:
        self.connection = connection
        self._clock = clock
        row = connection.execute(
            "SELECT seq, hash FROM entries ORDER BY seq DESC LIMIT 1"
        ).fetchone()
        self.head: tuple[int, str] = (row[0], row[1]) if row else (0, GENESIS)

    def now(self) -> datetime:
        """The wall clock."""
        return self._clock.now()

    def append(self, draft: Draft) -> Entry:
        """Chain one entry and project it; a key that is there already returns its entry."""
        if draft.key and (known := self._by_key(draft.key)):
            return known
        seq, previous = self.head[0] + 1, self.head[1]
        body = canonical_bytes(seq=seq, at=self._clock.now(), draft=draft)
        digest = chain_hash(previous, body)
        self.connection.execute(
            "INSERT INTO entries (seq, body, previous, hash, kind, ticket, run, key)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (seq, body, previous, digest, draft.kind, draft.ticket, draft.run, draft.key or None),
        )
        entry = entry_from(body, previous, digest)
        project(self.connection, entry)
        self.head = (seq, digest)
        return entry

    def _by_key(self, key: str) -> Entry | None:
        row = self.connection.execute(
            "SELECT body, previous, hash FROM entries WHERE key = ?", (key,)
        ).fetchone()
        return entry_from(*row) if row else None
