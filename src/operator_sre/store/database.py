"""What the store asks of a database: sessions, and a few words of SQL."""

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
    "Inspected",
    "Kept",
    "Lasting",
    "Maintained",
    "Reader",
    "Rows",
    "Versioned",
    "explain_failures",
    "plain",
    "sentence",
]

Rows = Callable[[str, Sequence[object]], list[Any]]


def plain(text: str) -> str:
    """Free text as any column holds it; a lone surrogate, which the ledger keeps, becomes `?`."""
    if text.isascii() and "\0" not in text:
        return str(text)  # nearly always, and every append asks
    return text.encode("utf-8", "replace").decode().replace("\0", "?")


def sentence(error: Exception) -> str:
    """What a driver says, as part of a sentence: its first line, which holds no stored value."""
    lines = str(error).strip().splitlines()
    return lines[0].strip().rstrip(".") if lines else type(error).__name__


class Cursor(Protocol):
    """The answer to one statement."""

    @property
    def rowcount(self) -> int:
        """How many rows it changed."""

    def fetchone(self) -> Any:
        """The next row, or None."""

    def fetchall(self) -> list[Any]:
        """All rows that are left."""


class Connection(Protocol):
    """One session. Statements are written with `?` for values, whatever the database."""

    def execute(self, sql: str, values: Sequence[object] = ()) -> Cursor:
        """One statement."""

    def executemany(self, sql: str, rows: Iterable[Sequence[object]]) -> object:
        """One statement for many rows."""

    def close(self) -> None:
        """End the session."""


class Database(Protocol):
    """One database. Its implementations differ in nothing that this does not say."""

    name: str  # `sqlite` or `postgresql`
    near: bool  # whether it answers without a network in between, so that a loop may ask it itself
    remedy: str  # what a person looks at first when it fails
    conflicts: tuple[type[Exception], ...]  # what is raised when a unique index says no
    failures: tuple[type[Exception], ...]  # what is raised when disk, network or server fails

    @property
    def place(self) -> str:
        """Where it is, for people; never with a password."""

    def writer(self) -> Connection:
        """The session of a writer."""

    def reader(self) -> Connection:
        """A session that only reads."""

    def indexer(self) -> Connection:
        """The session of whoever fills the index, which may lose its last steps in a crash."""

    def begin(self, connection: Connection, *, wait: bool = True) -> bool:
        """Begin a transaction that no other writer can be in, here or in another process.

        With `wait` False it returns False instead of waiting for another writer.
        """

    def snapshot(self, connection: Connection) -> None:
        """Begin a transaction that changes nothing and sees one moment to its end."""

    def hold_index(self, connection: Connection, *, afresh: bool) -> None:
        """Begin a transaction in which nobody else changes the index.

        Where the index is apart from the ledger, nobody else writes that either when it is begun
        `afresh`: whoever takes texts away forgets the index first, and words of texts that are
        just going must not come back.
        """

    def distrust_index(self, error: Exception) -> None:
        """Throw an index away that is damaged, if this is what the error says."""

    def drop_index(self, connection: Connection, tables: Sequence[str]) -> None:
        """Take the index away, inside a transaction that no other writer can be in."""

    def tidy(self) -> bool:
        """Let go of what could not be let go at once; True when there is nothing more of it."""


class Versioned(Protocol):
    """A database that knows how old its tables are."""

    def prepare(self) -> None:
        """Make the tables on first use; refuse what is another program's, older or newer."""

    def version(self) -> int:
        """The version of its tables, 0 where there are none. Refuses what is another program's."""

    def worded(self, sql: str) -> str:
        """A statement that names types as `{int}`, in the words of this database."""

    def mark(self, connection: Connection, version: int) -> None:
        """Say how old the tables are from now on, inside the transaction that is under way."""


class Lasting(Protocol):
    """A database that can be worked on for a long time, beside everybody else."""

    def session(self) -> Connection:
        """A session without time limits, to read and to write."""

    def stream(self, connection: Connection, sql: str) -> Iterator[Sequence[Any]]:
        """The rows of a query inside a transaction, without holding them all."""


class Inspected(Protocol):
    """A database that can look at itself."""

    def problems(self, connection: Connection) -> list[str]:
        """What it finds wrong with its own files, tables and indexes."""

    def settle(self, connection: Connection) -> bool:
        """Behind a large change: let go of what was replaced, and count numbers on from here.

        False when somebody is in the way, so that some of it is on the disk until `tidy`.
        """


class Maintained(Database, Versioned, Lasting, Inspected, Protocol):
    """A database with all that checking, copying and changing a whole store needs."""


@contextmanager
def explain_failures(
    database: Database, trouble: str, *others: type[Exception], next_step: str = ""
) -> Iterator[None]:
    """Say what could not be done, and why, when the database fails or another is raised."""
    failures = (*others, *database.failures)
    try:
        yield
    except failures as error:
        message = f"{trouble}: {sentence(error)}."
        raise StoreError(message, next_step=next_step or database.remedy) from error


class Kept:
    """A session that is opened when it is first needed, and given up after trouble."""

    def __init__(self, database: Database, opened: Callable[[], Connection]) -> None:
        self._failures = database.failures
        self._open = opened
        self._connection: Connection | None = None

    def get(self) -> Connection:
        """The session, a new one if there is none."""
        if self._connection is None:
            self._connection = self._open()
        return self._connection

    def abandon(self) -> None:
        """Give it up, which ends its transaction."""
        if self._connection is not None:
            connection, self._connection = self._connection, None
            with suppress(*self._failures):
                connection.close()


class Reader:
    """A read-only session, opened when it is first needed, for one thread at a time."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._session = Kept(database, database.reader)

    def rows(self, sql: str, values: Sequence[object] = ()) -> list[Any]:
        """The rows of one query."""
        with self._locked():
            return self._session.get().execute(sql, values).fetchall()

    @contextmanager
    def snapshot(self) -> Iterator[Rows]:
        """Queries that all see the same moment.

        A row and the entries that confirm it are compared in one of these: a writer that commits
        between two queries would make them differ. Inside, nothing else of this reader is used.
        """
        with self._locked():
            session = self._session.get()
            self._database.snapshot(session)
            try:
                yield lambda sql, values: session.execute(sql, values).fetchall()
            finally:
                session.execute("ROLLBACK")

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with self._lock:
            try:
                yield
            except self._database.failures as error:
                self._session.abandon()  # the next question is asked in a session of its own
                message = f"The store could not be read: {sentence(error)}."
                raise StoreError(message, next_step=self._database.remedy) from error

    def stream(self, sql: str, values: Sequence[object], *, page: int) -> Iterator[list[Any]]:
        """Pages of rows of a query that takes the last row's first column and a limit."""
        while rows := self.rows(sql, (*values, page)):
            yield rows
            values = (*values[:-1], rows[-1][0])

    def renew(self) -> None:
        """Ask the next question in a session that sees files which were not there before."""
        if self._database.near:
            with self._lock:
                self._session.abandon()

    def close(self) -> None:
        """Give the session back."""
        with self._lock:
            self._session.abandon()
