"""Rebuilds the projections from the ledger, and compares them with the stored ones."""

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
# The errors that a projection can raise for bytes that are not a valid entry.
_UNREADABLE = (
    *(AttributeError, LookupError, TypeError, ValueError),
    *(msgspec.MsgspecError, sqlite3.Error),
)


@dataclass(frozen=True, slots=True)
class RawRow:
    """A stored row of an entry, with the columns that were derived from its bytes."""

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
    """How many rows of a table are missing, extra or changed in comparison with the ledger."""

    table: str
    missing: int
    extra: int
    changed: int

    @property
    def rows(self) -> int:
        """How many rows differ."""
        return self.missing + self.extra + self.changed


def walk(connection: Connection, after: int = 0) -> Iterator[RawRow]:
    """Every entry after `after`, oldest first, read in pages."""
    sql = (
        "SELECT seq, body, digest, previous, hash, kind, at, ticket, run, actor"
        " FROM entries WHERE seq > ? ORDER BY seq LIMIT ?"
    )
    while page := connection.execute(sql, (after, PAGE)).fetchall():
        yield from (RawRow(*row) for row in page)
        after = page[-1][0]


class Rebuilt:
    """New projections in a database of their own, so that writers of the store do not wait."""

    def __init__(self) -> None:
        self._scratch = scratch(*PROJECTIONS)
        self._scratch.execute("BEGIN")
        self.seq = 0

    def take(self, row: RawRow) -> None:
        """Apply one more entry. LedgerDamagedError when its bytes do not match its hash."""
        self.seq = row.seq
        if row.body is None:
            return
        if digest_of_body(row.body) != row.digest:
            raise _damage(row.seq, "its bytes do not match its hash")
        try:
            if Kind(record_from(row.body)["kind"]) in PROJECTED:
                project(self._scratch, entry_from(row.seq, row.body, row.previous, row.hash))
        except _UNREADABLE as error:
            raise _damage(row.seq, sentence(error)) from error

    def differences(self, database: Maintained, connection: Connection) -> tuple[Difference, ...]:
        """How the stored projections differ, by table; inside a transaction."""
        compared = [_compare(self._scratch, database, connection, table) for table in PROJECTIONS]
        return tuple(table.difference for table in compared if table.difference.rows)

    def adopt(self, database: Maintained, connection: Connection) -> tuple[Difference, ...]:
        """Replace the stored projections, and return how they differed."""
        tables = [_compare(self._scratch, database, connection, table) for table in PROJECTIONS]
        for compared in tables:
            table = compared.difference.table
            where = " AND ".join(f"{name} = ?" for name in LAYOUT.key(table))
            sql = f"DELETE FROM {table} WHERE {where}"  # noqa: S608
            connection.executemany(sql, compared.remove)
            select = f"{LAYOUT.select(table)} WHERE {where}"
            for start in range(0, len(compared.insert), BATCH):
                keys = compared.insert[start : start + BATCH]
                rows = [self._scratch.execute(select, key).fetchone() for key in keys]
                connection.executemany(LAYOUT.insert(table), rows)
        return tuple(table.difference for table in tables if table.difference.rows)

    def close(self) -> None:
        """Delete it."""
        self._scratch.close()


def rebuild(database: Maintained, *, progress: Progress) -> tuple[Difference, ...]:
    """Rebuild all projections in one transaction, and return how the old ones differed.

    The long part comes before the transaction: writers wait only while the last entries are applied
    and changed rows are replaced.
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
        # The entries read without a lock are still the same, unless a purge ran meanwhile.
        sql = "SELECT seq FROM entries WHERE seq > ? AND kind = ? LIMIT 1"
        behind = (int(head[0]) if head else 0, Kind.PURGED.value)
        if connection.execute(sql, behind).fetchone():
            raise StoreError("Entries were purged meanwhile.", next_step="Run it again.")
        for row in walk(connection, rebuilt.seq):
            rebuilt.take(row)
        found = rebuilt.adopt(database, connection)
        if found:
            forget_index(database, connection)  # it may have words of replaced rows
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
    """Compare two tables side by side, in the order of their keys."""
    key = LAYOUT.key(table)
    sql = f"{LAYOUT.select(table)} ORDER BY {', '.join(key)}"
    places = [LAYOUT.columns(table).index(name) for name in key]
    mine, theirs = iter(fresh.execute(sql).fetchone, None), database.stream(connection, sql)
    missing: list[Key] = []
    extra: list[Key] = []
    changed: list[Key] = []
    new, old = _next(mine, places), _next(theirs, places)
    while new or old:
        if old is None or (new is not None and new[0] < old[0]):
            assert new is not None
            missing.append(new[0])
            new = _next(mine, places)
        elif new is None or old[0] < new[0]:
            extra.append(old[0])
            old = _next(theirs, places)
        else:
            if new[1] != old[1]:
                changed.append(new[0])
            new, old = _next(mine, places), _next(theirs, places)
    difference = Difference(table, len(missing), len(extra), len(changed))
    return _Compared(difference, [*extra, *changed], [*missing, *changed])


def _next(rows: Iterator[Sequence[Any]], places: Sequence[int]) -> tuple[Key, Row] | None:
    row = next(rows, None)
    if row is None:
        return None
    # Text that only one of the databases can hold counts as the same.
    comparable = tuple(plain(value) if isinstance(value, str) else value for value in row)
    return tuple(comparable[place] for place in places), comparable


def _damage(seq: int, why: str) -> LedgerDamagedError:
    return LedgerDamagedError(
        f"Entry {seq} is damaged, so nothing can be rebuilt from it: {why}.",
        next_step="Verify the ledger with: operator audit verify",
    )


@dataclass(frozen=True, slots=True)
class CheckReport:
    """The problems of a store; `operator audit verify` checks the chain itself."""

    entries: int
    purged: int
    problems: tuple[str, ...]
    differences: tuple[Difference, ...]

    @property
    def sound(self) -> bool:
        """True without problems and differences."""
        return not self.problems and not self.differences


def check(database: Maintained, *, progress: Progress) -> CheckReport:
    """Check everything as of one moment; changes nothing and blocks no writer."""
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
    """Which columns of an entry differ from its bytes; '' when none do. Pure."""
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
    columns = {
        name: plain(value) if isinstance(value, str) else value for name, value in stored.items()
    }
    wrong = [name for name, value in recorded.items() if columns[name] != value]
    return f"the bytes of entry {row.seq} do not match its {', '.join(wrong)}" if wrong else ""
