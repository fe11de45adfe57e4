"""Telemetry, which is not in the ledger: conditions, observations, and heartbeats."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from operator_protocols.domain.observation import Observation
from operator_protocols.domain.watcher import Watcher, Worker
from operator_sre.codec import from_json, to_json
from operator_sre.store.database import plain
from operator_sre.store.repository import Repository, in_transaction, insert_row, upsert_row

if TYPE_CHECKING:
    from operator_protocols.ports import Condition
    from operator_sre.store.database import Reader
    from operator_sre.store.transaction import Transaction
    from operator_sre.store.writer import Writer

__all__ = ["StoredConditions", "StoredObservations", "StoredWatchers", "StoredWorkers"]

T = TypeVar("T", Watcher, Worker)
FORGET_EVERY = 100
# A process without a heartbeat for this long is forgotten, because a killed process never leaves.
PRESENT_KEPT_S = 86_400.0
# Observations repeat themselves so much that the fastest compression is nearly as good as the best.
PACKING = 1
_ENCODER = msgspec.msgpack.Encoder()
# The first byte of a packed observation is its encoding.
_PLAIN, _ESCAPED = b"\x01", b"\x02"


class StoredConditions(Repository):
    """Conditions with their grace and recovery times, which survive a restart."""

    def of(self, subject: str) -> Sequence[Condition]:
        """The conditions of one subject."""
        rows = self._reader.rows("SELECT body FROM conditions WHERE subject = ?", (plain(subject),))
        decoder = _condition_decoder()
        conditions = []
        for (body,) in rows:
            try:
                conditions.append(decoder.decode(body))
            except msgspec.DecodeError:  # a lone surrogate, which only `json` accepts
                conditions.append(from_json(decoder.type, json.loads(body)))
        return conditions

    async def update(self, conditions: Sequence[Condition]) -> None:
        """Store conditions."""
        rows = [(*_place(condition), json.dumps(to_json(condition))) for condition in conditions]
        if rows:
            await self._writer.write(
                lambda transaction: transaction.connection.executemany(
                    "INSERT INTO conditions (subject, invariant, target, body) VALUES (?, ?, ?, ?)"
                    " ON CONFLICT (subject, invariant, target) DO UPDATE SET body = excluded.body",
                    rows,
                )
            )

    async def forget(self, conditions: Sequence[Condition]) -> None:
        """Delete the conditions of removed targets and invariants."""
        rows = [_place(condition) for condition in conditions]
        if rows:
            await self._writer.write(
                lambda transaction: transaction.connection.executemany(
                    "DELETE FROM conditions WHERE subject = ? AND invariant = ? AND target = ?",
                    rows,
                )
            )


def _place(condition: Condition) -> tuple[str, str, str]:
    return plain(condition.subject), plain(condition.invariant), plain(condition.target)


@cache
def _condition_decoder() -> msgspec.json.Decoder[Condition]:
    from operator_protocols.ports import Condition  # only a monitor needs it

    return msgspec.json.Decoder(Condition)


class StoredObservations:
    """Observations with their own retention: the newest `kept` of each subject, for `kept_s`."""

    def __init__(
        self, reader: Reader, writer: Writer, *, kept: int, kept_s: float | None = None
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._kept = kept
        self._kept_s = kept_s
        self._added = 0

    async def add(self, observation: Observation) -> None:
        """Store an observation."""
        try:
            # Compression pays, because a thousand targets report nearly the same each time.
            packed = _PLAIN + zlib.compress(_ENCODER.encode(observation), PACKING)
        except UnicodeEncodeError:  # a lone surrogate, which only `json` accepts
            text = json.dumps(to_json(observation))
            packed = _ESCAPED + zlib.compress(text.encode(), PACKING)
        subject, at = plain(observation.subject), observation.at.timestamp()

        def change(transaction: Transaction) -> None:
            row = {"subject": subject, "at": at, "body": packed}
            insert_row(transaction.connection, "observations", row)
            self._added += 1
            if self._added % FORGET_EVERY == 0:
                # All subjects, because some may have no new observations.
                connection = transaction.connection
                subjects = connection.execute("SELECT DISTINCT subject FROM observations")
                for (known,) in subjects.fetchall():
                    connection.execute(
                        "DELETE FROM observations WHERE subject = ? AND at <"
                        " (SELECT min(at) FROM (SELECT at FROM observations WHERE subject = ?"
                        " ORDER BY at DESC LIMIT ?) AS kept)",
                        (known, known, self._kept),
                    )
                if self._kept_s is not None:
                    oldest = (transaction.now() - timedelta(seconds=self._kept_s)).timestamp()
                    connection.execute("DELETE FROM observations WHERE at < ?", (oldest,))

        await self._writer.write(change)

    def keep(self, *, kept: int, kept_s: float | None) -> None:
        """Set the retention: how many observations of each subject, and for how long."""
        self._kept, self._kept_s = kept, kept_s

    def newest(self, subject: str, *, limit: int) -> Sequence[Observation]:
        """The newest observations of a subject, newest first."""
        rows = self._reader.rows(
            "SELECT body FROM observations WHERE subject = ? ORDER BY at DESC LIMIT ?",
            (plain(subject), limit),
        )
        return [_unpack(row[0]) for row in rows]

    def after(self, subject: str, at: datetime, *, limit: int) -> Sequence[Observation]:
        """The observations of a subject after this time, oldest first."""
        rows = self._reader.rows(
            "SELECT body FROM observations WHERE subject = ? AND at > ? ORDER BY at LIMIT ?",
            (plain(subject), at.timestamp(), limit),
        )
        return [_unpack(row[0]) for row in rows]


def _unpack(body: Any) -> Observation:
    packed = bytes(body)
    unpacked = zlib.decompress(packed[1:])
    if packed[:1] == _PLAIN:
        return _observation_decoder().decode(unpacked)
    return from_json(Observation, json.loads(unpacked))


@cache
def _observation_decoder() -> msgspec.msgpack.Decoder[Observation]:
    return msgspec.msgpack.Decoder(Observation)


class _Present(Repository, Generic[T]):
    """Processes with their last heartbeat, one row for each."""

    _kind: type[T]
    _table: str
    _name: str

    def find(self) -> Sequence[T]:
        """All processes that have not left, the newest heartbeat first."""
        sql = f"SELECT body FROM {self._table} ORDER BY at DESC, {self._name}"  # noqa: S608
        return [from_json(self._kind, json.loads(body)) for (body,) in self._reader.rows(sql)]

    @in_transaction
    def beat(self, transaction: Transaction, process: T) -> None:
        """Store a heartbeat."""
        connection, at = transaction.connection, process.at.timestamp()
        row = {self._name: plain(getattr(process, self._name)), "at": at}
        row["body"] = json.dumps(to_json(process))
        upsert_row(connection, self._table, self._name, row)
        sql = f"DELETE FROM {self._table} WHERE at < ?"  # noqa: S608
        connection.execute(sql, (at - PRESENT_KEPT_S,))

    @in_transaction
    def leave(self, transaction: Transaction, worker: str) -> None:
        """Delete a process that stops; does nothing when it is unknown."""
        sql = f"DELETE FROM {self._table} WHERE {self._name} = ?"  # noqa: S608
        transaction.connection.execute(sql, (plain(worker),))


class StoredWatchers(_Present[Watcher]):
    """Heartbeats of monitors."""

    _kind, _table, _name = Watcher, "watchers", "worker"


class StoredWorkers(_Present[Worker]):
    """Heartbeats of workers."""

    _kind, _table, _name = Worker, "workers", "id"
