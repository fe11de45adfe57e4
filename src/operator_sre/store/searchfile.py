"""The file of SQLite with the index of words, beside that of the store.

In a file of its own, filling it neither keeps those out who append, nor makes their commits larger,
nor throws away the pages they have in memory. It is only ever a copy: what is wrong with it is
mended by making it anew.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

__all__ = ["SearchFile", "closed_unless_ready", "is_damaged", "make_private", "with_companions"]

LOG_PAGES = 4000
_DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})


def with_companions(path: Path) -> tuple[Path, ...]:
    """A file of SQLite and what lies beside it. Pure."""
    return tuple(path.with_name(f"{path.name}{end}") for end in ("", "-wal", "-shm"))


def make_private(path: Path) -> None:
    """Make an empty file that nobody else can read at any moment; one that is there is let be.

    It is not even opened: closing it would take the locks from every session that this process has
    on it, and another process could then move the log away under them.
    """
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        if not path.is_file():
            raise


@dataclass(frozen=True, slots=True)
class SearchFile:
    """The index of words of one store, known as `search` in the sessions that see it."""

    path: Path

    def files(self) -> tuple[Path, ...]:
        """The file and its companions."""
        return with_companions(self.path)

    def show(self, connection: sqlite3.Connection) -> None:
        """Let a session read it; where there is none, or a damaged one, an empty one is seen."""
        if self.path.exists():
            try:
                self._attach(connection, "ro")
            except sqlite3.DatabaseError:
                _detach(connection)
            else:
                return
        connection.execute("ATTACH DATABASE ':memory:' AS search")

    def open(self, connection: sqlite3.Connection) -> None:
        """Let a session write it, made on first use; a damaged one is thrown away."""
        try:
            self._open(connection)
        except sqlite3.DatabaseError as error:
            _detach(connection)
            if not is_damaged(error):
                raise
            self.remove()
            self._open(connection)

    def hold(self, connection: sqlite3.Connection) -> None:
        """Nobody else writes it until the transaction that is under way ends."""
        # The one statement that writes this file, whatever is in it, and nothing of the other.
        connection.execute("PRAGMA search.user_version = 1")

    def drop(self, tables: Sequence[str]) -> None:
        """Take these tables away, on the disk as well."""
        if not self.path.exists():
            return
        try:
            with closing(self._alone()) as connection:
                connection.execute("BEGIN IMMEDIATE")
                for table in tables:
                    connection.execute(f"DROP TABLE IF EXISTS {table}")
                connection.execute("COMMIT")
        except sqlite3.DatabaseError as error:
            if not is_damaged(error):
                raise
            self.remove()

    def shrink(self, *, wait_s: float = 0.0) -> bool:
        """Give back what is empty, so that nothing of what was dropped is left in it.

        False when somebody who reads it or fills it is in the way: some words may be left then.
        """
        if not self.path.exists():
            return True
        try:
            with closing(self._alone(wait_s=wait_s)) as connection:
                # What was dropped was overwritten; what had been let go before that was not.
                if connection.execute("PRAGMA freelist_count").fetchone()[0]:
                    connection.execute("VACUUM")
                busy, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                return not busy
        except sqlite3.DatabaseError as error:
            if is_damaged(error):
                self.remove()
            return not self.path.exists()

    def remove(self) -> None:
        """Throw the file away."""
        for path in self.files():
            with suppress(OSError):  # whoever fills it next says what is wrong
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
        # Each time the log is moved into the file the disk is waited for, by those who append too.
        connection.execute(f"PRAGMA wal_autocheckpoint = {LOG_PAGES}")

    def _attach(self, connection: sqlite3.Connection, mode: str) -> None:
        connection.execute("ATTACH DATABASE ? AS search", (f"{self.path.as_uri()}?mode={mode}",))
        # A file that is no database is refused here, and not when somebody searches.
        connection.execute("SELECT count(*) FROM search.sqlite_master").fetchone()

    def _alone(self, *, wait_s: float = 0.0) -> sqlite3.Connection:
        connection = sqlite3.connect(
            f"{self.path.as_uri()}?mode=rw", uri=True, timeout=wait_s, isolation_level=None
        )
        with closed_unless_ready(connection):
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA secure_delete = ON")
        return connection


@contextmanager
def closed_unless_ready(connection: sqlite3.Connection) -> Iterator[None]:
    """Close a session that cannot be made ready, so that it holds neither its file nor a lock."""
    try:
        yield
    except BaseException:
        connection.close()
        raise


def _detach(connection: sqlite3.Connection) -> None:
    with suppress(sqlite3.OperationalError):  # it may not have come so far
        connection.execute("DETACH DATABASE search")


def is_damaged(error: sqlite3.DatabaseError) -> bool:
    """True when the file itself is wrong, and not what was asked of it. Pure."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGED
