"""What the store asks of a database: a writer's session, readers, and a few words of SQL."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

__all__ = ["Connection", "Cursor", "Database", "plain"]


def plain(text: str) -> str:
    """Free text as any column holds it; a lone surrogate, which the ledger keeps, becomes `?`."""
    return text.encode("utf-8", "replace").decode().replace("\0", "?")


class Cursor(Protocol):
    """The answer to one statement."""

    @property
    def rowcount(self) -> int:
        """How many rows it changed."""
        ...

    def fetchone(self) -> Any:
        """The next row, or None."""
        ...

    def fetchall(self) -> list[Any]:
        """All rows that are left."""
        ...


class Connection(Protocol):
    """One session. Statements are written with `?` for values, whatever the database."""

    def execute(self, sql: str, values: Sequence[object] = ()) -> Cursor:
        """One statement."""
        ...

    def executemany(self, sql: str, rows: Iterable[Sequence[object]]) -> object:
        """One statement for many rows."""
        ...

    def close(self) -> None:
        """End the session."""
        ...


class Database(Protocol):
    """One database. Its implementations differ in nothing that this does not say."""

    @property
    def name(self) -> str:
        """`sqlite` or `postgresql`."""
        ...

    @property
    def conflicts(self) -> tuple[type[Exception], ...]:
        """What is raised when a unique index says no."""
        ...

    @property
    def failures(self) -> tuple[type[Exception], ...]:
        """What is raised when the disk, the network or the server fails."""
        ...

    def writer(self) -> Connection:
        """The session of a writer."""
        ...

    def reader(self) -> Connection:
        """A session that only reads."""
        ...

    def begin(self, connection: Connection) -> None:
        """Begin a transaction that no other writer can be in, here or in another process."""
        ...
