"""The store in one SQLite file: opened, checked, and closed."""

from __future__ import annotations

import os
import sqlite3
from dataclasses import dataclass
from pathlib import Path

from operator_protocols.domain.entry import Draft, Entry
from operator_protocols.errors import StoreError
from operator_protocols.ports import Clock
from operator_sre.store.approvals import SqliteApprovals
from operator_sre.store.entries import SqliteEntries
from operator_sre.store.intents import SqliteIntents
from operator_sre.store.reader import Reader
from operator_sre.store.runs import SqliteRuns
from operator_sre.store.schema import APPLICATION_ID, SCHEMA, SCHEMA_VERSION
from operator_sre.store.telemetry import SqliteConditions, SqliteObservations
from operator_sre.store.tickets import SqliteLeases, SqliteTickets
from operator_sre.store.writer import Writer

__all__ = ["SqliteJournal", "Store", "open_store"]

BUSY_S = 10.0
OBSERVATIONS_KEPT = 20_000


class SqliteJournal:
    """The writing end of the ledger."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    async def append(self, draft: Draft) -> Entry:
        """Durable when it returns; a second draft with the same key returns the first entry."""
        return await self._writer.write(lambda transaction: transaction.append(draft))


@dataclass(frozen=True, slots=True)
class Store:
    """Every stored noun's port, on one database."""

    path: Path
    journal: SqliteJournal
    entries: SqliteEntries
    tickets: SqliteTickets
    leases: SqliteLeases
    runs: SqliteRuns
    approvals: SqliteApprovals
    intents: SqliteIntents
    conditions: SqliteConditions
    observations: SqliteObservations
    _reader: Reader
    _writer: Writer

    def close(self) -> None:
        """Finish what is being written and let go of the file."""
        self._writer.close()
        self._reader.close()


def open_store(path: Path, *, clock: Clock) -> Store:
    """Open the store at `path`, making it on first use. A file that is not ours is refused."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        connection = _connect(path)
    except (OSError, sqlite3.Error) as error:
        raise StoreError(
            f"The state directory {str(path.parent)!r} cannot be used: {error}.",
            next_step="Name another one with --home DIR or OPERATOR_HOME.",
        ) from error
    writer = Writer(connection, clock)
    reader = Reader(path, busy_s=BUSY_S)
    return Store(
        path=path,
        journal=SqliteJournal(writer),
        entries=SqliteEntries(reader),
        tickets=SqliteTickets(reader, writer),
        leases=SqliteLeases(writer),
        runs=SqliteRuns(reader),
        approvals=SqliteApprovals(reader, writer),
        intents=SqliteIntents(writer),
        conditions=SqliteConditions(reader, writer),
        observations=SqliteObservations(reader, writer, kept=OBSERVATIONS_KEPT),
        _reader=reader,
        _writer=writer,
    )


def _connect(path: Path) -> sqlite3.Connection:
    # Created by hand first, so that nobody else can read it at any moment.
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    connection = sqlite3.connect(
        path, timeout=BUSY_S, isolation_level=None, check_same_thread=False
    )
    try:
        _prepare(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    _refuse_foreign(connection, path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    # One transaction that may run twice: two processes may meet an empty file at once.
    connection.executescript(
        f"BEGIN IMMEDIATE; {SCHEMA} PRAGMA application_id = {APPLICATION_ID};"
        f" PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;"
    )


def _refuse_foreign(connection: sqlite3.Connection, path: Path) -> None:
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if application != APPLICATION_ID and (application or version or tables):
        raise StoreError(
            f"{str(path)!r} is a database of another program; it was left as it is.",
            next_step="Name another directory with --home DIR.",
        )
    if version > SCHEMA_VERSION:
        raise StoreError(
            f"{str(path)!r} was written by a newer Operator (schema {version}).",
            next_step="Upgrade this one.",
        )
