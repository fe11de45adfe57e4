"""The reading end of the ledger on SQLite."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime

from operator_protocols.domain.entry import Actor, Entry, Kind
from operator_sre.store.reader import Reader

__all__ = ["SqliteEntries", "entry_from"]


def entry_from(body: bytes, previous: str, digest: str) -> Entry:
    """An entry from its stored bytes; every field comes from them."""
    record = json.loads(body.decode("utf-8", "surrogatepass"))
    return Entry(
        seq=record["seq"],
        at=datetime.fromisoformat(record["at"]),
        kind=Kind(record["kind"]),
        payload=record["payload"],
        ticket=record["ticket"],
        run=record["run"],
        actor=Actor(**record["actor"]),
        previous=previous,
        hash=digest,
    )


class SqliteEntries:
    """Entries, oldest or newest first, by ticket or run where asked."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def get(self, seq: int) -> Entry | None:
        """One entry."""
        rows = self._reader.rows("SELECT body, previous, hash FROM entries WHERE seq = ?", (seq,))
        return entry_from(*rows[0]) if rows else None

    def after(
        self, seq: int, *, limit: int, ticket: int | None = None, run: str = ""
    ) -> Sequence[Entry]:
        """The entries behind `seq`, oldest first."""
        where, values = _where("seq > ?", seq, ticket, run)
        return self._select(f"{where} ORDER BY seq LIMIT ?", (*values, limit))

    def newest(self, *, limit: int, ticket: int | None = None, run: str = "") -> Sequence[Entry]:
        """The newest entries, newest first."""
        where, values = _where("seq > ?", 0, ticket, run)
        return self._select(f"{where} ORDER BY seq DESC LIMIT ?", (*values, limit))

    def raw(self, seq: int, *, limit: int) -> Sequence[tuple[int, bytes, str, str]]:
        """Stored rows behind `seq` as they lie: seq, bytes, previous hash, hash."""
        return self._reader.rows(
            "SELECT seq, body, previous, hash FROM entries WHERE seq > ? ORDER BY seq LIMIT ?",
            (seq, limit),
        )

    def _select(self, tail: str, values: tuple[object, ...]) -> list[Entry]:
        sql = f"SELECT body, previous, hash FROM entries WHERE {tail}"  # noqa: S608
        rows = self._reader.rows(sql, values)
        return [entry_from(*row) for row in rows]


def _where(first: str, value: int, ticket: int | None, run: str) -> tuple[str, tuple[object, ...]]:
    clauses, values = [first], [value]
    conditions: list[tuple[str, object]] = []
    if ticket is not None:
        conditions.append(("ticket = ?", ticket))
    if run:
        conditions.append(("run = ?", run))
    return (
        " AND ".join([*clauses, *(clause for clause, _ in conditions)]),
        (*values, *(bound for _, bound in conditions)),
    )
