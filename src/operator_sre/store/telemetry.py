"""What lies beside the ledger: conditions with their clocks, observations, and who is there."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from operator_protocols.domain.observation import Observation
from operator_protocols.domain.watcher import Watcher
from operator_protocols.domain.worker import Worker
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
# Who has not spoken for so long is forgotten; a process that was killed says no goodbye.
PRESENT_KEPT_S = 86_400.0
# Looks resemble themselves so much that the quickest way of packing is nearly as good as the best.
PACKING = 1
_ENCODER = msgspec.msgpack.Encoder()
# The first byte of a packed look says how it was packed.
_PLAIN, _ESCAPED = b"\x01", b"\x02"


class StoredConditions(Repository):
    """Grace clocks and recovery clocks that survive a restart."""

    def of(self, subject: str) -> Sequence[Condition]:
        """All of one subject."""
        rows = self._reader.rows("SELECT body FROM conditions WHERE subject = ?", (plain(subject),))
        decoder = _condition_decoder()
        conditions = []
        for (body,) in rows:
            try:
                conditions.append(decoder.decode(body))
            except msgspec.DecodeError:  # text that only Python's own reader takes
                conditions.append(from_json(decoder.type, json.loads(body)))
        return conditions

    async def update(self, conditions: Sequence[Condition]) -> None:
        """Write them down."""
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
        """Drop those of targets and invariants that are no more."""
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
    from operator_protocols.ports import Condition  # whoever does not watch starts without it

    return msgspec.json.Decoder(Condition)


class StoredObservations:
    """Telemetry with its own retention: the newest `kept` looks at each subject, for so long."""

    def __init__(
        self, reader: Reader, writer: Writer, *, kept: int, kept_s: float | None = None
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._kept = kept
        self._kept_s = kept_s
        self._added = 0

    async def add(self, observation: Observation) -> None:
        """Remember one look."""
        try:
            # A look as few bytes: a thousand targets say nearly the same, again and again.
            packed = _PLAIN + zlib.compress(_ENCODER.encode(observation), PACKING)
        except UnicodeEncodeError:  # half a letter, which only Python's own writer takes
            text = json.dumps(to_json(observation))
            packed = _ESCAPED + zlib.compress(text.encode(), PACKING)
        subject, at = plain(observation.subject), observation.at.timestamp()

        def change(transaction: Transaction) -> None:
            row = {"subject": subject, "at": at, "body": packed}
            insert_row(transaction.connection, "observations", row)
            self._added += 1
            if self._added % FORGET_EVERY == 0:
                self._forget(transaction)

        await self._writer.write(change)

    def keep(self, *, kept: int, kept_s: float | None) -> None:
        """From now on so many looks at each subject, for so long."""
        self._kept, self._kept_s = kept, kept_s

    def _forget(self, transaction: Transaction) -> None:
        # Every subject: which one happens to be added now says nothing about the others.
        connection = transaction.connection
        subjects = connection.execute("SELECT DISTINCT subject FROM observations")
        for (subject,) in subjects.fetchall():
            connection.execute(
                "DELETE FROM observations WHERE subject = ? AND at <"
                " (SELECT min(at) FROM (SELECT at FROM observations WHERE subject = ?"
                " ORDER BY at DESC LIMIT ?) AS kept)",
                (subject, subject, self._kept),
            )
        if self._kept_s is not None:
            oldest = transaction.now() - timedelta(seconds=self._kept_s)
            connection.execute("DELETE FROM observations WHERE at < ?", (oldest.timestamp(),))

    def newest(self, subject: str, *, limit: int) -> Sequence[Observation]:
        """The newest looks at a subject, newest first."""
        rows = self._reader.rows(
            "SELECT body FROM observations WHERE subject = ? ORDER BY at DESC LIMIT ?",
            (plain(subject), limit),
        )
        return [_unpack(row[0]) for row in rows]

    def after(self, subject: str, at: datetime, *, limit: int) -> Sequence[Observation]:
        """The looks at a subject behind this moment, oldest first."""
        rows = self._reader.rows(
            "SELECT body FROM observations WHERE subject = ? AND at > ? ORDER BY at LIMIT ?",
            (plain(subject), at.timestamp(), limit),
        )
        return [_unpack(row[0]) for row in rows]


def _unpack(body: Any) -> Observation:
    packed = bytes(body)
    whole = zlib.decompress(packed[1:])
    if packed[:1] == _PLAIN:
        return _observation_decoder().decode(whole)
    return from_json(Observation, json.loads(whole))


@cache
def _observation_decoder() -> msgspec.msgpack.Decoder[Observation]:
    return msgspec.msgpack.Decoder(Observation)


class _Present(Repository, Generic[T]):
    """Who is there, as they tell of themselves: a row for each, with the time they spoke last."""

    _kind: type[T]
    _table: str
    _name: str

    def find(self) -> Sequence[T]:
        """Everybody who has not left, who spoke last first."""
        sql = f"SELECT body FROM {self._table} ORDER BY at DESC, {self._name}"  # noqa: S608
        return [from_json(self._kind, json.loads(body)) for (body,) in self._reader.rows(sql)]

    @in_transaction
    def beat(self, transaction: Transaction, one: T) -> None:
        """Say that one is there, and what one does."""
        connection, at = transaction.connection, one.at.timestamp()
        row = {self._name: plain(getattr(one, self._name)), "at": at}
        row["body"] = json.dumps(to_json(one))
        upsert_row(connection, self._table, self._name, row)
        sql = f"DELETE FROM {self._table} WHERE at < ?"  # noqa: S608
        connection.execute(sql, (at - PRESENT_KEPT_S,))

    @in_transaction
    def leave(self, transaction: Transaction, worker: str) -> None:
        """Say that one goes; fine when one was never there."""
        sql = f"DELETE FROM {self._table} WHERE {self._name} = ?"  # noqa: S608
        transaction.connection.execute(sql, (plain(worker),))


class StoredWatchers(_Present[Watcher]):
    """Who watches, as they tell of themselves."""

    _kind, _table, _name = Watcher, "watchers", "worker"


class StoredWorkers(_Present[Worker]):
    """Who works, as they tell of themselves."""

    _kind, _table, _name = Worker, "workers", "id"
