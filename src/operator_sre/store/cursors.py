"""How far followers of the ledger have come."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from operator_protocols.domain.cursor import Cursor
from operator_sre.store.reader import Reader
from operator_sre.store.transaction import Transaction
from operator_sre.store.writer import Writer

__all__ = ["StoredCursors"]

_COLUMNS = "SELECT name, seq, epoch, holder, until, body FROM cursors"


class StoredCursors:
    """Beside the ledger: a cursor says nothing about what happened."""

    def __init__(self, reader: Reader, writer: Writer) -> None:
        self._reader = reader
        self._writer = writer

    async def claim(self, name: str, holder: str, *, lease_s: float) -> Cursor | None:
        """Take it, made at the head of the ledger on first use; None while another holds it."""

        def change(transaction: Transaction) -> Cursor | None:
            connection, now = transaction.connection, transaction.now()
            row = connection.execute(f"{_COLUMNS} WHERE name = ?", (name,)).fetchone()
            known = _cursor(row) if row else None
            if known and known.holder not in ("", holder) and known.until > now:
                return None
            if known is None:
                transaction.flush()  # those who commit with us are before it
                head = connection.execute("SELECT coalesce(max(seq), 0) FROM entries").fetchone()
                known = Cursor(name, head[0], 0, "", now)
            until = now + timedelta(seconds=lease_s)
            taken = Cursor(name, known.seq, known.epoch + 1, holder, until, known.note)
            connection.execute(
                "INSERT INTO cursors (name, seq, epoch, holder, until, body)"
                " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (name) DO UPDATE SET"
                " epoch = excluded.epoch, holder = excluded.holder, until = excluded.until",
                (
                    *(name, taken.seq, taken.epoch, holder, until.timestamp()),
                    json.dumps(dict(taken.note)),
                ),
            )
            return taken

        return await self._writer.write(change)

    async def keep(self, cursor: Cursor, *, lease_s: float) -> bool:
        """Write down where it is and what it remembers; False when somebody else has it by now."""

        def change(transaction: Transaction) -> bool:
            until = transaction.now().timestamp() + lease_s
            done = transaction.connection.execute(
                "UPDATE cursors SET seq = ?, body = ?, until = ?"
                " WHERE name = ? AND epoch = ? AND holder = ?",
                (
                    *(cursor.seq, json.dumps(dict(cursor.note)), until),
                    *(cursor.name, cursor.epoch, cursor.holder),
                ),
            )
            return done.rowcount == 1

        return await self._writer.write(change)

    async def release(self, cursor: Cursor) -> None:
        """Let another take it at once; fine when somebody has."""
        await self._writer.write(
            lambda transaction: transaction.connection.execute(
                "UPDATE cursors SET holder = '', until = 0 WHERE name = ? AND epoch = ?",
                (cursor.name, cursor.epoch),
            )
        )

    def find(self, prefix: str = "") -> Sequence[Cursor]:
        """Those whose name begins so, by name."""
        rows = self._reader.rows(f"{_COLUMNS} ORDER BY name", ())  # there are never many
        return [_cursor(row) for row in rows if row[0].startswith(prefix)]


def _cursor(row: Sequence[Any]) -> Cursor:
    name, seq, epoch, holder, until, body = row
    return Cursor(name, seq, epoch, holder, datetime.fromtimestamp(until, UTC), json.loads(body))
