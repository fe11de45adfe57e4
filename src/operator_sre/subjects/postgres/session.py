"""One short connection to a server: who we are there, how it is bounded, what a refusal means."""

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
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from operator_protocols.domain.target import Access, Target
from operator_protocols.errors import ConfigError, MissingExtraError
from operator_protocols.kit.access import addresses_of
from operator_protocols.ports import SubjectSettings

if TYPE_CHECKING:
    from psycopg import AsyncConnection

__all__ = [
    "ACTING",
    "PASSWORDS_FILE",
    "WATCHING",
    "Login",
    "Refusal",
    "RefusedError",
    "Session",
    "connection_words",
    "driver",
    "home_of",
    "login_of",
    "open_session",
    "password_in",
]

WATCHING = "operator"
ACTING = "operator_acting"
# Lines as libpq has them in its own file: host:port:database:user:password.
PASSWORDS_FILE = "pgpass"
DATABASE = "postgres"
APPLICATION = "operator"
MESSAGE_CHARACTERS_MAX = 200
ANSWER_BYTES_MAX = 4096
PROTOCOL = 196608  # 3.0
TOO_MANY, NOT_NOW = "53300", ("57P01", "57P02", "57P03")
DENIED = ("28", "3D")
_TOO_MANY = ("too many clients", "too many connections", "connection slots are reserved")
# The limit of one account or database: the server has room for all others.
_OWN_LIMIT = ("too many connections for role", "too many connections for database")
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


@dataclass(frozen=True, slots=True)
class Login:
    """What a connection is opened with. The password shows nowhere."""

    user: str
    password: str = field(default="", repr=False)
    database: str = DATABASE
    access: Access = field(default_factory=Access)


def login_of(settings: SubjectSettings, target: Target, *, acting: bool = False) -> Login:
    """How to sign in at a target: to read, or to act where there is a separate role for that."""
    access = target.access or Access()

    def option(name: str) -> str:
        value = settings.options.get(name, "")
        if not isinstance(value, str):
            raise ConfigError(f"The option {name!r} of a PostgreSQL subject must be a string.")
        return value

    user = access.user or option("user") or WATCHING
    password_file = access.password_file or option("password_file")
    if acting and option("acting_user"):
        user, password_file = option("acting_user"), option("acting_password_file")
    database = option("database") or DATABASE
    if password_file:
        return Login(user, settings.secret(password_file), database, access)
    home = home_of(target)
    left = settings.secret(str(home / PASSWORDS_FILE)) if home is not None else ""
    if acting and not option("acting_user") and password_in(left, ACTING):
        user = ACTING
    return Login(user, password_in(left, user), database, access)


def home_of(target: Target, file: str = PASSWORDS_FILE) -> Path | None:
    """The directory that a rig gave to this target, by a file in it; None where it has none."""
    data, log = Path(target.data_dir or "/"), Path(target.log or "/")
    places = (data, data.parent, log.parent) if target.data_dir or target.log else ()
    return next((place for place in places if (place / file).is_file()), None)


def password_in(lines: str, user: str) -> str:
    """The password of a user in the lines of a password file, or ""."""
    for line in lines.splitlines():
        parts = line.split(":", 4)
        if len(parts) == 5 and parts[3] == user:
            return parts[4]
    return ""


