"""Asking Valkey or Redis: PING, fields of INFO, and how long keys are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from operator_protocols.kit.access import Address
from operator_protocols.kit.resp import ErrorReply, ProtocolError, Wire
from operator_sre.subjects.declarative.document import NAME, Table
from operator_sre.subjects.declarative.probes.place import Blind, Place, observe_first, places_of
from operator_sre.subjects.declarative.probes.tcp import open_connection
from operator_sre.subjects.declarative.values import Readings, number_in, plain

__all__ = ["KEYS", "RedisProbe", "read_redis"]

KEYS = ("port", "info", "length", "database")
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

    async def observe(self, place: Place) -> Readings:
        """Ask the first server that answers."""

        async def ask(address: Address) -> Readings:
            reader, writer = await open_connection(place, address)
            try:
                return await self._ask_all(Wire(reader, writer), place)
            except _Refused as error:
                if str(error).startswith(("NOAUTH", "WRONGPASS", "NOPERM", "ERR AUTH")):
                    raise Blind(f"login rejected: {error}") from error
                raise OSError(f"it answered {error}") from error
            finally:
                writer.close()

        return await observe_first(place, places_of(place.target, self.port), ask)

    async def _ask_all(self, wire: Wire, place: Place) -> Readings:
        access = place.access
        if access.password_file:
            user = (access.user,) if access.user else ()
            await _ask(wire, "AUTH", *user, place.secret(access.password_file))
        if self.database:
            await _ask(wire, "SELECT", str(self.database))
        if await _ask(wire, "PING") != "PONG":
            raise OSError("it does not speak the Redis protocol")
        readings: Readings = {}
        if self.info:
            # Lines such as `used_memory:1024`.
            lines = str(await _ask(wire, "INFO")).splitlines()
            known = dict(line.split(":", 1) for line in lines if ":" in line)
            for name, text in ((name, known.get(key)) for name, key in self.info.items()):
                if text is not None:
                    number = number_in(text)
                    readings[name] = plain(text) if number is None else number
        for name, key in self.length.items():
            # The length of a key, whatever it holds; 0 for a missing key.
            kind = await _ask(wire, "TYPE", key)
            verb = _LENGTHS.get(str(kind))
            length = await _ask(wire, verb, key) if verb else None
            if kind == "none" or isinstance(length, int):
                readings[name] = 0 if kind == "none" else length
        return {name: value for name, value in readings.items() if value is not None}


async def _ask(wire: Wire, *words: str) -> str | int | None:
    """The answer to one command; _Refused where it is an error."""
    try:
        reply = await wire.ask(*words)
    except ProtocolError as error:
        raise OSError("it does not speak the Redis protocol") from error
    if isinstance(reply, ErrorReply):
        raise _Refused(reply.text[:120])
    if isinstance(reply, list):
        raise OSError("it does not speak the Redis protocol")
    return reply


def read_redis(table: Table) -> RedisProbe:
    """Parse the probe of a description."""
    info = {name: str(value) for name, value in table.pairs("info").items()}
    length = {name: str(value) for name, value in table.pairs("length").items()}
    for name in (*info, *length):
        if not NAME.fullmatch(name) or name in _OWN or (name in info and name in length):
            raise table.wrong(f"{name[:40]!r} is not a valid name for a value of its own.")
    if len(info) + len(length) > VALUES_MAX:
        raise table.wrong(f"no more than {VALUES_MAX} values are read.")
    database = int(table.number("database", 0, low=0, high=1_000_000))
    return RedisProbe(table.port(), info, length, database)
