"""The ledger: entries, checkpoints, sealed payloads, quarantined rows, cursors of followers."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from operator_protocols.domain.entry import Checkpoint, Cursor, Draft, Entry, Kind
from operator_protocols.errors import StoreError
from operator_sre.chain import entry_from
from operator_sre.store.repository import Repository, in_transaction, upsert_row

if TYPE_CHECKING:
    from operator_protocols.ports import Clock, RawEntry, Sealer, Signer
    from operator_sre.store.database import Reader
    from operator_sre.store.decisions import Rows
    from operator_sre.store.transaction import Transaction

__all__ = [
    "REMEDY",
    "Head",
    "KeptHead",
    "StoredCheckpoints",
    "StoredCursors",
    "StoredEntries",
    "StoredJournal",
    "StoredQuarantine",
    "StoredSealed",
    "read_head",
]

Head = tuple[int, bytes]
REMEDY = "Bring back the newer store, or accept the older one: operator store restore FILE --force"
# The file may lag behind the store by this time, and is never ahead of it.
WRITE_S = 1.0
FILE_BYTES_MAX = 4096


class KeptHead:
    """The last head of one store that this home has seen, in a small signed file.

    `store` names the store, so that the file of another store does not count.
    """

    def __init__(self, path: Path, signer: Signer, clock: Clock, *, store: str) -> None:
        self.path = path
        self._signer = signer
        self._clock = clock
        self._store = store
        self._written_s: float | None = None
        self._waiting: Head | None = None
        self._follows: bool | None = None

    def trouble(self, rows: Rows) -> str:
        """Why this is not the store that this home has seen, as a sentence; "" when it is."""
        try:
            kept = self.read()
        except StoreError as error:
            return error.message
        if kept is None:
            return ""
        seq, linked = kept
        stored = rows("SELECT hash FROM entries WHERE seq = ?", (seq,))
        if stored and bytes(stored[0][0]) == linked:
            return ""
        last = rows("SELECT coalesce(max(seq), 0) FROM entries", ())[0][0]
        why = f"it ends at entry {last}" if last < seq else f"entry {seq} differs"
        return f"The store was replaced: {why}, but this home has seen entry {seq}; nothing is run."

    def note(self, rows: Rows, head: Head, *, at_once: bool = False) -> None:
        """Keep a committed head, now or within a second; never that of another store."""
        self._waiting = head
        now = self._clock.monotonic()
        if at_once or self._written_s is None or now - self._written_s >= WRITE_S:
            self.flush(rows)

    def flush(self, rows: Rows) -> None:
        """Write the waiting head. A head that cannot be written only lags behind."""
        if self._waiting is None:
            return
        if self._follows is None:
            self._follows = not self.trouble(rows)
        if self._follows:
            with suppress(OSError, StoreError):
                self.write(self._waiting)
        self._written_s = self._clock.monotonic()
        self._waiting = None

    def write(self, head: Head) -> None:
        """Replace the file, whatever it holds; durable when this returns."""
        text = json.dumps(
            {
                "seq": head[0],
                "hash": head[1].hex(),
                "store": self._store,
                "key": self._signer.key,
                "signature": self._signer.sign(self._message(head)).hex(),
            }
        )
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        draft = self.path.with_name(f".{self.path.name}.{secrets.token_hex(4)}")
        try:
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(text.encode())
                file.flush()
                os.fsync(file.fileno())
            draft.replace(self.path)
        finally:
            draft.unlink(missing_ok=True)

    def read(self) -> Head | None:
        """The kept head, None without a file. StoreError for a file that this home did not sign."""
        kept = read_head(self.path)
        if kept is None:
            return None
        head, signature, store = kept
        if store != self._store or signature != self._signer.sign(self._message(head)):
            raise StoreError(
                f"{str(self.path)!r} was not written by this home.",
                next_step="Restore ledger.key, or a backup: operator store restore FILE --force",
            )
        return head

    def _message(self, head: Head) -> bytes:
        return f"head of {self._store}: {head[0]} {head[1].hex()}".encode()


def read_head(path: Path) -> tuple[Head, bytes, str] | None:
    """The head, signature and store of a file; None when it does not exist."""
    try:
        with path.open("rb") as file:
            record = json.loads(file.read(FILE_BYTES_MAX))
        head = (int(record["seq"]), bytes.fromhex(record["hash"]))
        return head, bytes.fromhex(record["signature"]), str(record["store"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(
            f"{str(path)!r} cannot be read: it does not hold the head of a store.",
            next_step="Restore it, or a backup: operator store restore FILE --force",
        ) from error


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
