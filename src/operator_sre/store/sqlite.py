"""One SQLite file as the database: the embedded default."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from operator_protocols.errors import StoreError
from operator_sre.store.database import Connection, plain, sentence
from operator_sre.store.migrations import must_be_current
from operator_sre.store.schema import SCHEMA_VERSION
from operator_sre.store.searchfile import (
    SearchFile,
    closed_unless_ready,
    is_damaged,
    make_private,
    with_companions,
)
from operator_sre.store.tables import LAYOUT, layout_of

__all__ = ["APPLICATION_ID", "SqliteDatabase", "scratch"]

T = TypeVar("T")
APPLICATION_ID = 0x0F5EC0DE  # marks the file as ours, so that a foreign one is refused untouched
BUSY_S = 10.0
BUSY_POLL_S = 0.001
# How long whoever fills the index is waited for, to give back what is empty in it.
WORDS_BUSY_S = 2.0
# A file up to this size is looked through at every start, which takes a millisecond for each MB;
# damage in a larger one is found by `operator store check`, or when it is met.
CHECKED_BYTES_MAX = 32 * 1024 * 1024
PROBLEMS_MAX = 100
_TYPES = {"int": "INTEGER", "real": "REAL", "bytes": "BLOB", "serial": "INTEGER PRIMARY KEY"}


_execute = sqlite3.Connection.execute


class _Session(sqlite3.Connection):
    """A session in which text that has no UTF-8 is bound as `plain` makes it, not refused."""

    def execute(self, sql: str, values: Any = (), /) -> sqlite3.Cursor:
        try:
            return _execute(self, sql, values)
        except UnicodeEncodeError:
            readable = [plain(one) if isinstance(one, str) else one for one in values]
            return _execute(self, sql, readable)
        except UnicodeDecodeError as problem:  # SQLite's own sentence quotes what is damaged
            raise sqlite3.DatabaseError("database disk image is malformed") from problem


def scratch(*tables: str) -> Connection:
    """These tables, empty, in a database that is gone when it is closed or its process ends."""
    connection = sqlite3.connect("", isolation_level=None, factory=_Session)
    with closed_unless_ready(connection):
        connection.execute("PRAGMA synchronous = OFF")
        for statement in LAYOUT.statements(*tables):
            connection.execute(statement.format(**_TYPES))
    return connection


class SqliteDatabase:
    """WAL, synchronous=FULL: readers never wait, and what is acknowledged is on the disk."""

    name = "sqlite"
    near = True
    remedy = "Check free space and permissions of the home directory."
    conflicts: tuple[type[Exception], ...] = (sqlite3.IntegrityError,)
    failures: tuple[type[Exception], ...] = (sqlite3.OperationalError, sqlite3.DatabaseError)

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()

    @property
    def place(self) -> str:
        """The path of the file."""
        return str(self.path)

    @property
    def words(self) -> SearchFile:
        """The file with the index of words, so that filling it keeps nobody from writing."""
        return SearchFile(self.path.with_name(f"{self.path.name}-search"))

    def files(self) -> tuple[Path, ...]:
        """The file and its companions, which are nothing without it."""
        return (*with_companions(self.path), *self.words.files(), self._debt)

    @property
    def _debt(self) -> Path:
        """There while something that was taken away may still be in one of the files."""
        return self.path.with_name(f"{self.path.name}-owed")

    def prepare(self) -> None:
        """Make the file on first use. A file that is not ours is refused and left as it is."""
        with self._told():
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            make_private(self.path)
            version = self.version()
            if version:
                must_be_current(version, self.place)
                self.tidy()
                return
            self.create(SCHEMA_VERSION)

    def create(self, version: int) -> None:
        """Make the tables of this version in an empty file; doing it twice at once is harmless."""
        with self._told():
            _patiently(lambda: self._create(version))

    def _create(self, version: int) -> None:
        with closing(self._connect("rw")) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            schema = self.worded(layout_of(version).schema)
            connection.executescript(
                f"BEGIN IMMEDIATE; {schema} PRAGMA application_id = {APPLICATION_ID};"
                f" PRAGMA user_version = {int(version)}; COMMIT;"
            )

    def version(self) -> int:
        """The version of its tables, 0 where there are none. Refuses a foreign or damaged file."""
        with self._told():
            return _patiently(self._version) if self.path.exists() else 0

    def _version(self) -> int:
        self._refuse_emptied()
        # A session that may write would move what a crash has left in the log into the file when
        # it ends, and a file that is refused must stay as it is.
        with closing(self._connect("ro" if self._log_bytes() else "rw")) as connection:
            version = self._own_version(connection)
            if version and self.path.stat().st_size <= CHECKED_BYTES_MAX:
                _refuse_damaged(connection)
            return version

    def is_damaged(self) -> bool:
        """True when the file cannot be read, so that it is of no use to anybody as it is."""
        try:
            self.version()
        except StoreError as error:
            cause = error.__cause__
            operational = isinstance(cause, sqlite3.OperationalError)
            return isinstance(cause, sqlite3.DatabaseError) and not operational
        return False

    def writer(self) -> _Session:
        """The session of a writer."""
        connection = self._connect("rw")
        with closed_unless_ready(connection):
            connection.execute("PRAGMA journal_mode = WAL")  # a backup that was put here has none
            connection.execute("PRAGMA synchronous = FULL")
            # `begin` waits, if anybody may wait at all
            connection.execute("PRAGMA busy_timeout = 0")
        return connection

    def reader(self) -> Connection:
        """A session that only reads, and sees the index if there is one."""
        connection = self._connect("ro")
        with closed_unless_ready(connection):
            self.words.show(connection)
        return connection

    def indexer(self) -> Connection:
        """The session of whoever fills the index: whole after a crash, but not on the disk at once.

        What it writes gets there when the log is moved into the file.
        """
        connection = self.writer()
        with closed_unless_ready(connection):
            # An older store has words in its own file.
            connection.execute("PRAGMA secure_delete = ON")
            _patiently(lambda: self.words.open(connection))
        return connection

    def begin(self, connection: Connection, *, wait: bool = True) -> bool:
        """Begin a transaction that no other writer can be in; False instead of waiting for one."""
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if not _is_busy(error):
                raise
            if not wait:
                return False
            _patiently(lambda: connection.execute("BEGIN IMMEDIATE"))
        return True

    def hold_index(self, connection: Connection, *, afresh: bool) -> None:
        """Begin a transaction in which nobody else changes the index, nor the ledger if afresh."""
        if afresh:
            self.begin(connection)  # of both files
            return
        connection.execute("BEGIN")
        assert isinstance(connection, sqlite3.Connection)
        session = connection
        _patiently(lambda: self.words.hold(session))

    def distrust_index(self, error: Exception) -> None:
        """Throw an index away that is damaged; it is only a copy."""
        if isinstance(error, sqlite3.DatabaseError) and is_damaged(error):
            self.words.remove()

    def drop_index(self, connection: Connection, tables: Sequence[str]) -> None:
        """Take the index away at once, before what it was made of is gone.

        Until that is committed, whoever fills the index anew waits for the ledger.
        """
        self._owe()  # before anything is gone, so that a crash leaves it for whoever comes next
        for table in tables:
            connection.execute(f"DROP TABLE IF EXISTS main.{table}")
        _patiently(lambda: self.words.drop(tables))

    def session(self) -> Connection:
        """A session for long work; what it removes is overwritten."""
        connection = self.writer()
        with closed_unless_ready(connection):
            connection.execute(f"PRAGMA busy_timeout = {BUSY_S * 1000:.0f}")
            connection.execute("PRAGMA secure_delete = ON")
        return connection

    def snapshot(self, connection: Connection) -> None:
        """Begin a transaction that sees one moment to its end."""
        connection.execute("BEGIN")
        connection.execute("SELECT seq FROM entries LIMIT 1").fetchone()  # from here on

    def stream(self, connection: Connection, sql: str) -> Iterator[Sequence[Any]]:
        """The rows of a query, as the database finds them."""
        cursor = connection.execute(sql)
        while (row := cursor.fetchone()) is not None:
            yield row

    def worded(self, sql: str) -> str:
        """A statement with the names that types have here."""
        return sql.format(**_TYPES)

    def mark(self, connection: Connection, version: int) -> None:
        """Say how old the tables are from now on."""
        connection.execute(f"PRAGMA user_version = {int(version)}")

    def problems(self, connection: Connection) -> list[str]:
        """What SQLite finds wrong with the file, and tables and indexes that are missing."""
        rows = connection.execute(f"PRAGMA integrity_check({PROBLEMS_MAX})").fetchall()
        found = [line for (text,) in rows for line in text.splitlines() if line != "ok"]
        made = {name for (name,) in connection.execute("SELECT name FROM sqlite_master").fetchall()}
        layout = layout_of(connection.execute("PRAGMA user_version").fetchone()[0])
        wanted = (*layout.tables, *layout.indexes)
        return found + [f"{name} is missing" for name in wanted if name not in made]

    def settle(self, connection: Connection) -> bool:
        """Move the log into the file, so that what was overwritten is nowhere any more.

        False when whoever reads is in the way; it is owed then, and done with a later write.
        """
        self._owe()
        return self._pay(connection, wait_s=WORDS_BUSY_S)

    def tidy(self) -> bool:
        """Do what is owed, unless somebody is in the way still; True when nothing is owed."""
        if not self._debt.exists():
            return True
        with suppress(sqlite3.Error), closing(self._connect("rw")) as connection:
            connection.execute("PRAGMA busy_timeout = 0")  # nobody waits for this
            return self._pay(connection, wait_s=0.0)
        return False

    def _owe(self) -> None:
        try:
            os.close(os.open(self._debt, os.O_CREAT | os.O_WRONLY, 0o600))
        except OSError as error:
            raise sqlite3.OperationalError(f"{str(self._debt)!r} cannot be made") from error

    def _pay(self, connection: Connection, *, wait_s: float) -> bool:
        busy, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        shrunk = self.words.shrink(wait_s=wait_s)
        if busy or not shrunk:
            return False
        with suppress(OSError):  # then it is done once more, which does no harm
            self._debt.unlink(missing_ok=True)
        return True

    def _connect(self, mode: str) -> _Session:
        return sqlite3.connect(
            f"{self.path.as_uri()}?mode={mode}",
            uri=True,
            timeout=BUSY_S,
            isolation_level=None,
            check_same_thread=False,
            factory=_Session,
        )

    def _own_version(self, connection: sqlite3.Connection) -> int:
        connection.execute("BEGIN")  # all from one moment: somebody else may be making the tables
        application = connection.execute("PRAGMA application_id").fetchone()[0]
        version: int = connection.execute("PRAGMA user_version").fetchone()[0]
        tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        connection.execute("COMMIT")
        if application != APPLICATION_ID and (application or version or tables):
            raise StoreError(
                f"{str(self.path)!r} is a database of another program; it was left as it is.",
                next_step="Name another directory with --home DIR.",
            )
        return version

    def _log_bytes(self) -> int:
        try:
            return self.files()[1].stat().st_size
        except FileNotFoundError:
            return 0

    def _refuse_emptied(self) -> None:
        # SQLite takes an empty file for a new one and throws its log away, which may hold entries.
        if self.path.stat().st_size == 0 and self._log_bytes():
            raise sqlite3.DatabaseError("it is empty, and there is a log of changes to it")

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except (OSError, sqlite3.OperationalError) as error:
            raise StoreError(
                f"The state directory {str(self.path.parent)!r} cannot be used: {sentence(error)}.",
                next_step="Name another one with --home DIR or OPERATOR_HOME.",
            ) from error
        except sqlite3.DatabaseError as error:
            raise StoreError(
                f"{str(self.path)!r} is damaged: {sentence(error)}; it was left as it is.",
                next_step="Restore a backup with: operator store restore FILE --force,"
                " or name another directory with --home DIR.",
            ) from error


def _is_busy(error: sqlite3.Error) -> bool:
    """Somebody else is at it, writing, making the file, or mending it after a crash."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY


def _patiently(act: Callable[[], T]) -> T:
    """Do it, again and again while somebody else is at it, but not forever."""
    until = time.monotonic() + BUSY_S
    while True:
        try:
            return act()
        except sqlite3.OperationalError as error:
            if not _is_busy(error) or time.monotonic() >= until:
                raise
        time.sleep(BUSY_POLL_S)


def _refuse_damaged(connection: sqlite3.Connection) -> None:
    found: str = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if found != "ok":
        raise sqlite3.DatabaseError(found.splitlines()[-1])
