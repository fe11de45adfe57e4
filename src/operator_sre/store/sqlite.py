"""One SQLite file as the database: the embedded default."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from operator_protocols.errors import StoreError
from operator_sre.store.database import Connection, plain, sentence
from operator_sre.store.schema import LAYOUT, SCHEMA_VERSION, layout_of, must_be_current

__all__ = [
    "APPLICATION_ID",
    "SearchFile",
    "SqliteDatabase",
    "is_damaged",
    "make_private",
    "scratch",
    "with_companions",
]

T = TypeVar("T")
APPLICATION_ID = 0x0F5EC0DE  # marks the file as ours, so that a foreign one is refused untouched
BUSY_S = 10.0
BUSY_POLL_S = 0.001
# How long to wait for the indexer before its file can be compacted.
WORDS_BUSY_S = 2.0
# A file up to this size is checked at every start, which takes a millisecond for each MB; `operator
# store check` or a failing query finds damage in a larger one.
CHECKED_BYTES_MAX = 32 * 1024 * 1024
PROBLEMS_MAX = 100
LOG_PAGES = 4000
_DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_TYPES = {"int": "INTEGER", "real": "REAL", "bytes": "BLOB", "serial": "INTEGER PRIMARY KEY"}
_execute = sqlite3.Connection.execute


class _Session(sqlite3.Connection):
    """A session that binds text without a UTF-8 encoding as `plain` instead of refusing it."""

    def execute(self, sql: str, values: Any = (), /) -> sqlite3.Cursor:
        try:
            return _execute(self, sql, values)
        except UnicodeEncodeError:
            readable = [plain(value) if isinstance(value, str) else value for value in values]
            return _execute(self, sql, readable)
        except UnicodeDecodeError as problem:  # the message of SQLite quotes the damaged text
            raise sqlite3.DatabaseError("database disk image is malformed") from problem


def scratch(*tables: str) -> Connection:
    """A temporary database with these tables, empty; closing it deletes it."""
    connection = sqlite3.connect("", isolation_level=None, factory=_Session)
    with close_unless_ready(connection):
        connection.execute("PRAGMA synchronous = OFF")
        for statement in LAYOUT.statements(*tables):
            connection.execute(statement.format(**_TYPES))
    return connection


class SqliteDatabase:
    """WAL with synchronous=FULL: readers never wait, and acknowledged writes are on the disk."""

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
        """The separate file of the index, which writers of the store do not wait for."""
        return SearchFile(self.path.with_name(f"{self.path.name}-search"))

    def files(self) -> tuple[Path, ...]:
        """The file and its companions."""
        return (*with_companions(self.path), *self.words.files(), self._debt)

    @property
    def _debt(self) -> Path:
        """A marker that exists while purged data may still be in one of the files."""
        return self.path.with_name(f"{self.path.name}-owed")

    def prepare(self) -> None:
        """Create the file on first use. A file of another program is refused and unchanged."""
        with self._explain_failures():
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            make_private(self.path)
            version = self.version()
            if version:
                must_be_current(version, self.place)
                self.tidy()
                return
            self.create(SCHEMA_VERSION)

    def create(self, version: int) -> None:
        """Create the tables of this version in an empty file; two processes may do it at once."""

        def create() -> None:
            with closing(self._connect("rw")) as connection:
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("PRAGMA synchronous = FULL")
                schema = self.render(layout_of(version).schema)
                connection.executescript(
                    f"BEGIN IMMEDIATE; {schema} PRAGMA application_id = {APPLICATION_ID};"
                    f" PRAGMA user_version = {int(version)}; COMMIT;"
                )

        with self._explain_failures():
            _retry_while_busy(create)

    def version(self) -> int:
        """The version of its tables, 0 without tables. Refuses a foreign or damaged file."""
        with self._explain_failures():
            return _retry_while_busy(self._read_version) if self.path.exists() else 0

    def _read_version(self) -> int:
        try:
            log_bytes = self.files()[1].stat().st_size
        except FileNotFoundError:
            log_bytes = 0
        # SQLite treats an empty file as new and deletes its log, which may hold entries.
        if self.path.stat().st_size == 0 and log_bytes:
            raise sqlite3.DatabaseError("it is empty, but there is a log of changes to it")
        # A writing session would move the log of a crashed process into the file when it ends, and
        # a refused file must stay unchanged.
        with closing(self._connect("ro" if log_bytes else "rw")) as connection:
            connection.execute("BEGIN")  # one moment, because another process may create the tables
            application = connection.execute("PRAGMA application_id").fetchone()[0]
            version: int = connection.execute("PRAGMA user_version").fetchone()[0]
            tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
            connection.execute("COMMIT")
            if application != APPLICATION_ID and (application or version or tables):
                raise StoreError(
                    f"{str(self.path)!r} is a database of another program; it is unchanged.",
                    next_step="Name another directory with --home DIR.",
                )
            if version and self.path.stat().st_size <= CHECKED_BYTES_MAX:
                checked: str = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
                if checked != "ok":
                    raise sqlite3.DatabaseError(checked.splitlines()[-1])
            return version

    def is_damaged(self) -> bool:
        """True when the file is damaged and cannot be read."""
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
        with close_unless_ready(connection):
            connection.execute("PRAGMA journal_mode = WAL")  # a copied backup has another mode
            connection.execute("PRAGMA synchronous = FULL")
            # `begin` waits itself, if the caller allows it
            connection.execute("PRAGMA busy_timeout = 0")
        return connection

    def reader(self) -> Connection:
        """A session that only reads, with the index if there is one."""
        connection = self._connect("ro")
        with close_unless_ready(connection):
            self.words.show(connection)
        return connection

    def indexer(self) -> Connection:
        """The session of the indexer, whose commits reach the disk with the next checkpoint."""
        connection = self.writer()
        with close_unless_ready(connection):
            # An older store has the index in its own file.
            connection.execute("PRAGMA secure_delete = ON")
            _retry_while_busy(lambda: self.words.open(connection))
        return connection

    def begin(self, connection: Connection, *, wait: bool = True) -> bool:
        """Begin a transaction that no other writer can be in; without `wait` False when busy."""
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if not _is_busy(error):
                raise
            if not wait:
                return False
            _retry_while_busy(lambda: connection.execute("BEGIN IMMEDIATE"))
        return True

    def hold_index(self, connection: Connection, *, afresh: bool) -> None:
        """Begin a transaction that holds the index exclusively, and with `afresh` the ledger."""
        if afresh:
            self.begin(connection)  # locks both files
            return
        connection.execute("BEGIN")
        assert isinstance(connection, sqlite3.Connection)
        session = connection
        _retry_while_busy(lambda: self.words.hold(session))

    def distrust_index(self, error: Exception) -> None:
        """Delete a damaged index, which is only a copy."""
        if isinstance(error, sqlite3.DatabaseError) and is_damaged(error):
            self.words.remove()

    def drop_index(self, connection: Connection, tables: Sequence[str]) -> None:
        """Drop the index at once, before the purge that follows commits.

        Until then an indexer that builds a new index waits for the ledger.
        """
        self._owe()  # first, so that the next process finishes the work after a crash
        for table in tables:
            connection.execute(f"DROP TABLE IF EXISTS main.{table}")
        _retry_while_busy(lambda: self.words.drop(tables))

    def session(self) -> Connection:
        """A session for long work, which overwrites deleted data."""
        connection = self.writer()
        with close_unless_ready(connection):
            connection.execute(f"PRAGMA busy_timeout = {BUSY_S * 1000:.0f}")
            connection.execute("PRAGMA secure_delete = ON")
        return connection

    def snapshot(self, connection: Connection) -> None:
        """Begin a transaction that sees one moment to its end."""
        connection.execute("BEGIN")
        connection.execute("SELECT seq FROM entries LIMIT 1").fetchone()  # takes the snapshot

    def stream(self, connection: Connection, sql: str) -> Iterator[Sequence[Any]]:
        """The rows of a query, one at a time."""
        cursor = connection.execute(sql)
        while (row := cursor.fetchone()) is not None:
            yield row

    def render(self, sql: str) -> str:
        """Replace type names such as `{int}` with those of SQLite."""
        return sql.format(**_TYPES)

    def mark(self, connection: Connection, version: int) -> None:
        """Store the version of the tables."""
        connection.execute(f"PRAGMA user_version = {int(version)}")

    def problems(self, connection: Connection) -> list[str]:
        """The problems that SQLite finds, and missing tables and indexes."""
        rows = connection.execute(f"PRAGMA integrity_check({PROBLEMS_MAX})").fetchall()
        problems = [line for (text,) in rows for line in text.splitlines() if line != "ok"]
        made = {name for (name,) in connection.execute("SELECT name FROM sqlite_master").fetchall()}
        layout = layout_of(connection.execute("PRAGMA user_version").fetchone()[0])
        wanted = (*layout.tables, *layout.indexes)
        return problems + [f"{name} is missing" for name in wanted if name not in made]

    def settle(self, connection: Connection) -> bool:
        """Move the log into the file, so that no copy of overwritten data is left.

        False when a reader prevents it; then a later start or purge finishes it.
        """
        self._owe()
        return self._pay(connection, wait_s=WORDS_BUSY_S)

    def tidy(self) -> bool:
        """Finish what `settle` left, unless a reader still prevents it; True when all is done."""
        if not self._debt.exists():
            return True
        with suppress(sqlite3.Error), closing(self._connect("rw")) as connection:
            connection.execute("PRAGMA busy_timeout = 0")  # a later call can finish it
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
        with suppress(OSError):  # doing it again does no harm
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

    @contextmanager
    def _explain_failures(self) -> Iterator[None]:
        try:
            yield
        except (OSError, sqlite3.OperationalError) as error:
            raise StoreError(
                f"The state directory {str(self.path.parent)!r} cannot be used: {sentence(error)}.",
                next_step="Name another one with --home DIR or OPERATOR_HOME.",
            ) from error
        except sqlite3.DatabaseError as error:
            raise StoreError(
                f"{str(self.path)!r} is damaged: {sentence(error)}; it is unchanged.",
                next_step="Restore a backup with: operator store restore FILE --force,"
                " or name another directory with --home DIR.",
            ) from error


def _is_busy(error: sqlite3.Error) -> bool:
    """Another session holds the lock: it writes, creates the file or recovers from a crash."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY


