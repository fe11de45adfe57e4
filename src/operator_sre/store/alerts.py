"""Alerts of other systems, and silences, which keep violations from opening tickets."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from operator_protocols.domain.alert import Alert, AlertChange
from operator_protocols.domain.entry import Actor, Draft, Entry, Kind
from operator_protocols.domain.silence import Silence
from operator_protocols.errors import ConflictError
from operator_sre.codec import from_json, to_json
from operator_sre.store.database import Connection, plain
from operator_sre.store.repository import (
    JsonTable,
    Repository,
    draft_of_user,
    in_transaction,
    upsert_row,
)

if TYPE_CHECKING:
    from operator_sre.store.transaction import Transaction

__all__ = [
    "StoredAlerts",
    "StoredSilences",
    "add_silence",
    "clear_alert",
    "end_silence",
    "fire_alert",
]

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
            raise ConflictError(f"The silence {silence.id!r} already exists.")
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


# How many old cleared alerts the next change of an alert forgets.
FORGOTTEN_MAX = 100
_ALERTS = JsonTable("alerts", Alert)
_ONE = "WHERE source = ? AND fingerprint = ?"


class StoredAlerts(Repository):
    """Firing and cleared alerts."""

    _kept_s: float | None = None

    def keep(self, *, kept_s: float | None) -> None:
        """Set how long cleared alerts are kept."""
        self._kept_s = kept_s

    @in_transaction
    def take(self, transaction: Transaction, alerts: Sequence[Alert]) -> Sequence[AlertChange]:
        """Record firing and cleared alerts, all or none, and return what each changed."""
        old: list[list[str]] = []
        if self._kept_s is not None:
            before = transaction.now() - timedelta(seconds=self._kept_s)
            where = "WHERE firing = 0 ORDER BY seq LIMIT ?"
            ended = _ALERTS.select(transaction.rows, where, (FORGOTTEN_MAX,))
            old = [
                [alert.trigger, alert.fingerprint]
                for alert in ended
                if alert.cleared_at is not None and alert.cleared_at < before
            ]
        changes = []
        for alert in alerts:
            place = (plain(alert.trigger), plain(alert.fingerprint))
            known = next(iter(_ALERTS.select(transaction.rows, _ONE, place)), None)
            if alert.firing is (known is not None and known.firing):
                changes.append(AlertChange.KNOWN)
                continue
            # The first entry of the batch also forgets the old alerts.
            forgets = {"forgets": [*old]} if old else {}
            old.clear()
            if alert.firing:
                kind, payload = Kind.ALERT_FIRED, {"alert": to_json(alert), **forgets}
            else:
                about = ("name", "subject", "target", "invariant")
                kind = Kind.ALERT_CLEARED
                payload = {
                    "trigger": alert.trigger,
                    "fingerprint": alert.fingerprint,
                    **({name: to_json(getattr(known, name)) for name in about} if known else {}),
                    **forgets,
                }
            by = Actor(id=f"trigger:{alert.trigger}", type="trigger")
            transaction.append(Draft(kind, payload, actor=by))
            changes.append(AlertChange.FIRED if alert.firing else AlertChange.CLEARED)
        return changes

    def find(
        self, *, firing: bool | None = None, subject: str = "", limit: int = 1000
    ) -> Sequence[Alert]:
        """Firing or cleared alerts, or both, newest first."""
        where, values = ["1 = 1"], list[object]()
        if firing is not None:
            where.append("firing = ?")
            values.append(int(firing))
        if subject:
            where.append("subject = ?")
            values.append(plain(subject))
        clause = f"WHERE {' AND '.join(where)} ORDER BY seq DESC LIMIT ?"
        return _ALERTS.select(self._reader.rows, clause, (*values, limit))


def fire_alert(connection: Connection, entry: Entry) -> None:
    """Store a firing alert."""
    _forget(connection, entry)
    alert = from_json(Alert, entry.payload["alert"])
    _write(connection, replace(alert, firing=True, cleared_at=None), entry.seq)


def clear_alert(connection: Connection, entry: Entry) -> None:
    """Mark an alert as cleared."""
    _forget(connection, entry)
    place = (plain(entry.payload["trigger"]), plain(entry.payload["fingerprint"]))
    row = connection.execute(f"SELECT body FROM alerts {_ONE}", place).fetchone()  # noqa: S608
    if row is not None:
        alert = _ALERTS.parse(row[0])
        _write(connection, replace(alert, firing=False, cleared_at=entry.at), entry.seq)


def _forget(connection: Connection, entry: Entry) -> None:
    """Forget the old cleared alerts that the entry names, so that a rebuild forgets the same."""
    for trigger, fingerprint in entry.payload.get("forgets", ()):
        connection.execute(
            f"DELETE FROM alerts {_ONE} AND firing = 0",  # noqa: S608
            (plain(trigger), plain(fingerprint)),
        )


def _write(connection: Connection, alert: Alert, seq: int) -> None:
    row = {
        "source": plain(alert.trigger),
        "fingerprint": plain(alert.fingerprint),
        "subject": plain(alert.subject),
        "firing": int(alert.firing),
        "seq": seq,
        "body": json.dumps(to_json(alert)),
    }
    upsert_row(connection, "alerts", "source, fingerprint", row)
