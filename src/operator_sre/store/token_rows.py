"""What follows from an entry for tokens."""

from __future__ import annotations

import json

from operator_protocols.domain.entry import Entry
from operator_sre.store.database import Connection, plain

__all__ = ["token_created", "token_revoked"]


def token_created(connection: Connection, entry: Entry) -> None:
    """A token as it was created, with the fingerprint of its secret."""
    body = entry.payload["admits"]
    connection.execute(
        "INSERT INTO tokens (id, seq, fingerprint, body) VALUES (?, ?, ?, ?)",
        (plain(body["id"]), entry.seq, plain(entry.payload["fingerprint"]), json.dumps(body)),
    )


def token_revoked(connection: Connection, entry: Entry) -> None:
    """It lets nobody in any more."""
    token = plain(entry.payload["id"])
    row = connection.execute("SELECT body FROM tokens WHERE id = ?", (token,)).fetchone()
    body = json.loads(row[0]) | {"revoked_at": entry.at.isoformat()}
    connection.execute("UPDATE tokens SET body = ? WHERE id = ?", (json.dumps(body), token))
