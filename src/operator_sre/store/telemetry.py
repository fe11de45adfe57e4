"""What lies beside the ledger: conditions with their clocks, and observations."""

from __future__ import annotations

import json
from collections.abc import Sequence

from operator_protocols.domain.observation import Observation
from operator_protocols.ports import Condition
from operator_sre.codec import from_json, to_json
from operator_sre.store.database import plain
from operator_sre.store.reader import Reader
from operator_sre.store.transaction import Transaction
from operator_sre.store.writer import Writer

__all__ = ["StoredConditions", "StoredObservations"]


FORGET_EVERY = 100


class StoredConditions:
    """Grace clocks and recovery clocks that survive a restart."""

    def __init__(self, reader: Reader, writer: Writer) -> None:
        self._reader = reader
        self._writer = writer

    def of(self, subject: str) -> Sequence[Condition]:
        """All of one subject."""
        rows = self._reader.rows("SELECT body FROM conditions WHERE subject = ?", (subject,))
        return [from_json(Condition, json.loads(row[0])) for row in rows]

    async def update(self, conditions: Sequence[Condition]) -> None:
        """Write them down."""
        rows = [
            (*map(plain, (one.subject, one.invariant, one.target)), json.dumps(to_json(one)))
            for one in conditions
        ]
        await self._writer.write(
            lambda transaction: transaction.connection.executemany(
                "INSERT INTO conditions (subject, invariant, target, body) VALUES (?, ?, ?, ?)"
                " ON CONFLICT (subject, invariant, target) DO UPDATE SET body = excluded.body",
                rows,
            )
        )


class StoredObservations:
    """Telemetry with its own retention: the newest `kept` looks at each subject."""

    def __init__(self, reader: Reader, writer: Writer, *, kept: int) -> None:
        self._reader = reader
        self._writer = writer
        self._kept = kept
        self._added = 0

    async def add(self, observation: Observation) -> None:
        """Remember one look."""

        def change(transaction: Transaction) -> None:
            transaction.connection.execute(
                "INSERT INTO observations (subject, at, body) VALUES (?, ?, ?)",
                (
                    observation.subject,
                    observation.at.timestamp(),
                    json.dumps(to_json(observation)),
                ),
            )
            self._added += 1
            if self._added % FORGET_EVERY == 0:
                self._forget(transaction)

        await self._writer.write(change)

    def _forget(self, transaction: Transaction) -> None:
        # Every subject: which one happens to be added now says nothing about the others.
        subjects = transaction.connection.execute("SELECT DISTINCT subject FROM observations")
        for (subject,) in subjects.fetchall():
            transaction.connection.execute(
                "DELETE FROM observations WHERE subject = ? AND at <"
                " (SELECT min(at) FROM (SELECT at FROM observations WHERE subject = ?"
                " ORDER BY at DESC LIMIT ?) AS kept)",
                (subject, subject, self._kept),
            )

    def newest(self, subject: str, *, limit: int) -> Sequence[Observation]:
        """The newest looks at a subject, newest first."""
        rows = self._reader.rows(
            "SELECT body FROM observations WHERE subject = ? ORDER BY at DESC LIMIT ?",
            (subject, limit),
        )
        return [from_json(Observation, json.loads(row[0])) for row in rows]
