"""A session with PostgreSQL that has the face of every other: `?` for values, plain text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, TypeVar

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.types.numeric import Int8Dumper
from psycopg.types.string import StrDumper

from operator_sre.store.database import plain

__all__ = ["Session", "bound", "translated"]

T = TypeVar("T")
_QUOTED = re.compile(r"""('(?:[^']|'')*'|"(?:[^"]|"")*")""")


@lru_cache(maxsize=1024)
def translated(sql: str) -> str:
    """A statement with `?` for values, in the driver's words; what is in quotes is left alone."""
    parts = _QUOTED.split(sql.replace("%", "%%"))
    parts[::2] = [part.replace("?", "%s") for part in parts[::2]]
    return "".join(parts)


def bound(value: object) -> object:
    """A value as every column takes it: no enum, no NUL, no lone surrogate, no bool."""
    if isinstance(value, str):
        return plain(value)
    return int(value) if isinstance(value, bool) else value


class Session:
    """One session, opened anew when the server has ended it while nothing was under way."""

    def __init__(self, connect: Callable[[], psycopg.Connection[Any]], first: str) -> None:
        self._connect = connect
        self._first = first
        self._raw = self._open()

    def execute(self, sql: str, values: Sequence[object] = ()) -> psycopg.Cursor[Any]:
        """One statement. A COMMIT that the server turns into something else is an error."""
        cursor = self._run(lambda raw: _execute(raw, sql, values))
        if sql == "COMMIT" and cursor.statusmessage != "COMMIT":
            raise psycopg.OperationalError("the transaction was not committed")
        return cursor

    def executemany(self, sql: str, rows: Iterable[Sequence[object]]) -> object:
        """One statement for many rows, without waiting for the answer to each."""
        many = [[bound(value) for value in row] for row in rows]
        return self._run(lambda raw: raw.cursor().executemany(translated(sql), many))

    def script(self, text: str) -> None:
        """Several statements without values, in one go."""
        self._run(lambda raw: raw.execute(text.encode(), prepare=False))

    def stream(self, sql: str, *, at_once: int) -> Iterator[Sequence[Any]]:
        """The rows of a query inside a transaction, so many of them at a time."""
        with self._raw.cursor("streamed", binary=True) as cursor:
            cursor.itersize = at_once
            yield from cursor.execute(sql.encode())

    @property
    def in_transaction(self) -> bool:
        """True when a transaction is under way."""
        return self._raw.pgconn.transaction_status != TransactionStatus.IDLE

    def close(self) -> None:
        """End the session."""
        self._raw.close()

    def _open(self) -> psycopg.Connection[Any]:
        raw = self._connect()
        # A number or a text has one type, whatever its size, so that statements are planned once.
        raw.adapters.register_dumper(int, Int8Dumper)
        raw.adapters.register_dumper(str, StrDumper)
        try:
            raw.execute(self._first.encode(), prepare=False)
        except psycopg.Error:
            raw.close()
            raise
        return raw

    def _run(self, call: Callable[[psycopg.Connection[Any]], T]) -> T:
        idle = self._raw.pgconn.transaction_status == TransactionStatus.IDLE
        try:
            return call(self._raw)
        except psycopg.OperationalError:
            if not (idle and self._raw.closed):
                raise
        # The server was restarted, or a firewall forgot us; nothing was under way that is lost.
        self._raw = self._open()
        return call(self._raw)


def _execute(
    raw: psycopg.Connection[Any], sql: str, values: Sequence[object]
) -> psycopg.Cursor[Any]:
    cursor = raw.cursor(binary=True)
    return cursor.execute(translated(sql), [bound(value) for value in values])
