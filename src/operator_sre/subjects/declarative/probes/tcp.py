"""Opening a connection: whether it is accepted, and what is said when a word is sent."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from operator_sre.subjects.declarative.patterns import pattern_of
from operator_sre.subjects.declarative.probes.place import (
    Address,
    Place,
    Readings,
    addresses_of,
    checked,
    down,
    first_answer,
)
from operator_sre.subjects.declarative.table import Table

__all__ = ["KEYS", "TcpProbe", "opened", "read_tcp"]

ANSWER_BYTES_MAX = 16 * 1024
KEYS = ("port", "send", "expect")
_ESCAPES = {"\\r": "\r", "\\n": "\n", "\\t": "\t"}


@dataclass(frozen=True, slots=True)
class TcpProbe:
    """One connection; with a pattern, the answer has to match it."""

    port: int | None = None
    send: str = ""
    expect: str = ""

    @property
    def fields(self) -> frozenset[str]:
        """The values that it can give."""
        more = {"answer", "matched"} if self.expect else set()
        return frozenset({"up", "ok", "error", "latency_ms", "endpoint"} | more)

    async def look(self, place: Place) -> Readings:
        """Connect to the first address that accepts."""

        async def ask(address: Address) -> tuple[float, str]:
            begun = time.perf_counter()
            reader, writer = await opened(place, address)
            try:
                if self.send:
                    writer.write(self.send.encode())
                    await writer.drain()
                answer = await self._answer(reader) if self.expect else ""
            finally:
                writer.close()
            return (time.perf_counter() - begun) * 1000, answer

        addresses = addresses_of(place.target, self.port)
        found, problem, address = await first_answer(addresses, place.timeout_s, ask)
        if found is None:
            return down(problem)
        readings: Readings = {
            "latency_ms": round(found[0], 3),
            "endpoint": f"{address[0]}:{address[1]}",
        }
        if not self.expect:
            return checked(readings, "")
        matched = pattern_of(self.expect).search(found[1]) is not None
        readings |= {"answer": found[1][:200], "matched": matched}
        return checked(readings, "" if matched else f"it answered {found[1][:60]!r}")

    async def _answer(self, reader: asyncio.StreamReader) -> str:
        """What is said until it matches, ends, or is more than anybody wants."""
        said = b""
        while len(said) < ANSWER_BYTES_MAX:
            part = await reader.read(ANSWER_BYTES_MAX - len(said))
            said += part
            text = said.decode("utf-8", "replace")
            if not part or pattern_of(self.expect).search(text):
                break
        return said.decode("utf-8", "replace")


async def opened(
    place: Place, address: Address
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection as the target wants it: plain, or by TLS."""
    access = place.access
    if not access.tls:
        return await asyncio.open_connection(*address)
    name = access.server_name or address[0]
    return await asyncio.open_connection(
        *address, ssl=place.links.trust(access), server_hostname=name
    )


def read_tcp(table: Table) -> TcpProbe:
    """The probe of a description."""
    send = table.text("send")
    for escape, sign in _ESCAPES.items():
        send = send.replace(escape, sign)
    return TcpProbe(table.port(), send, table.regex("expect"))
