"""Damage is set aside as it was found, recorded, and the log goes on in a new segment."""

from __future__ import annotations

from collections.abc import Sequence

from operator_protocols.domain.entry import Draft, Entry, Kind
from operator_sre.store.transaction import Transaction
from operator_sre.store.writer import Writer

__all__ = ["StoredQuarantine"]


class StoredQuarantine:
    """Where damaged rows are kept. Nothing is ever dropped from the ledger itself."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    async def begin_segment(self, damages: Sequence[tuple[int, str, str]]) -> Entry:
        """Keep the damaged rows (seq, kind, detail) and start a segment that names the old head.

        Said twice of the same damages, it begins one segment.
        """
        known = "/".join(f"{seq}:{kind}" for seq, kind, _ in damages)

        def change(transaction: Transaction) -> Entry:
            head_seq, head = transaction.mark()
            for seq, kind, detail in damages:
                transaction.connection.execute(
                    "INSERT INTO quarantine (seq, body, digest, previous, hash, damage)"
                    " SELECT seq, body, digest, previous, hash, ? FROM entries WHERE seq = ?",
                    (f"{kind}: {detail}", seq),
                )
            payload = {
                "old_head": {"seq": head_seq, "hash": head.hex()},
                "damages": [
                    {"seq": seq, "kind": kind, "detail": detail} for seq, kind, detail in damages
                ],
            }
            key = f"segment/{known}"
            return transaction.append(Draft(Kind.SEGMENT_STARTED, payload, key=key))

        return await self._writer.write(change)
