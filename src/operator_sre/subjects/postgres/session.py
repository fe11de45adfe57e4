"""One short connection to a server, bounded in all it does, and what a refusal means."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import os
import re
import socket
import struct
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from operator_protocols.domain.target import Access, Target
from operator_protocols.errors import MissingExtraError
from operator_sre.subjects.postgres.login import Login

if TYPE_CHECKING:
    from psycopg import AsyncConnection

__all__ = ["Refusal", "RefusedError", "Session", "driver", "opened", "places_of"]

APPLICATION = "operator"
MESSAGE_CHARACTERS_MAX = 200
ANSWER_BYTES_MAX = 4096
PROTOCOL = 196608  # 3.0
TOO_MANY, NOT_NOW = "53300", ("57P01", "57P02", "57P03")
DENIED = ("28", "3D")
_TOO_MANY = ("too many clients", "too many connections", "connection slots are reserved")
_NOT_NOW = ("is starting up", "is shutting down", "in recovery mode", "not accepting connections")
_DENIED = (
    "authentication failed",
    "no pg_hba.conf entry",
    "no password supplied",
    "does not exist",
    "rejects connection",
    "certificate",
    "ssl",
)


class Refusal(StrEnum):
    """Why there is no connection."""

    GONE = "gone"  # nobody answers
    NOT_NOW = "not_now"  # it answers that it starts or stops
    FULL = "full"  # it answers that it has no connection left
    DENIED = "denied"  # it answers that we are not let in


class RefusedError(Exception):
    """A server that cannot be asked; `kind` says whether it is there at all."""

    def __init__(self, kind: Refusal, sentence: str) -> None:
        super().__init__(sentence)
        self.kind = kind
        self.sentence = sentence


@dataclass(frozen=True, slots=True)
class Session:
    """An open connection with the time that is left for it."""

    connection: AsyncConnection[Any]
    ends: float
    where: str

    async def ask(self, sql: str, parameters: tuple[object, ...] = ()) -> Any:
        """The first value of the first row, None where there is none."""
        cursor = await self._run(sql, parameters)
        row = await cursor.fetchone() if cursor.description else None
        return row[0] if row else None

    async def do(self, sql: str) -> None:
        """Run a statement whose answer does not matter."""
        await self._run(sql, ())

    async def _run(self, sql: str, parameters: tuple[object, ...]) -> Any:
        # A statement on a server that hangs cannot be cancelled, because the driver would wait for
        # the server to say so. On a line that is closed it ends at once.
        with _closing_at(self.connection.pgconn.socket, self.ends) as late:
            try:
                # Without parameters nothing is a placeholder, not even a percent sign.
                return await self.connection.execute(sql.encode(), parameters or None)
            except driver().OperationalError:
                if late:
                    raise TimeoutError from None
                raise


@contextlib.asynccontextmanager
async def opened(
    target: Target, login: Login, *, timeout_s: float, read_only: bool = True
) -> AsyncIterator[Session]:
    """A connection to the first of a target's addresses that answers; RefusedError says why not."""
    driver()  # loading it may take longer than a server is given to answer
    ends = time.monotonic() + timeout_s
    places = places_of(target)
    refused = RefusedError(Refusal.GONE, "it has no port to connect to")
    for number, (host, port) in enumerate(places):
        left_s = (ends - time.monotonic()) / (len(places) - number)
        try:
            connection = await _connected(host, port, login, left_s, timeout_s, read_only=read_only)
        except RefusedError as one:
            # What a server says counts for more than the silence of its other address.
            refused = one if refused.kind is Refusal.GONE else refused
            continue
        try:
            yield Session(connection, ends, f"{host}:{port}")
        finally:
            await connection.close()
        return
    raise refused


def places_of(target: Target) -> list[tuple[str, int]]:
    """Where a target answers, in the order in which it is tried."""
    places = [(target.host, target.port)] if target.port is not None else []
    for endpoint in target.endpoints:
        host, _, port = endpoint.rpartition(":")
        if host and port.isascii() and port.isdigit():
            places.append((host.strip("[]"), int(port)))
    return places


async def _connected(
    host: str, port: int, login: Login, left_s: float, timeout_s: float, *, read_only: bool
) -> AsyncConnection[Any]:
    where = f"{host}:{port}"
    try:
        async with asyncio.timeout(max(left_s, 0.01)):
            found: AsyncConnection[Any] = await driver().AsyncConnection.connect(
                **await _words(host, port, login, timeout_s, read_only=read_only),
                autocommit=True,
                prepare_threshold=None,
            )
            return found
    except TimeoutError:
        raise RefusedError(Refusal.GONE, f"{where}: it does not answer in time") from None
    except OSError as error:
        raise RefusedError(Refusal.GONE, f"{where}: {error.strerror or error}") from None
    except driver().Error as error:
        code = await _code(host, port, login, max(left_s, 0.01))
        raise _refused(where, code, str(error)) from None


