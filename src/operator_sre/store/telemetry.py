"""What lies beside the ledger: conditions with their clocks, observations, and who watches."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec

from operator_protocols.domain.observation import Observation
from operator_protocols.domain.watcher import Watcher
from operator_sre.codec import from_json, to_json
from operator_sre.store.database import plain

if TYPE_CHECKING:
    from operator_protocols.ports import Condition
    from operator_sre.store.reader import Reader
    from operator_sre.store.transaction import Transaction
    from operator_sre.store.writer import Writer

__all__ = ["StoredConditions", "StoredObservations", "StoredWatchers"]

FORGET_EVERY = 100
# Who has not spoken for so long is forgotten; a process that was killed says no goodbye.
WATCHERS_KEPT_S = 86_400.0
# Looks resemble themselves so much that the quickest way of packing is nearly as good as the best.
PACKING = 1
_ENCODER = msgspec.msgpack.Encoder()
# The first byte of a packed look says how it was packed.
_PLAIN, _ESCAPED = b"\x01", b"\x02"


class StoredConditions:
    """Grace clocks and recovery clocks that survive a restart."""

    def __init__(self, reader: Reader, writer: Writer) -> None:
        self._reader = reader
        self._writer = writer

    def of(self, subject: str) -> Sequence[Condition]:
        """All of one subject."""
        rows = self._reader.rows("SELECT body FROM conditions WHERE subject = ?", (plain(subject),))
        return [_condition(row[0]) for row in rows]

    async def update(self, conditions: Sequence[Condition]) -> None:
        """Write them down."""
        rows = [(*_place(one), json.dumps(to_json(one))) for one in conditions]
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
        rows = [_place(one) for one in conditions]
        if rows:
            await self._writer.write(
                lambda transaction: transaction.connection.executemany(
                    "DELETE FROM conditions WHERE subject = ? AND invariant = ? AND target = ?",
                    rows,
                )
            )


def _place(one: Condition) -> tuple[str, str, str]:
    return plain(one.subject), plain(one.invariant), plain(one.target)


def _condition(body: str) -> Condition:
    decoder = _condition_decoder()
    try:
        return decoder.decode(body)
    except msgspec.DecodeError:  # text that only Python's own reader takes, such as half a letter
        return from_json(decoder.type, json.loads(body))


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
        row = (plain(observation.subject), observation.at.timestamp(), _packed(observation))

        def change(transaction: Transaction) -> None:
            transaction.connection.execute(
                "INSERT INTO observations (subject, at, body) VALUES (?, ?, ?)", row
            )
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
        return [_unpacked(row[0]) for row in rows]

    def after(self, subject: str, at: datetime, *, limit: int) -> Sequence[Observation]:
        """The looks at a subject behind this moment, oldest first."""
        rows = self._reader.rows(
            "SELECT body FROM observations WHERE subject = ? AND at > ? ORDER BY at LIMIT ?",
            (plain(subject), at.timestamp(), limit),
        )
        return [_unpacked(row[0]) for row in rows]


def _packed(observation: Observation) -> bytes:
    """A look as few bytes: a thousand targets say nearly the same, again and again."""
    try:
        return _PLAIN + zlib.compress(_ENCODER.encode(observation), PACKING)
    except UnicodeEncodeError:  # half a letter, which only Python's own writer takes
        text = json.dumps(to_json(observation))
        return _ESCAPED + zlib.compress(text.encode(), PACKING)


def _unpacked(body: Any) -> Observation:
    packed = bytes(body)
    whole = zlib.decompress(packed[1:])
    if packed[:1] == _PLAIN:
        return _observation_decoder().decode(whole)
    return from_json(Observation, json.loads(whole))


@cache
def _observation_decoder() -> msgspec.msgpack.Decoder[Observation]:
    return msgspec.msgpack.Decoder(Observation)


class StoredWatchers:
    """Who watches, as they tell of themselves."""

    def __init__(self, reader: Reader, writer: Writer) -> None:
        self._reader = reader
        self._writer = writer

    def find(self) -> Sequence[Watcher]:
        """Everybody who has not left, who spoke last first."""
        rows = self._reader.rows("SELECT body FROM watchers ORDER BY at DESC, worker")
        return [from_json(Watcher, json.loads(row[0])) for row in rows]

    async def beat(self, watcher: Watcher) -> None:
        """Say that one is there, and what one watches."""
        row = (plain(watcher.worker), watcher.at.timestamp(), json.dumps(to_json(watcher)))

        def change(transaction: Transaction) -> None:
            connection = transaction.connection
            connection.execute(
                "INSERT INTO watchers (worker, at, body) VALUES (?, ?, ?)"
                " ON CONFLICT (worker) DO UPDATE SET at = excluded.at, body = excluded.body",
                row,
            )
            connection.execute("DELETE FROM watchers WHERE at < ?", (row[1] - WATCHERS_KEPT_S,))

        await self._writer.write(change)

    async def leave(self, worker: str) -> None:
        """Say that one goes; fine when one was never there."""
        await self._writer.write(
            lambda transaction: transaction.connection.execute(
                "DELETE FROM watchers WHERE worker = ?", (plain(worker),)
            )
        )
