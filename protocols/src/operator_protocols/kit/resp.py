"""RESP, the protocol of Valkey and Redis, with a bound on every answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from operator_protocols.domain.target import Access, Target
from operator_protocols.kit.access import addresses_of, authority, trust_for

__all__ = ["ErrorReply", "ProtocolError", "Reply", "Wire", "open_wire"]

LINE_BYTES_MAX = 64 * 1024
BULK_BYTES_MAX = 1 << 20
ITEMS_MAX = 50_000
DEPTH_MAX = 6


class ProtocolError(Exception):
    """What came back is not an answer of this protocol."""


@dataclass(frozen=True, slots=True)
class ErrorReply:
    """The store answered with an error."""

    text: str


Reply = str | int | None | ErrorReply | list["Reply"]


@dataclass(frozen=True, slots=True)
class Wire:
    """One connection, over which several commands are asked at once."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def ask(self, *command: str | int) -> Reply:
        """One command and its answer."""
        return (await self.ask_all([command]))[0]

    async def ask_all(self, commands: Sequence[Sequence[str | int]]) -> list[Reply]:
        """Several commands in one round trip, and their answers in the same order."""
        self.writer.write(b"".join(map(_pack, commands)))
        await self.writer.drain()
        return [await self._reply(0) for _ in commands]

    async def _reply(self, depth: int) -> Reply:
        line = await self._line()
        kind, rest = line[:1], line[1:]
        if kind == b"+":
            return _text(rest)
        if kind == b"-":
            return ErrorReply(_text(rest))
        if kind not in (b":", b"$", b"*"):
            raise ProtocolError(f"it answered {line[:40]!r}")
        number = _number(rest)
        if kind == b":":
            return number
        if number < 0:
            return None
        if kind == b"$":
            if number > BULK_BYTES_MAX:
                raise ProtocolError(f"it announced {number} bytes")
            return _text((await self.reader.readexactly(number + 2))[:-2])
        if number > ITEMS_MAX or depth >= DEPTH_MAX:
            raise ProtocolError(f"it announced an array of {number}")
        return [await self._reply(depth + 1) for _ in range(number)]

    async def _line(self) -> bytes:
        try:
            return (await self.reader.readuntil(b"\r\n"))[:-2]
        except asyncio.IncompleteReadError as problem:
            if problem.partial:
                raise ProtocolError(f"it answered {problem.partial[:40]!r}") from problem
            raise ConnectionResetError("connection lost") from problem
        except asyncio.LimitOverrunError as problem:
            raise ProtocolError("it answered a line without an end") from problem


@asynccontextmanager
async def open_wire(
    target: Target, *, password: str = "", connect_s: float
) -> AsyncIterator[tuple[Wire, str, Reply]]:
    """A wire to a target, where it was reached, and what became of the password.

    Its further addresses are tried in their order. OSError or TimeoutError when none answers.
    """
    access, places = target.access or Access(), addresses_of(target)
    if not places:
        raise OSError("it has no port")
    for at, (host, port) in enumerate(places):
        try:
            async with asyncio.timeout(connect_s / len(places)):
                reader, writer = await asyncio.open_connection(
                    host,
                    port,
                    limit=LINE_BYTES_MAX,
                    ssl=trust_for(access) if access.tls else None,
                    server_hostname=(access.server_name or host) if access.tls else None,
                )
            break
        except (OSError, TimeoutError):
            if at == len(places) - 1:
                raise
    try:
        wire = Wire(reader, writer)
        login: Reply = "OK"
        if password:
            words = (access.user, password) if access.user else (password,)
            login = await wire.ask("AUTH", *words)
        yield wire, authority((host, port)), login
    finally:
        writer.close()


def _pack(command: Sequence[str | int]) -> bytes:
    words = [str(word).encode("utf-8", "surrogateescape") for word in command]
    parts = [b"*%d\r\n" % len(words), *(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)]
    return b"".join(parts)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _number(raw: bytes) -> int:
    try:
        return int(raw)
    except ValueError as problem:
        raise ProtocolError(f"it answered {raw[:40]!r} for a number") from problem
