"""Traffic on a TiKV rig finds the leader of each region, and finds it again when it moves."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from operator_lab.load_clients import Reply, RoutedRequests
from operator_protocols.domain.rig import LoadClient
from operator_sre.subjects.tikv import STORY, plugin
from operator_sre.subjects.tikv.load import RegionReads
from operator_sre.subjects.tikv.rig import LOAD_PER_S
from tests.engines.tikv.wire import Reply as Page
from tests.engines.tikv.wire import Request, serve

NAME = f"{RegionReads.__module__}:RegionReads"
HOST = "127.0.0.1"


@dataclass
class Town:
    """Three PD members that agree, and two stores; who leads which region is said here."""

    leaders: dict[int, int] = field(default_factory=lambda: {7: 1, 8: 2, 9: 1})
    asked: Counter[str] = field(default_factory=Counter)
    stores: dict[int, int] = field(default_factory=dict)
    members: list[int] = field(default_factory=list)
    closed: set[int] = field(default_factory=set)

    async def from_member(self, request: Request) -> Page:
        self.asked[request.path] += 1
        if request.path.endswith("/stores"):
            rows = [
                {"store": {"id": sid, "status_address": f"{HOST}:{port}"}}
                for sid, port in self.stores.items()
            ]
            return Page.of({"stores": rows})
        regions = [
            {"id": rid, "leader": {"store_id": sid} if sid else None}
            for rid, sid in self.leaders.items()
        ]
        return Page.of({"regions": regions})

    async def from_store(self, sid: int, request: Request) -> Page:
        region = int(request.path.removeprefix("/region/"))
        self.asked[f"{sid}/{region}"] += 1
        is_leader = self.leaders[region] == sid and sid not in self.closed
        return Page.of({"id": region}) if is_leader else Page(404, b"region not found")


@asynccontextmanager
async def _town() -> AsyncIterator[Town]:
    town = Town()
    servers = []
    for sid in (1, 2):

        async def answer(request: Request, sid: int = sid) -> Page:
            return await town.from_store(sid, request)

        servers.append(await serve(HOST, 0, answer))
        town.stores[sid] = servers[-1].sockets[0].getsockname()[1]
    for _ in range(2):
        servers.append(await serve(HOST, 0, town.from_member))
        town.members.append(servers[-1].sockets[0].getsockname()[1])
    try:
        yield town
    finally:
        for server in servers:
            server.close()
            await server.wait_closed()


@pytest.mark.asyncio
async def test_each_region_is_read_at_its_leader_with_one_lookup_for_all() -> None:
    async with _town() as town:
        load = RoutedRequests(NAME, HOST, town.members)
        replies = await asyncio.gather(*(load.ask(turn) for turn in range(9)))
        assert set(replies) == {Reply.GOOD}
        reads = {name: count for name, count in town.asked.items() if name[0] != "/"}
        assert reads == {"1/7": 3, "2/8": 3, "1/9": 3}
        assert town.asked["/pd/api/v1/regions"] == 1


@pytest.mark.asyncio
async def test_a_leader_that_moved_is_looked_up_again() -> None:
    async with _town() as town:
        load = RoutedRequests(NAME, HOST, town.members)
        assert await load.ask(0) is Reply.GOOD
        town.leaders = {7: 2, 8: 2, 9: 2}
        assert await load.ask(0) is Reply.GOOD
        assert (town.asked["1/7"], town.asked["2/7"]) == (2, 1)


@pytest.mark.asyncio
async def test_regions_that_nobody_serves_are_late_and_a_dead_member_is_passed_over() -> None:
    async with _town() as town:
        load = RoutedRequests(NAME, HOST, [1, *town.members])
        town.closed = {1, 2}
        assert await load.ask(0) is Reply.LATE
        town.closed = set()
        assert await load.ask(0) is Reply.GOOD
    assert await load.ask(1) is Reply.LATE


def test_the_rig_has_traffic_and_the_demo_words_for_every_chapter() -> None:
    client: LoadClient = RegionReads(HOST, [1])
    assert client is not None
    assert LOAD_PER_S > 0
    assert plugin.story is STORY
    assert set(STORY) == {"cluster", "watch", "fault", "detection", "remedy", "proof"}
