"""The reading end of the ledger."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from operator_sre.chain import entry_from

if TYPE_CHECKING:
    from operator_protocols.domain.entry import Entry, Kind
    from operator_protocols.ports import RawEntry
    from operator_sre.store.reader import Reader

__all__ = ["StoredEntries"]

_COLUMNS = "SELECT seq, body, previous, hash FROM entries"


class StoredEntries:
    """Entries, oldest or newest first, by ticket or run where asked."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def get(self, seq: int) -> Entry | None:
        """One entry."""
        rows = self._reader.rows(f"{_COLUMNS} WHERE seq = ?", (seq,))
        return entry_from(*rows[0]) if rows else None

    def after(
        self, seq: int, *, limit: int, ticket: int | None = None, run: str = ""
    ) -> Sequence[Entry]:
        """The entries behind `seq`, oldest first."""
        where, values = _where(seq, ticket, run)
        rows = self._reader.rows(f"{_COLUMNS} {where} ORDER BY seq LIMIT ?", (*values, limit))
        return [entry_from(*row) for row in rows]

    def newest(
        self, *, limit: int, ticket: int | None = None, run: str = "", kind: Kind | None = None
    ) -> Sequence[Entry]:
        """The newest entries, newest first; of one kind where it is named."""
        where, values = _where(0, ticket, run)
        if kind is not None:
            where, values = f"{where} AND kind = ?", (*values, kind.value)
        rows = self._reader.rows(f"{_COLUMNS} {where} ORDER BY seq DESC LIMIT ?", (*values, limit))
        return [entry_from(*row) for row in rows]

    def raw(self, seq: int, *, limit: int) -> Sequence[RawEntry]:
        """Stored rows behind `seq` as they lie: seq, body or None, digest, previous, hash."""
        return self._reader.rows(
            "SELECT seq, body, digest, previous, hash FROM entries WHERE seq > ?"
            " ORDER BY seq LIMIT ?",
            (seq, limit),
        )


def _where(seq: int, ticket: int | None, run: str) -> tuple[str, tuple[object, ...]]:
    clauses: list[tuple[str, object]] = [("seq > ?", seq)]
    if ticket is not None:
        clauses.append(("ticket = ?", ticket))
    if run:
        # Said twice, because the index leaves out what belongs to no run.
        clauses.append(("run = ? AND run <> ''", run))
    text = " AND ".join(clause for clause, _ in clauses)
    return f"WHERE {text}", tuple(value for _, value in clauses)
