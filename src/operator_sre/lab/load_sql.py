"""Statements of a load on PostgreSQL, on a few connections that are used again."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from operator_protocols.errors import MissingExtraError
from operator_sre.lab.load_reply import REQUEST_S_MAX, Reply

if TYPE_CHECKING:
    from psycopg import AsyncConnection

__all__ = ["SqlNode"]

NUMBERS = 100
# Few, so that a server that hangs does not run out of connections because of its load.
CONNECTIONS_MAX = 8
# The server gives a statement up by itself first: a blocked one must not stay when we are gone.
STATEMENT_MS_MAX = int(REQUEST_S_MAX * 1000)
HANG_UP_S = REQUEST_S_MAX + 0.25


class SqlNode:
    """One server, with the connections to it that wait for the next statement."""

    def __init__(self, port: int, *, dsn: str, statement: str) -> None:
        self._dsn = dsn.replace("{port}", str(port))
        numbers = range(NUMBERS if "{n}" in statement else 1)
        self._statements = [statement.replace("{n}", str(number)).encode() for number in numbers]
        self._idle: list[AsyncConnection[Any]] = []
        self._busy: set[socket.socket] = set()
        self._places = asyncio.Semaphore(CONNECTIONS_MAX)
        _driver()

    async def ask(self, turn: int) -> Reply:
        """Run one statement; GOOD when it ends in time and without an error."""
        driver = _driver()
        statement = self._statements[turn % len(self._statements)]
        try:
            async with asyncio.timeout(REQUEST_S_MAX):
                await self._places.acquire()
        except TimeoutError:
            return Reply.LATE
        try:
            return await self._run(statement)
        except (TimeoutError, driver.errors.QueryCanceled):
            return Reply.LATE
        except driver.Error as problem:
            # Whoever has a state was answered by the server, if only with a refusal.
            return Reply.BAD if problem.sqlstate else Reply.REFUSED
        except OSError:
            return Reply.REFUSED
        finally:
            self._places.release()

    async def close(self) -> None:
        """Hang up, also on those who are being asked."""
        for line in self._busy:
            _shut(line)
        while self._idle:
            await self._idle.pop().close()

    async def _run(self, statement: bytes) -> Reply:
        connection = await self._connection()
        whole = False
        try:
            with self._watched(connection.pgconn.socket) as late:
                try:
                    await connection.execute(statement)
                    whole = True
                except _driver().errors.QueryCanceled:
                    whole = True  # it was too slow, its connection is as good as before
                    raise
                except _driver().OperationalError:
                    if late:
                        raise TimeoutError from None
                    raise
        finally:
            if whole and not connection.closed:
                self._idle.append(connection)
            else:
                await connection.close()
        return Reply.GOOD

    async def _connection(self) -> AsyncConnection[Any]:
        while self._idle:
            connection = self._idle.pop()
            if not connection.closed:
                return connection
        driver = _driver()
        given = driver.conninfo.conninfo_to_dict(self._dsn).get("options") or ""
        options = f"{given} -c statement_timeout={STATEMENT_MS_MAX}".strip()
        async with asyncio.timeout(REQUEST_S_MAX):
            found: AsyncConnection[Any] = await driver.AsyncConnection.connect(
                self._dsn, autocommit=True, prepare_threshold=None, options=options
            )
        return found

    @contextlib.contextmanager
    def _watched(self, handle: int) -> Iterator[list[bool]]:
        """Close the line of a socket when time is up; the list is not empty then.

        A statement on a server that hangs cannot be cancelled: the driver would wait for the
        server to say so. On a line that is closed it ends at once.
        """
        line = socket.socket(fileno=os.dup(handle))
        late: list[bool] = []

        def hang_up() -> None:
            late.append(True)
            _shut(line)

        timer = asyncio.get_running_loop().call_later(HANG_UP_S, hang_up)
        self._busy.add(line)
        try:
            yield late
        finally:
            timer.cancel()
            self._busy.discard(line)
            line.close()


def _shut(line: socket.socket) -> None:
    with contextlib.suppress(OSError):
        line.shutdown(socket.SHUT_RDWR)


def _driver() -> Any:
    try:
        import psycopg
    except ImportError:
        raise MissingExtraError("lab", needed_for="Load in SQL") from None
    return psycopg
