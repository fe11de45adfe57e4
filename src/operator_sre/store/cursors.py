"""Cursors: the positions of followers of the ledger."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from operator_protocols.domain.cursor import Cursor
from operator_sre.store.repository import Repository, in_transaction, upsert_row

if TYPE_CHECKING:
    from operator_sre.store.transaction import Transaction

__all__ = ["StoredCursors"]

_COLUMNS = "SELECT name, seq, epoch, holder, until, body FROM cursors"


class StoredCursors(Repository):
    """Positions of followers. They are not projections, because no entry records them."""

    @in_transaction
    def claim(
        self, transaction: Transaction, name: str, holder: str, *, lease_s: float
    ) -> Cursor | None:
        """Claim a cursor, created at the head on first use; None while another process holds it."""
        now, rows = transaction.now(), transaction.rows(f"{_COLUMNS} WHERE name = ?", (name,))
        if rows:
            known = _cursor(rows[0])
            if known.holder not in ("", holder) and known.until > now:
                return None
        else:  # the cursor starts behind the entries of this transaction
            ((head,),) = transaction.rows("SELECT coalesce(max(seq), 0) FROM entries")
            known = Cursor(name, head, 0, "", now)
        until = now + timedelta(seconds=lease_s)
        claimed = Cursor(name, known.seq, known.epoch + 1, holder, until, known.note)
        row = {
            "name": name,
            "seq": claimed.seq,
            "epoch": claimed.epoch,
            "holder": holder,
            "until": until.timestamp(),
            "body": json.dumps(dict(claimed.note)),
        }
        upsert_row(transaction.connection, "cursors", "name", row)
        return claimed

    @in_transaction
    def keep(self, transaction: Transaction, cursor: Cursor, *, lease_s: float) -> bool:
        """Store its position and note; False when another process has claimed it."""
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

    @in_transaction
    def release(self, transaction: Transaction, cursor: Cursor) -> None:
        """Release the claim; does nothing when another process has it."""
        transaction.connection.execute(
            "UPDATE cursors SET holder = '', until = 0 WHERE name = ? AND epoch = ?",
            (cursor.name, cursor.epoch),
        )

    def find(self, prefix: str = "") -> Sequence[Cursor]:
        """Cursors whose names have this prefix, by name."""
        rows = self._reader.rows(f"{_COLUMNS} ORDER BY name")  # there are never many
        return [_cursor(row) for row in rows if row[0].startswith(prefix)]


def _cursor(row: Sequence[Any]) -> Cursor:
    name, seq, epoch, holder, until, body = row
    return Cursor(name, seq, epoch, holder, datetime.fromtimestamp(until, UTC), json.loads(body))
