"""A signed ledger in a real file, and ways to hurt it by editing its rows."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from operator_protocols.domain.entry import Draft, Kind
from operator_sre.chain import chain_hash, digest_of_body
from operator_sre.ledger import Anchor, Damage, KeyFile, Report, verify
from operator_sre.store import Store, open_store
from tests.contract.clock import HeldClock

__all__ = ["ENTRIES", "EVERY", "Ledger"]

ENTRIES = 25
EVERY = 10
Row = dict[str, object]


class Ledger:
    """A ledger of 25 entries with checkpoints at 10, 20 and 25."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "operator.db"
        self.key = KeyFile(folder / "ledger.key")
        asyncio.run(self._fill(range(1, ENTRIES + 1)))

    def open(self) -> Store:
        """A handle, to be closed by the caller."""
        return open_store(self.path, clock=HeldClock(), signer=self.key, checkpoint_every=EVERY)

    async def _fill(self, numbers: Sequence[int]) -> None:
        store = self.open()
        for number in numbers:
            await store.journal.append(Draft(Kind.REASONING, {"text": f"step {number}"}, run="r"))
        store.close()

    def append(self, count: int) -> None:
        """Go on writing, as an operator would that has not noticed."""
        asyncio.run(self._fill(range(count)))

    def report(self, anchors: Sequence[Anchor] = (), key: str = "") -> Report:
        """What `verify` says of the file as it is."""
        store = self.open()
        try:
            return verify(
                store.entries,
                store.checkpoints,
                trusted_key=key or self.key.key,
                anchors=anchors,
            )
        finally:
            store.close()

    def damages(self, anchors: Sequence[Anchor] = ()) -> list[tuple[int, str]]:
        """Where and what."""
        return [(one.seq, one.kind.value) for one in self.report(anchors).damages]

    def first(self) -> Damage:
        """The first damage."""
        return self.report().damages[0]

    def row(self, seq: int) -> tuple[bytes, bytes, bytes, bytes]:
        """Body, digest, previous and hash of an entry."""
        with closing(sqlite3.connect(self.path)) as connection:
            row = connection.execute(
                "SELECT body, digest, previous, hash FROM entries WHERE seq = ?", (seq,)
            ).fetchone()
        return row[0], row[1], row[2], row[3]

    def sql(self, statement: str, *values: object) -> None:
        """Change the file behind the operator's back."""
        with closing(sqlite3.connect(self.path, isolation_level=None)) as connection:
            assert connection.execute(statement, values).rowcount > 0, statement

    def put(self, seq: int, body: bytes, *, rehash: bool, previous: bytes | None = None) -> bytes:
        """Write a body over an entry; with its hashes made to fit when `rehash`."""
        before = previous if previous is not None else self.row(seq)[2]
        digest = digest_of_body(body)
        linked = chain_hash(before, digest)
        if not rehash:
            self.sql("UPDATE entries SET body = ? WHERE seq = ?", body, seq)
            return b""
        self.sql(
            "UPDATE entries SET body = ?, digest = ?, previous = ?, hash = ? WHERE seq = ?",
            *(body, digest, before, linked, seq),
        )
        return linked

    def forged(self, seq: int) -> bytes:
        """The body of an entry with another text of the same length."""
        return self.row(seq)[0].replace(b"step", b"stop")

    def renumber(self, first: int, by: int) -> None:
        """Give every entry from `first` on another number."""
        self.sql("UPDATE entries SET seq = -seq WHERE seq >= ?", first)
        self.sql("UPDATE entries SET seq = -seq + ? WHERE seq < 0", by)
