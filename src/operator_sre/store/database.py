"""The interface of a database: sessions, transactions, and its dialect of SQL."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Protocol

from operator_protocols.errors import StoreError

__all__ = [
    "Connection",
    "Cursor",
    "Database",
    "Kept",
    "Maintained",
    "Reader",
    "Rows",
    "explain_failures",
    "plain",
    "sentence",
]

Rows = Callable[[str, Sequence[object]], list[Any]]


def plain(text: str) -> str:
    """Text as every column can hold it; a lone surrogate, which the ledger keeps, becomes `?`."""
    if text.isascii() and "\0" not in text:
        return str(text)  # the common case, on the path of every append
    return text.encode("utf-8", "replace").decode().replace("\0", "?")


def sentence(error: Exception) -> str:
    """The first line of a driver's error as part of a sentence; it holds no stored value."""
    lines = str(error).strip().splitlines()
    return lines[0].strip().rstrip(".") if lines else type(error).__name__


class Cursor(Protocol):
    """The result of one statement."""

    @property
    def rowcount(self) -> int:
        """How many rows it changed."""

    def fetchone(self) -> Any:
        """The next row, or None."""

    def fetchall(self) -> list[Any]:
        """All rows that are left."""


class Connection(Protocol):
    """One session. Statements have `?` for values in every database."""

    def execute(self, sql: str, values: Sequence[object] = ()) -> Cursor:
        """One statement."""

    def executemany(self, sql: str, rows: Iterable[Sequence[object]]) -> object:
        """One statement for many rows."""

    def close(self) -> None:
        """End the session."""


class Database(Protocol):
    """One database."""

    name: str  # `sqlite` or `postgresql`
    near: bool  # without a network in between, so that the event loop may query it directly
    remedy: str  # the next step for a person when it fails
    conflicts: tuple[type[Exception], ...]  # the errors of a unique index
    failures: tuple[type[Exception], ...]  # the errors of disk, network or server

    @property
    def place(self) -> str:
        """Its path or address, for people; never with a password."""

    def writer(self) -> Connection:
        """The session of a writer."""

    def reader(self) -> Connection:
        """A session that only reads."""

    def indexer(self) -> Connection:
        """The session of the indexer, which may lose its last steps in a crash."""

    def begin(self, connection: Connection, *, wait: bool = True) -> bool:
        """Begin a transaction that no other writer can be in, here or in another process.

        With `wait` False it returns False instead of waiting for another writer.
        """

    def snapshot(self, connection: Connection) -> None:
        """Begin a transaction that changes nothing and sees one moment to its end."""

    def hold_index(self, connection: Connection, *, afresh: bool) -> None:
        """Begin a transaction that holds the index exclusively.

        `afresh` also holds the ledger where the index is a separate file: a purge forgets the index
        first, and a new index must not contain words of texts that are being purged.
        """

    def distrust_index(self, error: Exception) -> None:
        """Delete the index if the error shows that it is damaged."""

    def drop_index(self, connection: Connection, tables: Sequence[str]) -> None:
        """Drop the index, inside a transaction that no other writer can be in."""

    def tidy(self) -> bool:
        """Finish overwriting purged data that a reader held before; True when nothing is left."""


class Versioned(Protocol):
    """A database that stores the version of its tables."""

    def prepare(self) -> None:
        """Create the tables on first use; refuse those of another program or version."""

    def version(self) -> int:
        """The version of its tables, 0 without tables. Refuses those of another program."""

    def render(self, sql: str) -> str:
        """Replace type names such as `{int}` with those of this database."""

    def mark(self, connection: Connection, version: int) -> None:
        """Store the version of the tables, inside the current transaction."""


class Lasting(Protocol):
    """A database that allows long work beside other sessions."""

    def session(self) -> Connection:
        """A session without time limits, to read and to write."""

    def stream(self, connection: Connection, sql: str) -> Iterator[Sequence[Any]]:
        """The rows of a query inside a transaction, without holding them all."""


class Inspected(Protocol):
    """A database that can check and compact itself."""

    def problems(self, connection: Connection) -> list[str]:
        """The problems of its own files, tables and indexes."""

    def settle(self, connection: Connection) -> bool:
        """Compact the database after a large change, and set its sequences.

        False when a reader prevents it: replaced data is then on the disk until `tidy`.
        """


class Maintained(Database, Versioned, Lasting, Inspected, Protocol):
    """A database with all abilities that checking, copying and changing a whole store needs."""


@contextmanager
def explain_failures(
    database: Database, trouble: str, *others: type[Exception], next_step: str = ""
) -> Iterator[None]:
    """Raise StoreError with `trouble` and the reason when the database fails."""
    failures = (*others, *database.failures)
    try:
        yield
    except failures as error:
        message = f"{trouble}: {sentence(error)}."
        raise StoreError(message, next_step=next_step or database.remedy) from error


class Kept:
    """A session that is opened on first use, and abandoned after an error."""

    def __init__(self, database: Database, connect: Callable[[], Connection]) -> None:
        self._failures = database.failures
        self._open = connect
        self._connection: Connection | None = None

    def get(self) -> Connection:
        """The session, a new one if there is none."""
        if self._connection is None:
            self._connection = self._open()
        return self._connection

    def abandon(self) -> None:
        """Close the session, which ends its transaction."""
        if self._connection is not None:
            connection, self._connection = self._connection, None
            with suppress(*self._failures):
                connection.close()


class Reader:
    """A read-only session, opened on first use, for one thread at a time."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._session = Kept(database, database.reader)

    def rows(self, sql: str, values: Sequence[object] = ()) -> list[Any]:
        """The rows of one query."""
        with self._hold():
            return self._session.get().execute(sql, values).fetchall()

    @contextmanager
    def snapshot(self) -> Iterator[Rows]:
        """Queries that all see the same moment.

        A row and the entries that confirm it are compared in a snapshot, because a writer that
        commits between two queries would make them differ. Do not use the reader itself inside.
        """
        with self._hold():
            session = self._session.get()
            self._database.snapshot(session)
            try:
                yield lambda sql, values: session.execute(sql, values).fetchall()
            finally:
                session.execute("ROLLBACK")

    @contextmanager
    def _hold(self) -> Iterator[None]:
        with self._lock:
            try:
                yield
            except self._database.failures as error:
                self._session.abandon()  # the next query opens a new one
                message = f"The store could not be read: {sentence(error)}."
                raise StoreError(message, next_step=self._database.remedy) from error

    def stream(self, sql: str, values: Sequence[object], *, page: int) -> Iterator[list[Any]]:
        """Pages of rows of a query that takes the last row's first column and a limit."""
        while rows := self.rows(sql, (*values, page)):
            yield rows
            values = (*values[:-1], rows[-1][0])

    def renew(self) -> None:
        """Open a new session for the next query, which sees new files of the index."""
        if self._database.near:
            with self._lock:
                self._session.abandon()

    def close(self) -> None:
        """Close the session."""
        with self._lock:
            self._session.abandon()
