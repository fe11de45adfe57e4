"""Checkpoints: the head, signed every so many entries, each holding on to the one before."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from operator_protocols.domain.checkpoint import Checkpoint

if TYPE_CHECKING:
    from operator_protocols.ports import Signer
    from operator_sre.store.database import Connection
    from operator_sre.store.reader import Reader

__all__ = ["StoredCheckpoints", "write_checkpoint"]


def write_checkpoint(
    connection: Connection, signer: Signer, seq: int, head: bytes, *, at: datetime
) -> None:
    """Sign one head. A head that is signed already is left as it is."""
    row = connection.execute(
        "SELECT seq, body FROM checkpoints ORDER BY seq DESC LIMIT 1"
    ).fetchone()
    if row is not None and row[0] >= seq:
        return
    previous = hashlib.sha256(bytes(row[1])).hexdigest() if row else ""
    record = {"seq": seq, "head": head.hex(), "at": at.isoformat(), "previous": previous}
    body = msgspec.json.encode(record, order="sorted")
    connection.execute(
        "INSERT INTO checkpoints (seq, body, key, signature) VALUES (?, ?, ?, ?)",
        (seq, body, signer.key, signer.sign(body)),
    )


class StoredCheckpoints:
    """Checkpoints as they lie."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def after(self, seq: int, *, limit: int) -> Sequence[Checkpoint]:
        """Checkpoints behind `seq`, oldest first."""
        rows = self._reader.rows(
            "SELECT seq, body, key, signature FROM checkpoints WHERE seq > ? ORDER BY seq LIMIT ?",
            (seq, limit),
        )
        return [Checkpoint(row[0], _bytes(row[1]), str(row[2]), _bytes(row[3])) for row in rows]


def _bytes(value: object) -> bytes:
    """Bytes, whatever somebody has put there: what is none will not verify."""
    return value if isinstance(value, bytes) else str(value).encode()
