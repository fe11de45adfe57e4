"""Brokers that speak the protocol of Kafka from a described cluster, for tests without Java.

Only what Operator asks is answered, in the versions in which it asks. Tests against real brokers
(`test_kafka_rig.py`) make the same claims.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

from operator_protocols.domain.target import Target
from operator_sre.subjects.kafka.fields import Reader, compact, text, varint
from operator_sre.subjects.kafka.protocol import Partition

__all__ = ["World", "serve", "spread"]

FLEXIBLE = (35, 46, 55)


@dataclass
class World:
    """A cluster: its brokers by id, its partitions, and who leads the controllers.

    A silent broker is missed at once, except when it is `kept`.
    """

    partitions: list[Partition]
    leader: int = 1
    silent: set[int] = field(default_factory=set)
    kept: set[int] = field(default_factory=set)
    slow_s: dict[int, float] = field(default_factory=dict)
    fenced: set[int] = field(default_factory=set)
    offline_dirs: set[int] = field(default_factory=set)
    usable_bytes: int = 80 << 30
    topics: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    brokers: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    ports: dict[int, int] = field(default_factory=dict)
    garbage: bool = False
    moves_code: int = 0
    racks: Mapping[int, str] = field(default_factory=dict)

    def answer(self, node: int, key: int, body: Reader) -> bytes:
        """The body of an answer of one broker."""
        match key:
            case 3:
                return self._metadata(all_topics=body.number("i") < 0)
            case 55:
                return self._quorum()
            case 35:
                code = 56 if node in self.offline_dirs else 0
                place = struct.pack(">h", code) + compact("/data") + varint(1)
                place += struct.pack(">qq", 100 << 30, self.usable_bytes) + b"\0"
                return struct.pack(">ih", 0, 0) + varint(2) + place + b"\0"
            case 46:
                return struct.pack(">ih", 0, self.moves_code) + b"\0" + varint(1) + b"\0"
            case 48:
                return struct.pack(">ih", 0, 0) + struct.pack(">h", -1) + struct.pack(">i", 0)
            case 32:
                return self._settings(body)
            case _:
                raise ValueError(key)

    def _metadata(self, *, all_topics: bool) -> bytes:
        alive = [node for node in self.ports if node not in (self.silent - self.kept) | self.fenced]
        found = struct.pack(">ii", 0, len(alive))
        for node in alive:
            found += struct.pack(">i", node) + text("127.0.0.1")
            found += struct.pack(">i", self.ports[node]) + text(self.racks.get(node, "rack"))
        found += text("cluster") + struct.pack(">i", 1)
        topics: dict[str, list[Partition]] = {}
        for each in self.partitions if all_topics else ():
            topics.setdefault(each.topic, []).append(each)
        parts = [found, struct.pack(">i", len(topics))]
        for name, rows in topics.items():
            parts.append(struct.pack(">h", 0) + text(name) + b"\0" + struct.pack(">i", len(rows)))
            for each in rows:
                parts.append(struct.pack(">hiii", 0, each.index, each.leader, 1))
                for nodes in (each.replicas, each.in_sync, each.offline):
                    parts.append(struct.pack(f">i{len(nodes)}i", len(nodes), *nodes))
        return b"".join(parts)

    def _quorum(self) -> bytes:
        if self.leader < 0:
            return struct.pack(">h", 41) + varint(1) + b"\0"
        nodes = sorted({self.leader, *sorted(self.ports)[:3]})
        voters = b"".join(struct.pack(">iqqq", node, 9, -1, 1) + b"\0" for node in nodes)
        partition = struct.pack(">ihiiq", 0, 0, self.leader, 7, 9)
        partition += varint(len(nodes) + 1) + voters + varint(1) + b"\0"
        topic = compact("__cluster_metadata") + varint(2) + partition + b"\0"
        return struct.pack(">h", 0) + varint(2) + topic + b"\0"

    def _settings(self, body: Reader) -> bytes:
        def resource() -> bytes:
            kind, name = body.number("b"), body.text()
            asked = body.many(body.text)
            own = self.topics.get(name, {}) if kind == 2 else self.brokers.get(int(name), {})
            usual = {"min.insync.replicas": "2", "default.replication.factor": "3"}
            values = {key: own.get(key, usual.get(key, "")) for key in asked}
            found = struct.pack(">hh", 0, -1) + struct.pack(">b", kind) + text(name)
            found += struct.pack(">i", len(values))
            for key, value in values.items():
                source = (1 if kind == 2 else 2) if key in own else 5
                found += text(key) + text(value) + struct.pack(">bbbi", 0, source, 0, 0)
            return found

        rows = body.many(resource)
        return struct.pack(">ii", 0, len(rows)) + b"".join(rows)


def spread(topics: int, partitions: int, nodes: Sequence[int], copies: int = 3) -> list[Partition]:
    """Partitions spread evenly over brokers, all in sync."""
    found = []
    for topic in range(topics):
        for index in range(partitions):
            replicas = tuple(nodes[(topic + index + copy) % len(nodes)] for copy in range(copies))
            found.append(Partition(f"topic-{topic}", index, replicas[0], replicas, replicas))
    return found


@asynccontextmanager
async def serve(world: World, nodes: Sequence[int]) -> AsyncIterator[tuple[Target, ...]]:
    """The brokers of a world on ports of their own."""
    writers: set[asyncio.StreamWriter] = set()
    tasks: set[asyncio.Task[None] | None] = set()

    async def answer(node: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.add(writer)
        tasks.add(asyncio.current_task())
        with contextlib.suppress(asyncio.IncompleteReadError, OSError):
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                message = Reader(await reader.readexactly(size))
                if node in world.silent:
                    continue
                await asyncio.sleep(world.slow_s.get(node, 0.0))
                if world.garbage:
                    writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                    break
                key, _, number = message.number("h"), message.number("h"), message.number("i")
                message.text()
                head = struct.pack(">i", number) + (b"\0" if key in FLEXIBLE else b"")
                found = head + world.answer(node, key, message)
                writer.write(struct.pack(">i", len(found)) + found)
                await writer.drain()
        writer.close()

    async with contextlib.AsyncExitStack() as stack:
        for node in nodes:
            server = await asyncio.start_server(partial(answer, node), "127.0.0.1", 0)
            await stack.enter_async_context(server)
            world.ports[node] = server.sockets[0].getsockname()[1]
        yield tuple(Target(f"broker-{node}", "broker", port=world.ports[node]) for node in nodes)
        for writer in writers:
            writer.transport.abort()
        await asyncio.gather(*filter(None, tasks))
