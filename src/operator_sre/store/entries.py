"""The ledger: entries, checkpoints, sealed payloads, quarantined rows, cursors of followers."""

from __future__ import annotations

import json
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from operator_protocols.domain.entry import Checkpoint, Cursor, Draft, Entry, Kind
from operator_sre.chain import entry_from
from operator_sre.store.repository import Repository, in_transaction, upsert_row

if TYPE_CHECKING:
    from operator_protocols.ports import RawEntry, Sealer
    from operator_sre.store.database import Reader
    from operator_sre.store.transaction import Transaction

__all__ = [
    "StoredCheckpoints",
    "StoredCursors",
    "StoredEntries",
    "StoredJournal",
    "StoredQuarantine",
    "StoredSealed",
]

_COLUMNS = "SELECT seq, body, previous, hash FROM entries"


class StoredJournal(Repository):
    """The writing end of the ledger."""

    def append(self, draft: Draft) -> Coroutine[Any, Any, Entry]:
        """Append an entry durably; a second draft with the same key returns the first entry."""
        return self._writer.append(draft)


class StoredEntries(Repository):
    """Entries, oldest or newest first, of one ticket or run if given."""

    def get(self, seq: int) -> Entry | None:
        """One entry."""
        rows = self._reader.rows(f"{_COLUMNS} WHERE seq = ?", (seq,))
        return entry_from(*rows[0]) if rows else None

    def after(
        self, seq: int, *, limit: int, ticket: int | None = None, run: str = ""
    ) -> Sequence[Entry]:
        """The entries after `seq`, oldest first."""
        where, values = _where(seq, ticket, run)
        rows = self._reader.rows(f"{_COLUMNS} {where} ORDER BY seq LIMIT ?", (*values, limit))
        return [entry_from(*row) for row in rows]

    def newest(
        self, *, limit: int, ticket: int | None = None, run: str = "", kind: Kind | None = None
    ) -> Sequence[Entry]:
        """The newest entries, newest first; of one kind if given."""
        where, values = _where(0, ticket, run)
        if kind is not None:
            where, values = f"{where} AND kind = ?", (*values, kind.value)
        rows = self._reader.rows(f"{_COLUMNS} {where} ORDER BY seq DESC LIMIT ?", (*values, limit))
        return [entry_from(*row) for row in rows]

    def raw(self, seq: int, *, limit: int) -> Sequence[RawEntry]:
        """Stored rows after `seq`: seq, body or None, digest, previous, hash."""
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
        # The second condition lets the planner use the partial index.
        clauses.append(("run = ? AND run <> ''", run))
    text = " AND ".join(clause for clause, _ in clauses)
    return f"WHERE {text}", tuple(value for _, value in clauses)


class StoredCheckpoints(Repository):
    """Checkpoints: signed heads, each linked to the one before."""

    def after(self, seq: int, *, limit: int) -> Sequence[Checkpoint]:
        """Checkpoints after `seq`, oldest first."""
        rows = self._reader.rows(
            "SELECT seq, body, key, signature FROM checkpoints WHERE seq > ? ORDER BY seq LIMIT ?",
            (seq, limit),
        )
        return [Checkpoint(row[0], _bytes(row[1]), str(row[2]), _bytes(row[3])) for row in rows]


def _bytes(value: object) -> bytes:
    """The value as bytes; another type in an edited row will not verify."""
    return value if isinstance(value, bytes) else str(value).encode()


class StoredSealed:
    """The unredacted payloads of a run, sealed for as long as the run needs them."""

    def __init__(self, reader: Reader, sealer: Sealer | None) -> None:
        self._reader = reader
        self._sealer = sealer

    def unseal(self, entries: Sequence[Entry]) -> Sequence[Entry]:
        """The same entries, with the original payload where it was sealed."""
        if self._sealer is None:
            return list(entries)
        payloads: dict[int, Mapping[str, Any]] = {}
        for run in sorted({entry.run for entry in entries if entry.run}):
            sealed = self._reader.rows("SELECT seq, box FROM sealed WHERE run = ?", (run,))
            for seq, box in sealed:
                if opened := self._sealer.open(bytes(box), label=str(seq)):
                    payloads[seq] = msgspec.json.decode(opened)
        return [
            replace(entry, payload=payloads[entry.seq]) if entry.seq in payloads else entry
            for entry in entries
        ]


class StoredQuarantine(Repository):
    """Damaged rows, kept unchanged. No row of the ledger is ever dropped."""

    @in_transaction
    def begin_segment(
        self, transaction: Transaction, damages: Sequence[tuple[int, str, str]]
    ) -> Entry:
        """Keep the damaged rows (seq, kind, detail) and start a segment that names the old head.

        A second call with the same damages does nothing.
        """
        head_seq, head = transaction.mark()
        for seq, kind, detail in damages:
            transaction.connection.execute(
                "INSERT INTO quarantine (seq, body, digest, previous, hash, damage)"
                " SELECT seq, body, digest, previous, hash, ? FROM entries WHERE seq = ?",
                (f"{kind}: {detail}", seq),
            )
        payload = {
            "old_head": {"seq": head_seq, "hash": head.hex()},
            "damages": [
                {"seq": seq, "kind": kind, "detail": detail} for seq, kind, detail in damages
            ],
        }
        key = "segment/" + "/".join(f"{seq}:{kind}" for seq, kind, _ in damages)
        return transaction.append(Draft(Kind.SEGMENT_STARTED, payload, key=key))


_CURSORS = "SELECT name, seq, epoch, holder, until, body FROM cursors"


class StoredCursors(Repository):
    """Positions of followers. They are not projections, because no entry records them."""

    @in_transaction
    def claim(
        self, transaction: Transaction, name: str, holder: str, *, lease_s: float
    ) -> Cursor | None:
        """Claim a cursor, created at the head on first use; None while another process holds it."""
        now, rows = transaction.now(), transaction.rows(f"{_CURSORS} WHERE name = ?", (name,))
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
        rows = self._reader.rows(f"{_CURSORS} ORDER BY name")  # there are never many
        return [_cursor(row) for row in rows if row[0].startswith(prefix)]


def _cursor(row: Sequence[Any]) -> Cursor:
    name, seq, epoch, holder, until, body = row
    return Cursor(name, seq, epoch, holder, datetime.fromtimestamp(until, UTC), json.loads(body))
