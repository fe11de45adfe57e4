"""All rows from one database to another, with a fingerprint that proves them the same."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from operator_sre.store.database import Connection, Maintained, plain
from operator_sre.store.rebuild import Progress
from operator_sre.store.tables import Layout

__all__ = ["Fingerprint", "copy_rows", "fingerprints"]

BATCH_ROWS = 500
BATCH_BYTES = 4 * 1024 * 1024
_MODULUS = 2**256


class Fingerprint:
    """Stands for rows in any order: how many there are, and the sum of their hashes."""

    def __init__(self) -> None:
        self.rows = 0
        self._sum = 0

    def add(self, row: Sequence[Any]) -> None:
        """One more row. What one database keeps and another cannot counts as the same."""
        values = tuple(plain(one) if isinstance(one, str) else one for one in row)
        digest = hashlib.sha256(repr(values).encode()).digest()
        self._sum = (self._sum + int.from_bytes(digest, "big")) % _MODULUS
        self.rows += 1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Fingerprint) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((self.rows, self._sum))


def fingerprints(
    database: Maintained, connection: Connection, layout: Layout
) -> Mapping[str, Fingerprint]:
    """The fingerprint of every table, inside a transaction."""
    found = {table: Fingerprint() for table in layout.tables}
    for table, fingerprint in found.items():
        for row in database.stream(connection, layout.select(table)):
            fingerprint.add(row)
    return found


def copy_rows(
    source: Maintained, read: Connection, write: Connection, layout: Layout, *, progress: Progress
) -> Mapping[str, Fingerprint]:
    """Insert all rows of the source, and return what they were; both inside a transaction."""
    found = {table: Fingerprint() for table in layout.tables}
    for table, fingerprint in found.items():
        for batch in _batches(source.stream(read, layout.select(table))):
            write.executemany(layout.insert(table), batch)
            for row in batch:
                fingerprint.add(row)
            if table == "entries":
                progress(fingerprint.rows)
    return found


def _batches(rows: Iterator[Sequence[Any]]) -> Iterator[list[Sequence[Any]]]:
    """Rows in batches that fit into memory, however large a row is."""
    batch: list[Sequence[Any]] = []
    size = 0
    for row in rows:
        batch.append(row)
        size += sum(len(value) for value in row if isinstance(value, bytes | str))
        if len(batch) == BATCH_ROWS or size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
