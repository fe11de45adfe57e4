"""Projections made anew from the ledger, beside the stored ones, and what differs or is wrong."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from operator_protocols.domain.entry import Kind
from operator_protocols.errors import LedgerDamagedError, StoreError
from operator_sre.chain import digest_of_body, entry_from, record_from
from operator_sre.store.database import Connection, Maintained, explain_failures, plain, sentence
from operator_sre.store.projections import PROJECTED, project
from operator_sre.store.schema import LAYOUT, PROJECTIONS
from operator_sre.store.sqlite import scratch
from operator_sre.store.textindex import forget_index

__all__ = [
    "CheckReport",
    "Difference",
    "Progress",
    "RawRow",
    "Rebuilt",
    "check",
    "rebuild",
    "walk",
    "wrong_columns",
]

PAGE = 500
BATCH = 500
PROBLEMS_MAX = 100
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
        compared = [_compare(self._scratch, database, connection, table) for table in PROJECTIONS]
        return tuple(table.difference for table in compared if table.difference.rows)

    def adopt(self, database: Maintained, connection: Connection) -> tuple[Difference, ...]:
        """Make the stored projections the same; returns how they differed."""
        found = [_compare(self._scratch, database, connection, table) for table in PROJECTIONS]
        for compared in found:
            table = compared.difference.table
            where = " AND ".join(f"{name} = ?" for name in LAYOUT.key(table))
            sql = f"DELETE FROM {table} WHERE {where}"  # noqa: S608
            connection.executemany(sql, compared.remove)
            select = f"{LAYOUT.select(table)} WHERE {where}"
            for start in range(0, len(compared.insert), BATCH):
                keys = compared.insert[start : start + BATCH]
                rows = [self._scratch.execute(select, key).fetchone() for key in keys]
                connection.executemany(LAYOUT.insert(table), rows)
        return tuple(one.difference for one in found if one.difference.rows)

    def close(self) -> None:
        """Throw it away."""
        self._scratch.close()


def rebuild(database: Maintained, *, progress: Progress) -> tuple[Difference, ...]:
    """Make all projections anew in one transaction; returns how the old ones differed.

    The long part is done beforehand: others wait only while the last entries are followed and
    what differs is replaced.
    """
    with (
        explain_failures(database, "The store could not be rebuilt"),
        closing(Rebuilt()) as rebuilt,
        closing(database.session()) as connection,
    ):
        sql = "SELECT seq FROM entries ORDER BY seq DESC LIMIT 1"
        head = connection.execute(sql).fetchone()
        for row in walk(connection):
            rebuilt.take(row)
            if row.seq % PAGE == 0:
                progress(row.seq)
        database.begin(connection)
        # What was followed without a lock holds, unless retention took entries away meanwhile.
        sql = "SELECT seq FROM entries WHERE seq > ? AND kind = ? LIMIT 1"
        behind = (int(head[0]) if head else 0, Kind.PURGED.value)
        if connection.execute(sql, behind).fetchone():
            raise StoreError("Entries were purged meanwhile.", next_step="Run it again.")
        for row in walk(connection, rebuilt.seq):
            rebuilt.take(row)
        found = rebuilt.adopt(database, connection)
        if found:
            forget_index(database, connection)  # it may have words of rows that are no more
        connection.execute("COMMIT")
    progress(rebuilt.seq)
    return found


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


def _damaged(seq: int, why: str) -> LedgerDamagedError:
    return LedgerDamagedError(
        f"Entry {seq} is damaged, so nothing can be rebuilt from it: {why}.",
        next_step="Verify the ledger with: operator audit verify",
    )


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What was found wrong; the chain itself is for `operator audit verify`."""

    entries: int
    purged: int
    problems: tuple[str, ...]
    differences: tuple[Difference, ...]

    @property
    def sound(self) -> bool:
        """True when nothing is wrong."""
        return not self.problems and not self.differences


def check(database: Maintained, *, progress: Progress) -> CheckReport:
    """Look through everything, as it was at one moment; nobody waits and nothing is changed."""
    entries = purged = 0
    with (
        explain_failures(database, "The store could not be checked"),
        closing(Rebuilt()) as rebuilt,
        closing(database.session()) as connection,
    ):
        problems = database.problems(connection)
        database.snapshot(connection)
        for row in walk(connection):
            entries += 1
            purged += row.body is None
            problem = wrong_columns(row)
            try:
                rebuilt.take(row)
            except LedgerDamagedError as error:
                problem = error.message.rstrip(".")
            if problem and len(problems) < PROBLEMS_MAX:
                problems.append(problem)
            if entries % PAGE == 0:
                progress(row.seq)
        differences = rebuilt.differences(database, connection)
    return CheckReport(entries, purged, tuple(problems), differences)


def wrong_columns(row: RawRow) -> str:
    """Which columns of an entry do not say what its bytes say; '' when all do. Pure."""
    if row.body is None:
        return ""
    try:
        record = record_from(row.body)
        recorded = {
            "kind": record["kind"],
            "at": datetime.fromisoformat(record["at"]).timestamp(),
            "ticket": record["ticket"],
            "run": plain(record["run"]),
            "actor": plain(record["actor"]["id"]),
        }
    except (LookupError, TypeError, ValueError, AttributeError, msgspec.MsgspecError):
        return f"entry {row.seq} cannot be parsed as an entry"
    stored = {name: getattr(row, name) for name in recorded}
    columns = {name: plain(one) if isinstance(one, str) else one for name, one in stored.items()}
    wrong = [name for name, value in recorded.items() if columns[name] != value]
    return f"entry {row.seq} has other bytes than its {', '.join(wrong)} say" if wrong else ""
