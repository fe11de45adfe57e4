"""Silences, which keep violations from opening tickets."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from operator_protocols.domain.entry import Entry, Kind
from operator_protocols.domain.silence import Silence
from operator_protocols.errors import ConflictError
from operator_sre.codec import to_json
from operator_sre.store.database import Connection
from operator_sre.store.repository import JsonTable, Repository, draft_of_user, in_transaction

if TYPE_CHECKING:
    from operator_sre.store.transaction import Transaction

__all__ = ["StoredSilences", "add_silence", "end_silence"]

_SILENCES = JsonTable("silences", Silence, "silence", "operator silences list")


class StoredSilences(Repository):
    """All silences, also ended ones."""

    def find(self, *, at: datetime | None = None) -> Sequence[Silence]:
        """All silences, newest first; with `at` only those active at that time."""
        if at is None:
            return _SILENCES.select(self._reader.rows, "ORDER BY seq DESC")
        # Every check reads the active silences, so the query leaves out ended ones.
        where = "WHERE until > ? ORDER BY seq DESC"
        silences = _SILENCES.select(self._reader.rows, where, (at.timestamp(),))
        return [silence for silence in silences if silence.holds(at)]

    @in_transaction
    def add(self, transaction: Transaction, silence: Silence) -> None:
        """Add a silence. ConflictError when the id exists."""
        if _SILENCES.get(transaction.rows, silence.id) is not None:
            raise ConflictError(f"There is a silence {silence.id!r} already.")
        payload = {"silence": to_json(silence)}
        transaction.append(draft_of_user(Kind.SILENCE_ADDED, payload, silence.by))

    @in_transaction
    def end(self, transaction: Transaction, silence: str, *, by: str, reason: str) -> None:
        """End a silence. ConflictError when it has ended already; NotFoundError."""
        known = _SILENCES.load(transaction.rows, silence)
        if known.ended_at is not None or known.until <= transaction.now():
            raise ConflictError(f"The silence {silence!r} has already ended.")
        payload = {"id": silence, "reason": reason}
        transaction.append(draft_of_user(Kind.SILENCE_ENDED, payload, by))


def add_silence(connection: Connection, entry: Entry) -> None:
    """Store a silence."""
    silence = entry.payload["silence"]
    until = datetime.fromisoformat(silence["until"]).timestamp()
    _SILENCES.insert(connection, entry.seq, silence, until=until)


def end_silence(connection: Connection, entry: Entry) -> None:
    """Store the early end of a silence."""
    end = {
        "ended_at": entry.at.isoformat(),
        "ended_by": entry.actor.id,
        "ended_because": entry.payload["reason"],
    }
    _SILENCES.merge(connection, entry.payload["id"], end, until=entry.at.timestamp())
