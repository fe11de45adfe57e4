"""Opening a connection: whether it is accepted, and the answer when a text is sent."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from operator_protocols.kit.access import Address
from operator_sre.subjects.declarative.document import Table
from operator_sre.subjects.declarative.patterns import pattern_of
from operator_sre.subjects.declarative.probes.place import Place, down, first_answer, places_of, up
from operator_sre.subjects.declarative.values import Readings

__all__ = ["KEYS", "TcpProbe", "open_connection", "read_tcp"]

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

    async def observe(self, place: Place) -> Readings:
        """Connect to the first address that accepts."""

        async def ask(address: Address) -> tuple[float, str]:
            started = time.perf_counter()
            reader, writer = await open_connection(place, address)
            received, text = b"", ""
            try:
                if self.send:
                    writer.write(self.send.encode())
                    await writer.drain()
                # Read until the answer matches, ends, or exceeds the limit.
                while self.expect and len(received) < ANSWER_BYTES_MAX:
                    part = await reader.read(ANSWER_BYTES_MAX - len(received))
                    received += part
                    text = received.decode("utf-8", "replace")
                    if not part or pattern_of(self.expect).search(text):
                        break
            finally:
                writer.close()
            return (time.perf_counter() - started) * 1000, text

        addresses = places_of(place.target, self.port)
        result, problem, address = await first_answer(addresses, place.timeout_s, ask)
        if result is None:
            return down(problem)
        took_ms, answer = result
        readings: Readings = {
            "latency_ms": round(took_ms, 3),
            "endpoint": f"{address[0]}:{address[1]}",
        }
        if not self.expect:
            return up(readings, "")
        matched = pattern_of(self.expect).search(answer) is not None
        readings |= {"answer": answer[:200], "matched": matched}
        return up(readings, "" if matched else f"it answered {answer[:60]!r}")


async def open_connection(
    place: Place, address: Address
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection as the target requires: plain, or by TLS."""
    access = place.access
    if not access.tls:
        return await asyncio.open_connection(*address)
    name = access.server_name or address[0]
    return await asyncio.open_connection(*address, ssl=place.trust, server_hostname=name)


def read_tcp(table: Table) -> TcpProbe:
    """Parse the probe of a description."""
    send = table.text("send")
    for escape, sign in _ESCAPES.items():
        send = send.replace(escape, sign)
    return TcpProbe(table.port(), send, table.regex("expect"))