async def _words(
    host: str, port: int, login: Login, timeout_s: float, *, read_only: bool
) -> dict[str, str | int]:
    """The parameters of libpq. Encryption is asked for by name, so that none is tried in vain."""
    milliseconds = max(1, int(timeout_s * 1000))
    options = [
        f"-c statement_timeout={milliseconds}",
        f"-c lock_timeout={milliseconds}",
        f"-c idle_in_transaction_session_timeout={milliseconds}",
    ]
    if read_only:
        options.append("-c default_transaction_read_only=on")
    words: dict[str, str | int] = {
        "host": host,
        "port": port,
        "user": login.user,
        "dbname": login.database,
        "application_name": APPLICATION,
        "connect_timeout": max(2, int(timeout_s) + 1),
        "gssencmode": "disable",
        "options": " ".join(options),
        **await _encryption(host, port, login.access),
    }
    if login.password:
        words["password"] = login.password
    return words


async def _encryption(host: str, port: int, access: Access) -> dict[str, str]:
    if not access.tls:
        return {"sslmode": "disable"}
    words = {"sslmode": "verify-full", "sslrootcert": access.ca_file or "system"}
    if access.certificate_file:
        words["sslcert"] = access.certificate_file
    if access.key_file:
        words["sslkey"] = access.key_file
    if access.server_name:
        # libpq compares the certificate with `host`, and connects to `hostaddr`.
        words |= {"host": access.server_name, "hostaddr": await _address(host, port)}
    return words


async def _address(host: str, port: int) -> str:
    with contextlib.suppress(ValueError):
        return str(ipaddress.ip_address(host))
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return str(found[0][4][0])


def _refused(where: str, code: str, said: str) -> RefusedError:
    """What a failed connection means: by the server's code, or else by its words."""
    words = said.lower()
    sentence = f"{where}: {_message(said)}"
    if "refused" in words and not code:
        return RefusedError(Refusal.GONE, f"{where}: connection refused")
    if code == TOO_MANY or any(one in words for one in _TOO_MANY):
        return RefusedError(Refusal.FULL, f"{where}: no connection is left")
    if code in NOT_NOW or any(one in words for one in _NOT_NOW):
        return RefusedError(Refusal.NOT_NOW, sentence)
    if code.startswith(DENIED) or any(one in words for one in _DENIED):
        return RefusedError(Refusal.DENIED, sentence)
    return RefusedError(Refusal.GONE, sentence)


def _message(said: str) -> str:
    """What the server or libpq says, in one bounded line without the address."""
    line = " ".join(said.split())
    line = re.sub(r"^(?:.*failed: +)?(?:FATAL: +|ERROR: +)?", "", line)
    return line[:MESSAGE_CHARACTERS_MAX] or "the connection was lost"


async def _code(host: str, port: int, login: Login, timeout_s: float) -> str:
    """The code with which a server refuses; "" where it gives none, or wants a password first.

    libpq has no code for a connection that failed, and its words depend on the server's language.
    """
    if login.access.tls:
        return ""
    pairs = f"user\0{login.user}\0database\0{login.database}\0\0".encode()
    try:
        async with asyncio.timeout(timeout_s):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                writer.write(struct.pack("!II", len(pairs) + 8, PROTOCOL) + pairs)
                said = await reader.read(ANSWER_BYTES_MAX)
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return ""
    fields = said[5:].split(b"\0") if said[:1] == b"E" else []
    return next((one[1:].decode("ascii", "replace") for one in fields if one[:1] == b"C"), "")


@contextlib.contextmanager
def _closing_at(handle: int, ends: float) -> Iterator[list[bool]]:
    """Close a line when time is up; the list is not empty then."""
    line = socket.socket(fileno=os.dup(handle))
    late: list[bool] = []

    def close() -> None:
        late.append(True)
        with contextlib.suppress(OSError):
            line.shutdown(socket.SHUT_RDWR)

    timer = asyncio.get_running_loop().call_later(max(0.0, ends - time.monotonic()), close)
    try:
        yield late
    finally:
        timer.cancel()
        line.close()


def driver() -> Any:
    """The driver of PostgreSQL; MissingExtraError without the extra."""
    try:
        import psycopg
    except ImportError:
        raise MissingExtraError("postgres", needed_for="Looking at PostgreSQL") from None
    return psycopg
