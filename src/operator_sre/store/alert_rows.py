"""What follows from an entry for alerts from elsewhere."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime
from typing import Any

from operator_protocols.domain.alert import Alert
from operator_protocols.domain.entry import Entry
from operator_sre.codec import from_json, to_json
from operator_sre.store.database import Connection, plain

__all__ = ["alert_cleared", "alert_fired", "ended_alerts", "known_alert"]

_ONE = "SELECT body FROM alerts WHERE source = ? AND fingerprint = ?"


def known_alert(connection: Connection, trigger: str, fingerprint: str) -> dict[str, Any] | None:
    """The stored body of one alert."""
    row = connection.execute(_ONE, (plain(trigger), plain(fingerprint))).fetchone()
    found: dict[str, Any] | None = json.loads(row[0]) if row else None
    return found


def ended_alerts(connection: Connection, *, before: datetime, limit: int) -> list[list[str]]:
    """Trigger and fingerprint of alerts that were over before then, those for longest first."""
    rows = connection.execute(
        "SELECT body FROM alerts WHERE firing = 0 ORDER BY seq LIMIT ?", (limit,)
    ).fetchall()
    alerts = [from_json(Alert, json.loads(row[0])) for row in rows]
    return [
        [one.trigger, one.fingerprint]
        for one in alerts
        if one.cleared_at is not None and one.cleared_at < before
    ]


def alert_fired(connection: Connection, entry: Entry) -> None:
    """It fires, for the first time or again."""
    body = entry.payload["alert"]
    alert = replace(from_json(Alert, body), firing=True, cleared_at=None)
    _forget(connection, entry)
    _write(connection, alert, entry.seq)


def alert_cleared(connection: Connection, entry: Entry) -> None:
    """It is over."""
    _forget(connection, entry)
    known = known_alert(connection, entry.payload["trigger"], entry.payload["fingerprint"])
    if known is not None:
        alert = from_json(Alert, known)
        _write(connection, replace(alert, firing=False, cleared_at=entry.at), entry.seq)


def _forget(connection: Connection, entry: Entry) -> None:
    """What was over for long when this was written; said there, so that it follows from it."""
    for trigger, fingerprint in entry.payload.get("forgets", ()):
        connection.execute(
            "DELETE FROM alerts WHERE source = ? AND fingerprint = ? AND firing = 0",
            (plain(trigger), plain(fingerprint)),
        )


def _write(connection: Connection, alert: Alert, seq: int) -> None:
    connection.execute(
        "INSERT INTO alerts (source, fingerprint, subject, firing, seq, body)"
        " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (source, fingerprint) DO UPDATE SET"
        " subject = excluded.subject, firing = excluded.firing, seq = excluded.seq,"
        " body = excluded.body",
        (
            plain(alert.trigger),
            plain(alert.fingerprint),
            plain(alert.subject),
            int(alert.firing),
            seq,
            json.dumps(to_json(alert)),
        ),
    )
