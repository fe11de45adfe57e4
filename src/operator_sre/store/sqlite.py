"""One SQLite file as the database: the embedded default."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from operator_protocols.errors import StoreError
from operator_sre.store.database import Connection
from operator_sre.store.schema import SCHEMA, SCHEMA_VERSION

__all__ = ["APPLICATION_ID", "SqliteDatabase"]

APPLICATION_ID = 0x0F5EC0DE  # marks the file as ours, so that a foreign one is refused untouched
BUSY_S = 10.0
_TYPES = {"int": "INTEGER", "real": "REAL", "bytes": "BLOB", "serial": "INTEGER PRIMARY KEY"}


class SqliteDatabase:
    """WAL, synchronous=FULL: readers never wait, and what is acknowledged is on the disk."""

    name = "sqlite"
    conflicts: tuple[type[Exception], ...] = (sqlite3.IntegrityError,)
    failures: tuple[type[Exception], ...] = (sqlite3.OperationalError, sqlite3.DatabaseError)

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()

    def prepare(self) -> None:
        """Make the file on first use. A file that is not ours is refused and left as it is."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            # Created by hand first, so that nobody else can read it at any moment.
            os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
            connection = self._connect(f"{self.path.as_uri()}?mode=rw")
            try:
                self._prepare(connection)
            finally:
                connection.close()
        except (OSError, sqlite3.Error) as error:
            raise StoreError(
                f"The state directory {str(self.path.parent)!r} cannot be used: {error}.",
                next_step="Name another one with --home DIR or OPERATOR_HOME.",
            ) from error

    def writer(self) -> Connection:
        """The session of a writer."""
        connection = self._connect(f"{self.path.as_uri()}?mode=rw")
        connection.execute("PRAGMA synchronous = FULL")
        return connection

    def reader(self) -> Connection:
        """A session that only reads."""
        return self._connect(f"{self.path.as_uri()}?mode=ro")

    def begin(self, connection: Connection) -> None:
        """Begin a transaction that no other writer can be in."""
        connection.execute("BEGIN IMMEDIATE")

    def _connect(self, uri: str) -> sqlite3.Connection:
        return sqlite3.connect(
            uri, uri=True, timeout=BUSY_S, isolation_level=None, check_same_thread=False
        )

    def _prepare(self, connection: sqlite3.Connection) -> None:
        version = self._refuse_foreign(connection)
        if version == SCHEMA_VERSION:
            return
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        # One transaction that may run twice: two processes may meet an empty file at once.
        connection.executescript(
            f"BEGIN IMMEDIATE; {SCHEMA.format(**_TYPES)} PRAGMA application_id = {APPLICATION_ID};"
            f" PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;"
        )

    def _refuse_foreign(self, connection: sqlite3.Connection) -> int:
        application = connection.execute("PRAGMA application_id").fetchone()[0]
        version: int = connection.execute("PRAGMA user_version").fetchone()[0]
        tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if application != APPLICATION_ID and (application or version or tables):
            raise StoreError(
                f"{str(self.path)!r} is a database of another program; it was left as it is.",
                next_step="Name another directory with --home DIR.",
            )
        if version > SCHEMA_VERSION:
            raise StoreError(
                f"{str(self.path)!r} was written by a newer Operator (schema {version}).",
                next_step="Upgrade this one.",
            )
        return version
