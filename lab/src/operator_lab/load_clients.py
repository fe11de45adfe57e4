"""Requests of a load, over HTTP or as statements on PostgreSQL, and what can come of one."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from operator_protocols.domain.rig import LoadClient
from operator_protocols.errors import MissingExtraError

if TYPE_CHECKING:
    from psycopg import AsyncConnection

__all__ = ["REQUEST_S_MAX", "Asked", "HttpNode", "Reply", "RoutedRequests", "SqlNode"]

REQUEST_S_MAX = 1.0


class Reply(StrEnum):
    """Answered well, answered with an error, not answered in time, or turned away at once."""

    GOOD = "good"
    BAD = "bad"
    LATE = "late"
    REFUSED = "refused"

    @property
    def timed(self) -> bool:
        """Whether the time that it took says how long answers take."""
        return self is not Reply.REFUSED


class Asked(Protocol):
    """One server that load is put on."""

    async def ask(self, turn: int) -> Reply:
        """Send the request of this turn. Never raises for what the server does."""
        ...

    async def close(self) -> None:
        """Hang up."""
        ...


NUMBERS = 100
IDLE_MAX = 32
HEAD_BYTES_MAX = 1 << 16
BODY_BYTES_MAX = 1 << 16

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class HttpNode:
    """One server, with the connections to it that wait for the next request."""

    def __init__(self, host: str, port: int, *, path: str, body: Mapping[str, str]) -> None:
        self._host, self._port = host, port
        self._idle: list[Connection] = []
        numbers = range(NUMBERS if any("{n}" in value for value in body.values()) else 1)
        self._requests = [_request(f"{host}:{port}", path, body, number) for number in numbers]

    async def ask(self, turn: int) -> Reply:
        """Send one request; GOOD when it is answered in time and below 500."""
        try:
            async with asyncio.timeout(REQUEST_S_MAX):
                reader, writer = await self._connection()
                reusable = False
                try:
                    writer.write(self._requests[turn % len(self._requests)])
                    status, reusable = await _read_answer(reader)
                finally:
                    if reusable and len(self._idle) < IDLE_MAX:
                        self._idle.append((reader, writer))
                    else:
                        # Not `close`, which would wait for a server that does not read any more.
                        writer.transport.abort()
        except TimeoutError:
            return Reply.LATE
        except (OSError, ValueError, EOFError, asyncio.LimitOverrunError):
            return Reply.REFUSED
        return Reply.GOOD if status < 500 else Reply.BAD

    async def close(self) -> None:
        """Hang up."""
        for _, writer in self._idle:
            writer.close()

    async def _connection(self) -> Connection:
        while self._idle:
            reader, writer = self._idle.pop()
            if not reader.at_eof() and not writer.is_closing():
                return reader, writer
            writer.close()
        return await asyncio.open_connection(self._host, self._port, limit=HEAD_BYTES_MAX)


async def _read_answer(reader: asyncio.StreamReader) -> tuple[int, bool]:
    """Read one answer: its status, and whether its connection can be used again."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    first, *lines = head.split("\r\n")
    version, status = first.split(" ")[:2]
    if not version.startswith("http/"):
        raise ValueError("it does not speak HTTP")
    fields = {name.strip(): value.strip() for name, _, value in (s.partition(":") for s in lines)}
    length = int(fields.get("content-length", "-1"))
    whole = 0 <= length <= BODY_BYTES_MAX
    if whole:
        await reader.readexactly(length)
    return int(status), whole and version == "http/1.1" and fields.get("connection") != "close"


def _request(host: str, path: str, body: Mapping[str, str], number: int) -> bytes:
    filled = {name: value.replace("{n}", str(number)) for name, value in body.items()}
    content = json.dumps(filled).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {host}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
    )
    return head.encode() + content


class RoutedRequests:
    """The requests of a client that a subject brings, which finds the right server itself."""

    def __init__(self, name: str, host: str, ports: Sequence[int]) -> None:
        module, _, factory = name.partition(":")
        self._client: LoadClient = getattr(import_module(module), factory)(host, ports)

    async def ask(self, turn: int) -> Reply:
        """Send one, and give it up after the same time as every other request."""
        try:
            async with asyncio.timeout(REQUEST_S_MAX):
                return Reply(await self._client.ask(turn))
        except TimeoutError:
            return Reply.LATE

    async def close(self) -> None:
        """Nothing is left open between two requests."""


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
            connection = await self._connection()
            whole = False
            try:
                with self._watch(connection.pgconn.socket) as late:
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
        except (TimeoutError, driver.errors.QueryCanceled):
            return Reply.LATE
        except driver.Error as problem:
            # An error with a state is an answer of the server, if only a refusal.
            return Reply.BAD if problem.sqlstate else Reply.REFUSED
        except OSError:
            return Reply.REFUSED
        finally:
            self._places.release()

    async def close(self) -> None:
        """Hang up, also on servers with a request under way."""
        for line in self._busy:
            _shut(line)
        while self._idle:
            await self._idle.pop().close()

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
    def _watch(self, handle: int) -> Iterator[list[bool]]:
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
