"""Who works, as they tell of themselves, and what waits for them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from operator_protocols.domain.worker import Worker
from operator_sre.codec import from_json, to_json
from operator_sre.store.database import plain
from operator_sre.store.leases import claimable

if TYPE_CHECKING:
    from operator_protocols.domain.ticket import Ticket
    from operator_protocols.ports import Clock
    from operator_sre.store.reader import Reader
    from operator_sre.store.transaction import Transaction
    from operator_sre.store.writer import Writer

__all__ = ["StoredBacklog", "StoredWorkers"]

# Who has not spoken for so long is forgotten; a process that was killed says no goodbye.
WORKERS_KEPT_S = 86_400.0


class StoredWorkers:
    """Who works, as they tell of themselves."""

    def __init__(self, reader: Reader, writer: Writer) -> None:
        self._reader = reader
        self._writer = writer

    def find(self) -> Sequence[Worker]:
        """Everybody who has not left, who spoke last first."""
        rows = self._reader.rows("SELECT body FROM workers ORDER BY at DESC, id")
        return [from_json(Worker, json.loads(row[0])) for row in rows]

    async def beat(self, worker: Worker) -> None:
        """Say that one is there."""
        row = (plain(worker.id), worker.at.timestamp(), json.dumps(to_json(worker)))

        def change(transaction: Transaction) -> None:
            connection = transaction.connection
            connection.execute(
                "INSERT INTO workers (id, at, body) VALUES (?, ?, ?)"
                " ON CONFLICT (id) DO UPDATE SET at = excluded.at, body = excluded.body",
                row,
            )
            connection.execute("DELETE FROM workers WHERE at < ?", (row[1] - WORKERS_KEPT_S,))

        await self._writer.write(change)

    async def leave(self, worker: str) -> None:
        """Say that one goes; fine when one was never there."""
        await self._writer.write(
            lambda transaction: transaction.connection.execute(
                "DELETE FROM workers WHERE id = ?", (plain(worker),)
            )
        )


class StoredBacklog:
    """What an engine can hand out."""

    def __init__(self, reader: Reader, clock: Clock) -> None:
        self._reader = reader
        self._clock = clock

    def waiting(self, *, limit: int) -> Sequence[Ticket]:
        """Tickets that could be claimed this moment, the most urgent and oldest first."""
        return claimable(self._reader.rows, self._clock.now().timestamp(), limit=limit)
