"""What follows from an entry for confirmations."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from operator_protocols.domain.entry import Entry
from operator_sre.store.database import Connection, plain

__all__ = [
    "SETTLED",
    "answer_of",
    "confirmation_decided",
    "confirmation_requested",
    "confirmation_settled",
    "outcome_of",
]

# In the table only: a yes that is done with, so that those that are not are found at once.
SETTLED = "settled"


def confirmation_requested(connection: Connection, entry: Entry) -> None:
    """A change as it was asked for."""
    asked = entry.payload["confirmation"]
    connection.execute(
        "INSERT INTO confirmations (id, seq, state, expires_at, body) VALUES (?, ?, ?, ?, ?)",
        (
            plain(asked["id"]),
            entry.seq,
            asked["state"],
            datetime.fromisoformat(asked["expires_at"]).timestamp(),
            json.dumps(asked),
        ),
    )


def confirmation_decided(connection: Connection, entry: Entry) -> None:
    """Somebody answered, or it came to nothing."""
    payload = entry.payload
    _add(connection, payload["id"], answer_of(entry))
    connection.execute(
        "UPDATE confirmations SET state = ? WHERE id = ?", (payload["state"], plain(payload["id"]))
    )


def confirmation_settled(connection: Connection, entry: Entry) -> None:
    """What became of a yes is known."""
    payload = entry.payload
    _add(connection, payload["id"], outcome_of(entry))
    connection.execute(
        "UPDATE confirmations SET state = ? WHERE id = ?", (SETTLED, plain(payload["id"]))
    )


def answer_of(entry: Entry) -> dict[str, Any]:
    """What an answer adds to the request that it is about. Pure."""
    told = {name: entry.payload[name] for name in ("state", "decided_by", "reason")}
    return told | {"decided_at": entry.at.isoformat()}


def outcome_of(entry: Entry) -> dict[str, Any]:
    """What is added to a yes when it is settled. Pure."""
    told = {name: entry.payload[name] for name in ("applied", "outcome")}
    return told | {"settled_at": entry.at.isoformat()}


def _add(connection: Connection, confirmation: str, more: dict[str, Any]) -> None:
    name = plain(confirmation)
    row = connection.execute("SELECT body FROM confirmations WHERE id = ?", (name,)).fetchone()
    body = json.dumps(json.loads(row[0]) | more)
    connection.execute("UPDATE confirmations SET body = ? WHERE id = ?", (body, name))
