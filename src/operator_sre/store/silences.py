"""Silences: what people keep from opening tickets."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime

from operator_protocols.domain.entry import Actor, Draft, Kind
from operator_protocols.domain.silence import Silence
from operator_protocols.errors import ConflictError, NotFoundError
from operator_sre.codec import from_json, to_json
from operator_sre.store.database import Connection, plain
from operator_sre.store.reader import Reader
from operator_sre.store.transaction import Transaction
from operator_sre.store.writer import Writer

__all__ = ["StoredSilences"]


class StoredSilences:
    """Every silence there was, as the ledger tells it."""

    def __init__(self, reader: Reader, writer: Writer) -> None:
        self._reader = reader
        self._writer = writer

    def find(self, *, at: datetime | None = None) -> Sequence[Silence]:
        """All of them, newest first; or those that hold at this moment."""
        if at is None:
            rows = self._reader.rows("SELECT body FROM silences ORDER BY seq DESC")
            return [_silence(row[0]) for row in rows]
        # Asked before every look, so that those which are over are not read at all.
        rows = self._reader.rows(
            "SELECT body FROM silences WHERE until > ? ORDER BY seq DESC", (at.timestamp(),)
        )
        return [one for one in (_silence(row[0]) for row in rows) if one.holds(at)]

    async def add(self, silence: Silence) -> None:
        """It counts from its start on. ConflictError when there is one of that id."""

        def change(transaction: Transaction) -> None:
            if _known(transaction.connection, silence.id) is not None:
                raise ConflictError(f"There is a silence {silence.id!r} already.")
            actor = Actor(id=silence.by, type="user")
            payload = {"silence": to_json(silence)}
            transaction.append(Draft(Kind.SILENCE_ADDED, payload, actor=actor))

        await self._writer.write(change)

    async def end(self, silence: str, *, by: str, reason: str) -> None:
        """It counts no more. ConflictError when it is over already; NotFoundError for none."""

        def change(transaction: Transaction) -> None:
            known = _known(transaction.connection, silence)
            if known is None:
                raise NotFoundError(
                    f"There is no silence {silence!r}.",
                    next_step="See them with: operator silences list",
                )
            if known.ended_at is not None or known.until <= transaction.now():
                raise ConflictError(f"The silence {silence!r} is over already.")
            payload = {"id": silence, "reason": reason}
            actor = Actor(id=by, type="user")
            transaction.append(Draft(Kind.SILENCE_ENDED, payload, actor=actor))

        await self._writer.write(change)


def _known(connection: Connection, silence: str) -> Silence | None:
    sql = "SELECT body FROM silences WHERE id = ?"
    row = connection.execute(sql, (plain(silence),)).fetchone()
    return _silence(row[0]) if row else None


def _silence(body: str) -> Silence:
    return from_json(Silence, json.loads(body))
