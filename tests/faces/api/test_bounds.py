"""Bounds of the API in front of many, of those who never read, and of those who read slowly."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import httpx2
import pytest

from operator_protocols.domain.entry import Draft, Kind
from operator_sre.app.listeners import Listener
from operator_sre.faces.api import events, listener
from operator_sre.faces.api.listener import serve
from operator_sre.faces.servers import connections
from operator_sre.faces.servers.connections import BoundedProtocol
from tests.faces.api.world import World
from tests.processes.waiting import eventually

pytestmark = pytest.mark.asyncio
ENTRIES, ENTRY_BYTES = 150, 40_000


@dataclass
class Place:
    """Where it is served, and every connection that there was."""

    url: str
    secrets: dict[str, str]
    made: list[BoundedProtocol] = field(default_factory=list)
    lost: list[BoundedProtocol] = field(default_factory=list)
    unread_bytes_max: int = 0

    def bearer(self, role: str) -> dict[str, str]:
        """What lets in."""
        return {"authorization": f"Bearer {self.secrets[role]}"}

    async def deaf(self, path: str, keeps_bytes: int = 4096) -> socket.socket:
        """Somebody who asks and does not read the answer."""
        one = socket.socket()
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, keeps_bytes)
        one.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(one, ("127.0.0.1", int(self.url.rpartition(":")[2])))
        head = f"GET {path} HTTP/1.1\r\nhost: localhost\r\n"
        head += f"authorization: {self.bearer('viewer')['authorization']}\r\n\r\n"
        await loop.sock_sendall(one, head.encode())
        return one


@asynccontextmanager
async def _served(world: World, patch: pytest.MonkeyPatch) -> AsyncIterator[Place]:
    heard: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    work = asyncio.ensure_future(serve(world.app, Listener("127.0.0.1", 0), ready=heard.set_result))
    place = Place(await heard, world.secrets)
    made, lost, look = (
        getattr(BoundedProtocol, name) for name in ("connection_made", "connection_lost", "_look")
    )

    def making(one: BoundedProtocol, transport: asyncio.Transport) -> None:
        place.made.append(one)
        made(one, transport)

    def losing(one: BoundedProtocol, error: Exception | None) -> None:
        place.lost.append(one)
        lost(one, error)

    def looking(one: BoundedProtocol) -> None:
        unread = one.transport.get_write_buffer_size()
        place.unread_bytes_max = max(place.unread_bytes_max, unread)
        look(one)

    patch.setattr(BoundedProtocol, "connection_made", making)
    patch.setattr(BoundedProtocol, "connection_lost", losing)
    patch.setattr(BoundedProtocol, "_look", looking)
    try:
        yield place
    finally:
        work.cancel()
        await asyncio.wait([work])


async def _fill(world: World) -> int:
    for number in range(ENTRIES):
        text = f"{number} " + "words " * (ENTRY_BYTES // 6)
        last = await world.app.store.journal.append(Draft(Kind.REASONING, {"text": text}))
    return last.seq


async def test_one_too_many_is_told_so_and_those_before_it_are_served(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (listener.CONNECTIONS_MAX, connections.SPARE) == (256, 64)
    monkeypatch.setattr(listener, "CONNECTIONS_MAX", 3)
    monkeypatch.setattr(connections, "SPARE", 2)
    async with _served(world, monkeypatch) as place:
        port = int(place.url.rpartition(":")[2])
        bearer = f"authorization: {place.bearer('viewer')['authorization']}"
        asking = f"GET /v1/mode HTTP/1.1\r\nhost: localhost\r\n{bearer}\r\n\r\n".encode()
        opened = []
        for _ in range(6):
            opened.append(await asyncio.open_connection("127.0.0.1", port))
            await eventually(lambda: len(place.made) == len(opened))
        told = []
        for reader, writer in opened:
            writer.write(asking)
            try:
                told.append((await asyncio.wait_for(reader.read(12), 30)).decode())
            except ConnectionResetError:
                told.append("")
        full = "HTTP/1.1 503"
        assert told == ["HTTP/1.1 200"] * 3 + [full, full, ""]
        opened[0][1].write(asking)  # the same connection, once more, while it is full
        again = await asyncio.wait_for(opened[0][0].readuntil(b"HTTP/1.1 200"), 30)
        assert again.endswith(b"HTTP/1.1 200")
        for _, writer in opened:
            writer.close()
        await eventually(lambda: len(place.lost) == 6)
        async with httpx2.AsyncClient(base_url=place.url, timeout=30) as client:
            assert (await client.get("/healthz")).status_code == 200


async def test_so_many_listen_and_the_next_is_let_in_when_one_goes(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (events.VIEWERS_MAX, events.VIEWERS_OF_TOKEN_MAX) == (32, 8)
    monkeypatch.setattr(events, "VIEWERS_MAX", 3)
    monkeypatch.setattr(events, "VIEWERS_OF_TOKEN_MAX", 2)
    async with (
        _served(world, monkeypatch) as place,
        httpx2.AsyncClient(base_url=place.url, timeout=30) as client,
    ):
        streams = []
        for role in ("viewer", "viewer", "approver"):
            asked = client.build_request("GET", "/v1/events", headers=place.bearer(role))
            streams.append(await client.send(asked, stream=True))
            assert streams[-1].status_code == 200
        for role, why in (("viewer", "with this token"), ("admin", "3 others listen already.")):
            refused = await client.get("/v1/events", headers=place.bearer(role))
            assert (refused.status_code, refused.headers["retry-after"]) == (429, "30")
            assert why in refused.json()["error"]["message"]
        await streams[0].aclose()
        async with asyncio.timeout(30):
            while True:
                asked = client.build_request("GET", "/v1/events", headers=place.bearer("admin"))
                one = await client.send(asked, stream=True)
                await one.aclose()
                if one.status_code == 200:
                    break
        for stream in streams:
            await stream.aclose()


async def test_who_listens_and_never_reads_holds_little_and_is_let_go(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (connections.UNREAD_S_MAX, events.PIECE_BYTES) == (20.0, 64 * 1024)
    head = await _fill(world)
    monkeypatch.setattr(connections, "UNREAD_S_MAX", 1.0)
    monkeypatch.setattr(connections, "LOOK_S", 0.05)
    async with _served(world, monkeypatch) as place:
        deaf = [await place.deaf("/v1/events?after=0") for _ in range(4)]
        await eventually(lambda: len(place.made) == 4 and place.unread_bytes_max > 0)
        # Whoever reads beside them hears everything, and others are answered.
        async with httpx2.AsyncClient(base_url=place.url, timeout=30) as client:
            path, heard = "/v1/events?after=0", 0
            async with client.stream("GET", path, headers=place.bearer("admin")) as stream:
                async for line in stream.aiter_lines():
                    heard = int(line.removeprefix("id: ")) if line.startswith("id: ") else heard
                    if heard >= head:
                        break
            told = await client.get("/v1/mode", headers=place.bearer("admin"))
            assert told.status_code == 200
            await eventually(lambda: set(place.made[:4]) <= set(place.lost))
            # Their places are free again.
            for _ in range(4):
                asked = client.build_request("GET", path, headers=place.bearer("viewer"))
                one = await client.send(asked, stream=True)
                assert one.status_code == 200
                await one.aclose()
        most = 4 * events.PIECE_BYTES + 2 * ENTRY_BYTES
        assert place.unread_bytes_max < most < ENTRIES * ENTRY_BYTES / 10
        for unheard in deaf:
            unheard.close()


async def test_an_answer_that_nobody_reads_is_dropped_and_a_slow_reader_gets_all_of_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _fill(world)
    monkeypatch.setattr(connections, "UNREAD_S_MAX", 1.0)
    monkeypatch.setattr(connections, "LOOK_S", 0.05)
    path = "/v1/audit?limit=100"
    async with _served(world, monkeypatch) as place:
        deaf = await place.deaf(path)
        slow = await place.deaf(path, keeps_bytes=200_000)
        loop = asyncio.get_running_loop()
        got = 0
        begun = loop.time()
        while got < 80 * ENTRY_BYTES:
            part = await loop.sock_recv(slow, 65_536)
            assert part, "who reads, however slowly, is not cut off"
            got += len(part)
            due = min(loop.time() + 0.1, begun + 3.0)  # longer than nothing may be read
            await eventually(lambda due=due: loop.time() >= due)  # type: ignore[misc]
        await eventually(lambda: place.made[0] in place.lost)
        deaf.close()
        slow.close()
