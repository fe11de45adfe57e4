"""Runs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from operator_protocols.domain.run_record import RunRecord
from operator_sre.store.reader import Reader

__all__ = ["StoredRuns"]

_COLUMNS = "SELECT id, ticket, model, state, started_at, finished_at, summary FROM runs"


class StoredRuns:
    """Runs as the ledger tells them."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def get(self, run: str) -> RunRecord | None:
        """One run."""
        rows = self._reader.rows(f"{_COLUMNS} WHERE id = ?", (run,))
        return _record(rows[0]) if rows else None

    def newest(self, *, limit: int, before: str = "") -> Sequence[RunRecord]:
        """The newest runs, newest first; `before` a run for the next page."""
        where = " WHERE seq < (SELECT seq FROM runs WHERE id = ?)" if before else ""
        values = (before, limit) if before else (limit,)
        rows = self._reader.rows(f"{_COLUMNS}{where} ORDER BY seq DESC LIMIT ?", values)
        return [_record(row) for row in rows]


def _record(row: Sequence[Any]) -> RunRecord:
    return RunRecord(
        id=row[0],
        ticket=row[1],
        model=row[2],
        state=row[3],
        started_at=datetime.fromisoformat(row[4]),
        finished_at=datetime.fromisoformat(row[5]) if row[5] else None,
        summary=row[6],
    )
