"""Resolving a name as the programs of this machine do."""

from __future__ import annotations

import asyncio
import socket
import time
from dataclasses import dataclass

from operator_sre.subjects.declarative.document import Table
from operator_sre.subjects.declarative.probes.place import Blind, Place, down, up
from operator_sre.subjects.declarative.values import Readings

__all__ = ["KEYS", "DnsProbe", "read_dns"]

KEYS = ("name", "address")
ADDRESSES_MAX = 5
_UNKNOWN = (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME))


@dataclass(frozen=True, slots=True)
class DnsProbe:
    """One name, of the target's host where none is given, and the address that it should have."""

    name: str = ""
    address: str = ""

    @property
    def fields(self) -> frozenset[str]:
        """The values that it can give."""
        return frozenset({"up", "ok", "error", "addresses", "count", "latency_ms"})

    async def observe(self, place: Place) -> Readings:
        """Ask the resolver of this machine."""
        name = self.name or place.target.host
        loop = asyncio.get_running_loop()
        started = time.perf_counter()
        try:
            async with asyncio.timeout(place.timeout_s):
                found = await loop.getaddrinfo(name, None, type=socket.SOCK_STREAM)
        except socket.gaierror as error:
            if error.errno in _UNKNOWN:
                return down(f"the host name {name!r} cannot be resolved", count=0)
            return down(f"the name server does not answer for {name!r}: name resolution failed")
        except TimeoutError:
            return down(f"the name server does not answer in time for {name!r}")
        except UnicodeError as error:
            raise Blind(f"{name[:60]!r} is not a valid name") from error
        addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
        readings: Readings = {
            "addresses": ", ".join(addresses[:ADDRESSES_MAX]),
            "count": len(addresses),
            "latency_ms": round((time.perf_counter() - started) * 1000, 3),
        }
        wrong = bool(self.address) and self.address not in addresses
        why = f"{name!r} resolves to {readings['addresses']}, not {self.address}" if wrong else ""
        return up(readings, why)


def read_dns(table: Table) -> DnsProbe:
    """Parse the probe of a description."""
    return DnsProbe(table.text("name"), table.text("address"))
