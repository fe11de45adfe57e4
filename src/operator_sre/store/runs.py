"""Runs, and the spending on models by day and model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from operator_protocols.domain.budget import Spent
from operator_protocols.domain.entry import Entry
from operator_protocols.domain.run_record import RunRecord
from operator_sre.store.database import Connection, plain
from operator_sre.store.repository import Repository, insert_row, update_row

__all__ = ["StoredRuns", "StoredSpending", "add_spending", "finish_run", "start_run"]

_REASONER = "reasoner"  # the built-in one, which costs nothing
_COLUMNS = "SELECT id, ticket, model, state, started_at, finished_at, summary FROM runs"


class StoredRuns(Repository):
    """Runs of agents."""

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
    run, ticket, model, state, started_at, finished_at, summary = row
    return RunRecord(
        id=run,
        ticket=ticket,
        model=model,
        state=state,
        started_at=datetime.fromisoformat(started_at),
        finished_at=datetime.fromisoformat(finished_at) if finished_at else None,
        summary=summary,
    )


def start_run(connection: Connection, entry: Entry) -> None:
    """Store a started run."""
    row = {
        "id": entry.run,
        "seq": entry.seq,
        "ticket": entry.ticket,
        "model": entry.payload["model"],
        "state": "running",
        "started_at": entry.at.isoformat(),
    }
    insert_row(connection, "runs", row)


def finish_run(connection: Connection, entry: Entry) -> None:
    """Store the end of a run."""
    state, summary = entry.payload["state"], plain(entry.payload["summary"])
    end = {"state": state, "summary": summary, "finished_at": entry.at.isoformat()}
    update_row(connection, "runs", entry.run, end)


class StoredSpending(Repository):
    """Tokens and dollars of all runs, by day (UTC)."""

    def on(self, at: datetime) -> Mapping[str, Spent]:
        """The spending on the day of this time (UTC), by model."""
        rows = self._reader.rows(
            "SELECT model, tokens_in, tokens_out, usd FROM spending WHERE day = ? ORDER BY model",
            (_day(at),),
        )
        return {row[0]: Spent(row[1], row[2], row[3]) for row in rows}


def add_spending(connection: Connection, entry: Entry) -> None:
    """Add the cost of an answer or a summary; most cost nothing and leave no row."""
    spent = entry.payload.get("spent") or {}
    figures = [spent.get(name, 0) for name in ("tokens_in", "tokens_out", "usd")]
    if not any(figures):
        return
    model = entry.payload.get("by")
    if not model or model == _REASONER:
        # A turn that the reasoner took over was paid to the model of the run.
        sql = "SELECT model FROM runs WHERE id = ?"
        row = connection.execute(sql, (plain(entry.run),)).fetchone()
        model = str(row[0]) if row else ""
    connection.execute(
        "INSERT INTO spending (day, model, tokens_in, tokens_out, usd) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT (day, model) DO UPDATE SET tokens_in = spending.tokens_in +"
        " excluded.tokens_in, tokens_out = spending.tokens_out + excluded.tokens_out,"
        " usd = spending.usd + excluded.usd",
        (_day(entry.at), plain(model), int(figures[0]), int(figures[1]), float(figures[2])),
    )


def _day(at: datetime) -> str:
    return at.astimezone(UTC).date().isoformat()