def _retry_while_busy(act: Callable[[], T]) -> T:
    """Call `act` again while another session holds the lock, up to BUSY_S."""
    until = time.monotonic() + BUSY_S
    while True:
        try:
            return act()
        except sqlite3.OperationalError as error:
            if not _is_busy(error) or time.monotonic() >= until:
                raise
        time.sleep(BUSY_POLL_S)


def with_companions(path: Path) -> tuple[Path, ...]:
    """A file of SQLite with its log and shared memory. Pure."""
    return tuple(path.with_name(f"{path.name}{end}") for end in ("", "-wal", "-shm"))


def make_private(path: Path) -> None:
    """Create an empty private file, unless it exists.

    An existing file is not even opened: closing it would release the locks of all sessions of this
    process, and another process could then move the log away under them.
    """
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        if not path.is_file():
            raise


@dataclass(frozen=True, slots=True)
class SearchFile:
    """The full-text index beside a store, attached as `search`.

    In a file of its own, filling it neither blocks appends, nor makes their commits larger, nor
    invalidates their cached pages. It is only a copy, so a damaged index is deleted and rebuilt.
    """

    path: Path

    def files(self) -> tuple[Path, ...]:
        """The file and its companions."""
        return with_companions(self.path)

    def show(self, connection: sqlite3.Connection) -> None:
        """Attach it for reading; an empty database stands in for a missing or damaged file."""
        if self.path.exists():
            try:
                self._attach(connection, "ro")
            except sqlite3.DatabaseError:
                _detach(connection)
            else:
                return
        connection.execute("ATTACH DATABASE ':memory:' AS search")

    def open(self, connection: sqlite3.Connection) -> None:
        """Attach it for writing, created on first use; a damaged file is replaced."""
        try:
            self._open(connection)
        except sqlite3.DatabaseError as error:
            _detach(connection)
            if not is_damaged(error):
                raise
            self.remove()
            self._open(connection)

    def hold(self, connection: sqlite3.Connection) -> None:
        """Lock it for writing until the current transaction ends."""
        # This statement writes to this file, whatever it holds, and not to the other one.
        connection.execute("PRAGMA search.user_version = 1")

    def drop(self, tables: Sequence[str]) -> None:
        """Drop these tables, also on the disk."""
        if not self.path.exists():
            return
        try:
            with closing(self._connect_alone()) as connection:
                connection.execute("BEGIN IMMEDIATE")
                for table in tables:
                    connection.execute(f"DROP TABLE IF EXISTS {table}")
                connection.execute("COMMIT")
        except sqlite3.DatabaseError as error:
            if not is_damaged(error):
                raise
            self.remove()

    def shrink(self, *, wait_s: float = 0.0) -> bool:
        """Compact the file, so that nothing of dropped tables is left in it.

        False when a reader or the indexer prevents it: some words may be left then.
        """
        if not self.path.exists():
            return True
        try:
            with closing(self._connect_alone(wait_s=wait_s)) as connection:
                # Dropping overwrites data, but pages that were free before keep theirs.
                if connection.execute("PRAGMA freelist_count").fetchone()[0]:
                    connection.execute("VACUUM")
                busy, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                return not busy
        except sqlite3.DatabaseError as error:
            if is_damaged(error):
                self.remove()
            return not self.path.exists()

    def remove(self) -> None:
        """Delete the file."""
        for path in self.files():
            with suppress(OSError):  # the next indexer reports the problem
                path.unlink()

    def _open(self, connection: sqlite3.Connection) -> None:
        try:
            make_private(self.path)
        except OSError as error:
            raise sqlite3.OperationalError(f"{str(self.path)!r} cannot be made") from error
        self._attach(connection, "rw")
        connection.execute("PRAGMA search.journal_mode = WAL")
        connection.execute("PRAGMA search.synchronous = NORMAL")
        connection.execute("PRAGMA search.secure_delete = OFF")
        # Each checkpoint waits for the disk, which delays appends as well.
        connection.execute(f"PRAGMA wal_autocheckpoint = {LOG_PAGES}")

    def _attach(self, connection: sqlite3.Connection, mode: str) -> None:
        connection.execute("ATTACH DATABASE ? AS search", (f"{self.path.as_uri()}?mode={mode}",))
        # A damaged file fails here instead of in a search.
        connection.execute("SELECT count(*) FROM search.sqlite_master").fetchone()

    def _connect_alone(self, *, wait_s: float = 0.0) -> sqlite3.Connection:
        connection = sqlite3.connect(
            f"{self.path.as_uri()}?mode=rw", uri=True, timeout=wait_s, isolation_level=None
        )
        with close_unless_ready(connection):
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA secure_delete = ON")
        return connection


@contextmanager
def close_unless_ready(connection: sqlite3.Connection) -> Iterator[None]:
    """Close a session that cannot be set up, so that it keeps neither its file nor a lock."""
    try:
        yield
    except BaseException:
        connection.close()
        raise


def _detach(connection: sqlite3.Connection) -> None:
    with suppress(sqlite3.OperationalError):  # it may not be attached
        connection.execute("DETACH DATABASE search")


def is_damaged(error: sqlite3.DatabaseError) -> bool:
    """True when the file itself is damaged, and not only the statement wrong. Pure."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGED
