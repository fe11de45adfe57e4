"""What follows from an entry for silences."""

from __future__ import annotations

import json
from datetime import datetime

from operator_protocols.domain.entry import Entry
from operator_sre.store.database import Connection, plain

__all__ = ["silence_added", "silence_ended"]


def silence_added(connection: Connection, entry: Entry) -> None:
    """A silence as it was asked for."""
    silence = entry.payload["silence"]
    until = datetime.fromisoformat(silence["until"]).timestamp()
    connection.execute(
        "INSERT INTO silences (id, seq, until, body) VALUES (?, ?, ?, ?)",
        (plain(silence["id"]), entry.seq, until, json.dumps(silence)),
    )


def silence_ended(connection: Connection, entry: Entry) -> None:
    """Somebody ended it before its time."""
    silence = plain(entry.payload["id"])
    row = connection.execute("SELECT body FROM silences WHERE id = ?", (silence,)).fetchone()
    body = json.loads(row[0]) | {
        "ended_at": entry.at.isoformat(),
        "ended_by": entry.actor.id,
        "ended_because": entry.payload["reason"],
    }
    connection.execute(
        "UPDATE silences SET until = ?, body = ? WHERE id = ?",
        (entry.at.timestamp(), json.dumps(body), silence),
    )
