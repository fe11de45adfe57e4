"""Projections made anew from the ledger, beside the stored ones, and what differs."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import msgspec

from operator_protocols.domain.entry import Kind
from operator_protocols.errors import LedgerDamagedError, StoreError
from operator_sre.chain import digest_of_body, entry_from, record_from
from operator_sre.store.database import Connection, Maintained, plain, sentence
from operator_sre.store.projections import PROJECTED, project
from operator_sre.store.schema import PROJECTIONS
from operator_sre.store.sqlite import scratch
from operator_sre.store.tables import LAYOUT
from operator_sre.store.textindex import forget_index

__all__ = ["Difference", "RawRow", "Rebuilt", "rebuild", "walk"]

PAGE = 500
BATCH = 500
Progress = Callable[[int], None]
Row = tuple[Any, ...]
Key = tuple[Any, ...]
# What bytes that are no entry of ours can make a projection raise.
_UNREADABLE = (
    *(AttributeError, LookupError, TypeError, ValueError),
    *(msgspec.MsgspecError, sqlite3.Error),
)


@dataclass(frozen=True, slots=True)
class RawRow:
    """A stored entry as it lies, with the columns that were derived from its bytes."""

    seq: int
    body: bytes | None
    digest: bytes
    previous: bytes
    hash: bytes
    kind: str
    at: float
    ticket: int | None
    run: str
    actor: str


@dataclass(frozen=True, slots=True)
class Difference:
    """Rows of one table that the ledger has and the table not, the other way round, and others."""

    table: str
    missing: int
    extra: int
    changed: int

    @property
    def rows(self) -> int:
        """How many rows differ in any way."""
        return self.missing + self.extra + self.changed


def walk(connection: Connection, after: int = 0) -> Iterator[RawRow]:
    """Every entry behind `after`, oldest first, in pages."""
    sql = (
        "SELECT seq, body, digest, previous, hash, kind, at, ticket, run, actor"
        " FROM entries WHERE seq > ? ORDER BY seq LIMIT ?"
    )
    while page := connection.execute(sql, (after, PAGE)).fetchall():
        yield from (RawRow(*row) for row in page)
        after = page[-1][0]


class Rebuilt:
    """All projections anew, in a database of their own; nobody is kept from writing meanwhile."""

    def __init__(self) -> None:
        self._scratch = scratch(*PROJECTIONS)
        self._scratch.execute("BEGIN")
        self.seq = 0

    def take(self, row: RawRow) -> None:
        """Follow one more entry. LedgerDamagedError when its bytes are not what was written."""
        self.seq = row.seq
        if row.body is None:
            return
        if digest_of_body(row.body) != row.digest:
            raise _damaged(row.seq, "its bytes do not match its hash")
        try:
            if Kind(record_from(row.body)["kind"]) in PROJECTED:
                project(self._scratch, entry_from(row.seq, row.body, row.previous, row.hash))
        except _UNREADABLE as error:
            raise _damaged(row.seq, sentence(error)) from error

    def differences(self, database: Maintained, connection: Connection) -> tuple[Difference, ...]:
        """How the stored projections differ, by table; inside a transaction."""
        found = [_compare(self._scratch, database, connection, table) for table in PROJECTIONS]
        return tuple(one.difference for one in found if one.difference.rows)

    def adopt(self, database: Maintained, connection: Connection) -> tuple[Difference, ...]:
        """Make the stored projections the same; returns how they differed."""
        found = [_compare(self._scratch, database, connection, table) for table in PROJECTIONS]
        for one in found:
            _adopt(self._scratch, connection, one)
        return tuple(one.difference for one in found if one.difference.rows)

    def close(self) -> None:
        """Throw it away."""
        self._scratch.close()


def rebuild(database: Maintained, *, progress: Progress) -> tuple[Difference, ...]:
    """Make all projections anew in one transaction; returns how the old ones differed.

    The long part is done beforehand: others wait only while the last entries are followed and
    what differs is replaced.
    """
    try:
        with closing(Rebuilt()) as rebuilt, closing(database.session()) as connection:
            start = _head(connection)
            for row in walk(connection):
                rebuilt.take(row)
                if row.seq % PAGE == 0:
                    progress(row.seq)
            database.begin(connection)
            _must_still_hold(connection, start)
            for row in walk(connection, rebuilt.seq):
                rebuilt.take(row)
            found = rebuilt.adopt(database, connection)
            if found:
                forget_index(database, connection)  # it may have words of rows that are no more
            connection.execute("COMMIT")
    except database.failures as error:
        raise StoreError(
            f"The store could not be rebuilt: {sentence(error)}.", next_step=database.remedy
        ) from error
    progress(rebuilt.seq)
    return found


def _head(connection: Connection) -> int:
    row = connection.execute("SELECT seq FROM entries ORDER BY seq DESC LIMIT 1").fetchone()
    return int(row[0]) if row else 0


def _must_still_hold(connection: Connection, start: int) -> None:
    """What was followed without a lock holds, unless retention took entries away meanwhile."""
    sql = "SELECT seq FROM entries WHERE seq > ? AND kind = ? LIMIT 1"
    if connection.execute(sql, (start, Kind.PURGED.value)).fetchone():
        raise StoreError("Entries were purged meanwhile.", next_step="Run it again.")


@dataclass(frozen=True, slots=True)
class _Compared:
    difference: Difference
    remove: Sequence[Key]
    insert: Sequence[Key]


def _compare(
    fresh: Connection, database: Maintained, connection: Connection, table: str
) -> _Compared:
    """Both tables side by side, in the order of their keys."""
    key = LAYOUT.key(table)
    sql = f"{LAYOUT.select(table)} ORDER BY {', '.join(key)}"
    places = [LAYOUT.columns(table).index(name) for name in key]
    mine, theirs = iter(fresh.execute(sql).fetchone, None), database.stream(connection, sql)
    missing: list[Key] = []
    extra: list[Key] = []
    changed: list[Key] = []
    one, other = _next(mine, places), _next(theirs, places)
    while one or other:
        if other is None or (one is not None and one[0] < other[0]):
            assert one is not None
            missing.append(one[0])
            one = _next(mine, places)
        elif one is None or other[0] < one[0]:
            extra.append(other[0])
            other = _next(theirs, places)
        else:
            if one[1] != other[1]:
                changed.append(one[0])
            one, other = _next(mine, places), _next(theirs, places)
    difference = Difference(table, len(missing), len(extra), len(changed))
    return _Compared(difference, [*extra, *changed], [*missing, *changed])


def _next(rows: Iterator[Sequence[Any]], places: Sequence[int]) -> tuple[Key, Row] | None:
    row = next(rows, None)
    if row is None:
        return None
    # What one database keeps and another cannot is the same thing.
    comparable = tuple(plain(value) if isinstance(value, str) else value for value in row)
    return tuple(comparable[place] for place in places), comparable


def _adopt(fresh: Connection, connection: Connection, compared: _Compared) -> None:
    table = compared.difference.table
    where = " AND ".join(f"{name} = ?" for name in LAYOUT.key(table))
    connection.executemany(f"DELETE FROM {table} WHERE {where}", compared.remove)  # noqa: S608
    select = f"{LAYOUT.select(table)} WHERE {where}"
    for start in range(0, len(compared.insert), BATCH):
        keys = compared.insert[start : start + BATCH]
        rows = [fresh.execute(select, key).fetchone() for key in keys]
        connection.executemany(LAYOUT.insert(table), rows)


def _damaged(seq: int, why: str) -> LedgerDamagedError:
    return LedgerDamagedError(
        f"Entry {seq} is damaged, so that nothing can follow from it: {why}.",
        next_step="See what was done to the ledger with: operator audit verify",
    )
