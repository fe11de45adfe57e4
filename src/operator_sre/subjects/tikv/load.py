"""Traffic on a TiKV rig: regions are looked up at PD and read at the stores that lead them.

Clients of TiKV find their way like this, and then speak gRPC. These requests stay with HTTP: they
ask the store for the state of the region, and read and write no keys.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from operator_protocols.kit.access import Address
from operator_protocols.kit.http import Request, exchange
from operator_sre.subjects.tikv.kinds import address_of

__all__ = ["RegionReads"]

BODY_BYTES_MAX = 1 << 20
# A lookup is shared by all requests that wait for one, and is made at most that often.
LOOKUP_EVERY_S = 0.25
PD_S_MAX = 0.3
STORE_S_MAX = 0.5


@dataclass(frozen=True, slots=True)
class Route:
    """One region, and where the store that leads it answers."""

    region: int
    place: Address


class RegionReads:
    """Reads one region after the other, each at its leader; looks up again where that fails."""

    def __init__(self, host: str, ports: Sequence[int]) -> None:
        self._members: list[Address] = [(host, port) for port in ports]
        self._routes: tuple[Route, ...] = ()
        self._looked_at = float("-inf")
        self._lock = asyncio.Lock()

    async def ask(self, turn: int) -> str:
        """Read a region: again until it works, as clients do; the caller bounds the time."""
        while True:
            routes = self._routes or await self._look_up()
            if routes and await self._read(routes[turn % len(routes)]):
                return "good"
            if self._routes is routes:
                self._routes = ()
            await asyncio.sleep(LOOKUP_EVERY_S)

    async def _read(self, route: Route) -> bool:
        request = Request("GET", f"/region/{route.region}", body_bytes_max=BODY_BYTES_MAX)
        try:
            async with asyncio.timeout(STORE_S_MAX):
                answer = await exchange(route.place, request)
        except (OSError, TimeoutError):
            return False
        return answer.status == 200

    async def _look_up(self) -> tuple[Route, ...]:
        async with self._lock:
            now = asyncio.get_running_loop().time()
            if self._routes or now - self._looked_at < LOOKUP_EVERY_S:
                return self._routes
            self._looked_at = now
            for member in list(self._members):
                try:
                    async with asyncio.timeout(PD_S_MAX):
                        stores = await _page(member, "stores")
                        regions = await _page(member, "regions")
                    self._routes = _routes(stores, regions)
                    return self._routes
                except (OSError, TimeoutError, ValueError, KeyError, TypeError):
                    # The next one is asked first from now on.
                    self._members = [*self._members[1:], self._members[0]]
            return ()


async def _page(member: Address, name: str) -> Mapping[str, Any]:
    request = Request("GET", f"/pd/api/v1/{name}", body_bytes_max=BODY_BYTES_MAX)
    answer = await exchange(member, request)
    if answer.status != 200:
        raise OSError(f"PD answered {answer.status}")
    page: Mapping[str, Any] = json.loads(answer.body)
    return page


def _routes(stores: Mapping[str, Any], regions: Mapping[str, Any]) -> tuple[Route, ...]:
    places: dict[int, Address] = {}
    for each in stores["stores"]:
        host, _, port = address_of(each["store"]["status_address"]).rpartition(":")
        places[each["store"]["id"]] = (host, int(port))
    found = []
    for region in regions["regions"]:
        leader = (region.get("leader") or {}).get("store_id")
        if leader in places:
            found.append(Route(int(region["id"]), places[leader]))
    return tuple(sorted(found, key=lambda route: route.region))