class Refusal(StrEnum):
    """Why there is no connection."""

    GONE = "gone"  # no server answers
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
async def open_session(
    target: Target, login: Login, *, timeout_s: float, read_only: bool = True
) -> AsyncIterator[Session]:
    """A connection to the first of a target's addresses that answers; RefusedError says why not."""
    driver()  # loading it may take longer than a server is given to answer
    ends = time.monotonic() + timeout_s
    places = addresses_of(target)
    refused = RefusedError(Refusal.GONE, "it has no port to connect to")
    for number, (host, port) in enumerate(places):
        left_s = max((ends - time.monotonic()) / (len(places) - number), 0.01)
        where = f"{host}:{port}"
        try:
            async with asyncio.timeout(left_s):
                connection: AsyncConnection[Any] = await driver().AsyncConnection.connect(
                    **await connection_words(host, port, login, timeout_s),
                    autocommit=True,
                    prepare_threshold=None,
                )
        except (TimeoutError, OSError, driver().Error) as error:
            if isinstance(error, TimeoutError):
                problem = RefusedError(Refusal.GONE, f"{where}: it did not answer in time")
            elif isinstance(error, OSError):
                problem = RefusedError(Refusal.GONE, f"{where}: {error.strerror or error}")
            else:
                code = await _ask_code(host, port, login, left_s)
                problem = _interpret(where, code, str(error))
            # What a server says counts for more than the silence of its other address.
            refused = problem if refused.kind is Refusal.GONE else refused
            continue
        try:
            session = Session(connection, ends, where)
            if read_only:  # set afterwards, so that the default of clients can be read and restored
                await session.do("SET default_transaction_read_only = on")
            yield session
        finally:
            await connection.close()
        return
    raise refused


async def connection_words(
    host: str, port: int, login: Login, timeout_s: float
) -> dict[str, str | int]:
    """The parameters of libpq. Encryption is asked for by name, so that none is tried in vain."""
    milliseconds = max(1, int(timeout_s * 1000))
    limits = ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout")
    options = [f"-c {limit}={milliseconds}" for limit in limits]
    words: dict[str, str | int] = {
        "host": host,
        "port": port,
        "user": login.user,
        "dbname": login.database,
        "application_name": APPLICATION,
        "connect_timeout": max(2, int(timeout_s) + 1),
        "gssencmode": "disable",
        "options": " ".join(options),
        "sslmode": "verify-full" if login.access.tls else "disable",
    }
    if login.password:
        words["password"] = login.password
    access = login.access
    if access.tls:
        words["sslrootcert"] = access.ca_file or "system"
        if access.certificate_file:
            words["sslcert"] = access.certificate_file
        if access.key_file:
            words["sslkey"] = access.key_file
        if access.server_name:
            # libpq compares the certificate with `host`, and connects to `hostaddr`.
            try:
                address = str(ipaddress.ip_address(host))
            except ValueError:
                loop = asyncio.get_running_loop()
                found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
                address = str(found[0][4][0])
            words |= {"host": access.server_name, "hostaddr": address}
    return words


def _interpret(where: str, code: str, message: str) -> RefusedError:
    """What a failed connection means: by the server's code, or else by its words."""
    words = message.lower()
    # One bounded line without the address.
    line = re.sub(r"^(?:.*failed: +)?(?:FATAL: +|ERROR: +)?", "", " ".join(message.split()))
    sentence = f"{where}: {line[:MESSAGE_CHARACTERS_MAX] or 'the connection was lost'}"
    if "refused" in words and not code:
        return RefusedError(Refusal.GONE, f"{where}: connection refused")
    if any(sign in words for sign in _OWN_LIMIT):
        return RefusedError(Refusal.DENIED, sentence)
    if code == TOO_MANY or any(sign in words for sign in _TOO_MANY):
        return RefusedError(Refusal.FULL, f"{where}: no connection is left")
    if code in NOT_NOW or any(sign in words for sign in _NOT_NOW):
        return RefusedError(Refusal.NOT_NOW, sentence)
    if code.startswith(DENIED) or any(sign in words for sign in _DENIED):
        return RefusedError(Refusal.DENIED, sentence)
    return RefusedError(Refusal.GONE, sentence)


async def _ask_code(host: str, port: int, login: Login, timeout_s: float) -> str:
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
                answer = await reader.read(ANSWER_BYTES_MAX)
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return ""
    fields = answer[5:].split(b"\0") if answer[:1] == b"E" else []
    return next((field[1:].decode("ascii", "replace") for field in fields if field[:1] == b"C"), "")


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
        raise MissingExtraError("postgres", needed_for="A PostgreSQL subject") from None
    return psycopg
