"""What thinking cost, by day and model, as the ledger tells it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from operator_protocols.domain.budget import Spent
from operator_protocols.domain.entry import Entry
from operator_sre.store.database import Connection, plain
from operator_sre.store.reader import Reader

__all__ = ["StoredSpending", "thought"]


class StoredSpending:
    """Tokens and dollars of all runs, by day (UTC)."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def on(self, at: datetime) -> Mapping[str, Spent]:
        """What was spent on the day of this moment, by model."""
        rows = self._reader.rows(
            "SELECT model, tokens_in, tokens_out, usd FROM spending WHERE day = ? ORDER BY model",
            (_day(at),),
        )
        return {row[0]: Spent(row[1], row[2], row[3]) for row in rows}


def thought(connection: Connection, entry: Entry) -> None:
    """An answer or a summary was paid for; most cost nothing and leave no row."""
    spent = entry.payload.get("spent") or {}
    figures = [spent.get(name, 0) for name in ("tokens_in", "tokens_out", "usd")]
    if not any(figures):
        return
    model = entry.payload.get("by") or _mind(connection, entry.run)
    connection.execute(
        "INSERT INTO spending (day, model, tokens_in, tokens_out, usd) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT (day, model) DO UPDATE SET tokens_in = spending.tokens_in +"
        " excluded.tokens_in, tokens_out = spending.tokens_out + excluded.tokens_out,"
        " usd = spending.usd + excluded.usd",
        (_day(entry.at), plain(model), int(figures[0]), int(figures[1]), float(figures[2])),
    )


def _mind(connection: Connection, run: str) -> str:
    row = connection.execute("SELECT model FROM runs WHERE id = ?", (plain(run),)).fetchone()
    return str(row[0]) if row else ""


def _day(at: datetime) -> str:
    return at.astimezone(UTC).date().isoformat()
