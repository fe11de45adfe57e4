"""What redaction took out of an entry, sealed, for as long as its run needs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from operator_protocols.domain.entry import Draft, Entry
    from operator_protocols.ports import Sealer
    from operator_sre.store.database import Connection
    from operator_sre.store.reader import Reader

__all__ = ["StoredSealed", "forget_sealed", "seal_payload"]


def seal_payload(connection: Connection, sealer: Sealer, seq: int, draft: Draft) -> None:
    """Keep the payload as it was, so that only this home can read it."""
    plain = msgspec.json.encode(draft.payload)
    connection.execute(
        "INSERT INTO sealed (seq, run, box) VALUES (?, ?, ?)",
        (seq, draft.run, sealer.seal(plain, label=str(seq))),
    )


def forget_sealed(connection: Connection, run: str) -> None:
    """A run that is over needs no secret any more."""
    connection.execute("DELETE FROM sealed WHERE run = ?", (run,))


class StoredSealed:
    """Entries of a run with what redaction took out of them."""

    def __init__(self, reader: Reader, sealer: Sealer | None) -> None:
        self._reader = reader
        self._sealer = sealer

    def unsealed(self, entries: Sequence[Entry]) -> Sequence[Entry]:
        """The same entries; those that were sealed have their payload as it was."""
        runs = {entry.run for entry in entries if entry.run}
        known: dict[int, Mapping[str, Any]] = {}
        for run in sorted(runs):
            known |= self._of(run)
        return [
            replace(entry, payload=known[entry.seq]) if entry.seq in known else entry
            for entry in entries
        ]

    def _of(self, run: str) -> dict[int, Mapping[str, Any]]:
        if self._sealer is None:
            return {}
        rows = self._reader.rows("SELECT seq, box FROM sealed WHERE run = ?", (run,))
        opened = {row[0]: self._sealer.open(bytes(row[1]), label=str(row[0])) for row in rows}
        return {seq: msgspec.json.decode(plain) for seq, plain in opened.items() if plain}
