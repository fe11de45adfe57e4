"""Asking Valkey or Redis: PING, fields of INFO, and how long keys are."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from operator_protocols.domain.observation import Value
from operator_sre.subjects.declarative.probes.place import (
    Address,
    Blind,
    Place,
    Readings,
    addresses_of,
    checked,
    down,
    first_answer,
)
from operator_sre.subjects.declarative.probes.tcp import opened
from operator_sre.subjects.declarative.table import NAME, Table
from operator_sre.subjects.declarative.values import number_in, plain

__all__ = ["KEYS", "RedisProbe", "read_redis"]

KEYS = ("port", "info", "length", "database")
ANSWER_BYTES_MAX = 256 * 1024
VALUES_MAX = 50
_OWN = ("up", "ok", "error", "latency_ms", "endpoint")
_LENGTHS = {
    "string": "STRLEN",
    "list": "LLEN",
    "set": "SCARD",
    "zset": "ZCARD",
    "hash": "HLEN",
    "stream": "XLEN",
}


class _Refused(Exception):
    """The server answered with an error."""


@dataclass(frozen=True, slots=True)
class RedisProbe:
    """PING, and what is read by name: fields of INFO, lengths of keys."""

    port: int | None = None
    info: Mapping[str, str] = field(default_factory=dict)
    length: Mapping[str, str] = field(default_factory=dict)
    database: int = 0

    @property
    def fields(self) -> frozenset[str]:
        """The values that it can give."""
        return frozenset({*_OWN, *self.info, *self.length})

    async def look(self, place: Place) -> Readings:
        """Ask the first server that answers."""
        begun = time.perf_counter()

        async def ask(address: Address) -> Readings:
            reader, writer = await opened(place, address)
            try:
                return await self._asked(_Wire(reader, writer), place)
            finally:
                writer.close()

        addresses = addresses_of(place.target, self.port)
        found, problem, address = await first_answer(addresses, place.timeout_s, ask)
        if found is None:
            return down(problem)
        took_ms = round((time.perf_counter() - begun) * 1000, 3)
        told: Readings = {"latency_ms": took_ms, "endpoint": f"{address[0]}:{address[1]}"}
        return checked({**told, **found}, "")

    async def _asked(self, wire: _Wire, place: Place) -> Readings:
        access = place.access
        try:
            if access.password_file:
                who = (access.user,) if access.user else ()
                await wire.ask("AUTH", *who, place.secret(access.password_file))
            if self.database:
                await wire.ask("SELECT", str(self.database))
            if await wire.ask("PING") != "PONG":
                raise OSError("it does not speak the protocol of Redis")
            readings = _fields(await wire.ask("INFO"), self.info) if self.info else {}
            for name, key in self.length.items():
                readings[name] = await _length(wire, key)
        except _Refused as error:
            if str(error).startswith(("NOAUTH", "WRONGPASS", "NOPERM", "ERR AUTH")):
                raise Blind(f"it does not let us in: {error}") from error
            raise OSError(f"it answered {error}") from error
        return {name: value for name, value in readings.items() if value is not None}


class _Wire:
    """The protocol of Redis, as much of it as is asked here, and no longer than it may be."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def ask(self, *words: str) -> str | int | None:
        """The answer to one command."""
        parts = [f"*{len(words)}\r\n".encode()]
        for word in words:
            encoded = word.encode("utf-8", "surrogateescape")
            parts.append(b"$%d\r\n%s\r\n" % (len(encoded), encoded))
        self._writer.write(b"".join(parts))
        await self._writer.drain()
        return await self._answer()

    async def _answer(self) -> str | int | None:
        line = await self._line()
        kind, rest = line[:1], line[1:]
        if kind == "-":
            raise _Refused(rest[:120])
        if kind == "+":
            return rest
        if kind not in (":", "$") or not rest.lstrip("-").isdecimal():
            raise OSError("it does not speak the protocol of Redis")
        number = int(rest)
        if kind == ":":
            return number
        if number < 0:
            return None
        if number > ANSWER_BYTES_MAX:
            raise OSError("its answer is longer than anybody wants")
        body = await self._reader.readexactly(number + 2)
        return body[:-2].decode("utf-8", "replace")

    async def _line(self) -> str:
        try:
            line = await self._reader.readuntil(b"\r\n")
        except asyncio.LimitOverrunError as error:
            raise OSError("it does not speak the protocol of Redis") from error
        return line[:-2].decode("utf-8", "replace")


def _fields(told: str | int | None, wanted: Mapping[str, str]) -> Readings:
    """Lines such as `used_memory:1024`."""
    lines = (line.partition(":") for line in str(told).splitlines())
    known = {name: value for name, sign, value in lines if sign}
    found: dict[str, Value] = {}
    for name, field_name in wanted.items():
        text = known.get(field_name)
        if text is not None:
            number = number_in(text)
            found[name] = plain(text) if number is None else number
    return found


async def _length(wire: _Wire, key: str) -> Value:
    """How long a key is, whatever it holds; 0 for one that is not there."""
    kind = await wire.ask("TYPE", key)
    if kind == "none":
        return 0
    verb = _LENGTHS.get(str(kind))
    found = await wire.ask(verb, key) if verb else None
    return found if isinstance(found, int) else None


def read_redis(table: Table) -> RedisProbe:
    """The probe of a description."""
    info = {name: str(value) for name, value in table.pairs("info").items()}
    length = {name: str(value) for name, value in table.pairs("length").items()}
    for name in (*info, *length):
        if not NAME.fullmatch(name) or name in _OWN or (name in info and name in length):
            raise table.wrong(f"{name[:40]!r} is no name for a value of its own.")
    if len(info) + len(length) > VALUES_MAX:
        raise table.wrong(f"no more than {VALUES_MAX} values are read.")
    database = int(table.number("database", 0, low=0, high=1_000_000))
    return RedisProbe(table.port(), info, length, database)
