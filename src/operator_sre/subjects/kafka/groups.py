"""Asking consumer groups: their coordinator for members and offsets, leaders for the ends."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from operator_protocols.domain.target import Target
from operator_protocols.ports import SubjectSettings
from operator_sre.subjects.kafka.fields import Reader, text
from operator_sre.subjects.kafka.protocol import Request
from operator_sre.subjects.kafka.state import Cluster
from operator_sre.subjects.kafka.wire import Line

__all__ = ["GroupView", "Place", "read_groups"]

T = TypeVar("T")
Spot = tuple[str, int]
LATEST, EARLIEST = -1, -2
GROUPS_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Place:
    """Where a group is in a partition: how far it read, and which offsets there are."""

    read: int
    first: int
    end: int


@dataclass(frozen=True, slots=True)
class GroupView:
    """A consumer group: its state, its members (None where they are unknown), its places."""

    state: str = ""
    members: int | None = None
    places: Mapping[Spot, Place] = field(default_factory=dict)
    owned: frozenset[Spot] = frozenset()
    error: str = ""


@dataclass(frozen=True, slots=True)
class _Members:
    code: int
    state: str
    count: int
    owned: frozenset[Spot]


async def read_groups(
    settings: SubjectSettings,
    cluster: Cluster,
    names: Sequence[str],
    *,
    mechanism: str,
    within_s: float,
) -> dict[str, GroupView]:
    """Each of these groups. Nothing that a broker does raises: the view has an `error`."""
    if cluster.metadata is None:
        return {name: GroupView(error="no broker tells its partitions") for name in names}
    hosts = {entry.node: (entry.host, entry.port) for entry in cluster.metadata.brokers}
    targets = {
        cluster.nodes[each.target.name]: each.target
        for each in cluster.up
        if each.target.name in cluster.nodes
    }

    async def ask(node: int, *requests: Request[T]) -> list[T | None]:
        target = targets.get(node)
        if target is None:  # a broker that is no target of ours
            access = next((each.target.access for each in cluster.statuses), None)
            host, port = hosts.get(node, ("", 0))
            target = Target(f"broker {node}", "broker", host, port or None, access=access)
        try:
            async with Line(settings, target, mechanism=mechanism, within_s=within_s) as line:
                return [(await line.ask(request)).value for request in requests]
        except OSError:
            return [None for _ in requests]

    speaker = cluster.speaker()
    assert speaker is not None
    places = asyncio.Semaphore(GROUPS_AT_ONCE)

    async def ask_group(name: str) -> tuple[_Members | None, dict[Spot, int] | None, str]:
        async with places:
            (found,) = await ask(cluster.nodes.get(speaker.target.name, -1), _coordinator(name))
            if found is None or found[0]:
                return None, None, "its coordinator is not available"
            (members,) = await ask(found[1], _describe(name))
            (offsets,) = await ask(found[1], _offsets(name))
            return members, offsets, ""

    found = dict(zip(names, await asyncio.gather(*map(ask_group, names)), strict=True))
    spots = {spot for _, offsets, _ in found.values() for spot in offsets or ()}
    by_leader: dict[int, list[Spot]] = {}
    for partition in cluster.partitions:
        spot = partition.topic, partition.index
        if spot in spots and partition.leader >= 0:
            by_leader.setdefault(partition.leader, []).append(spot)
    ends: dict[Spot, tuple[int, int]] = {}

    async def ask_ends(leader: int, wanted: list[Spot]) -> None:
        firsts, lasts = await ask(leader, _ends(wanted, EARLIEST), _ends(wanted, LATEST))
        for spot in wanted:
            if firsts and lasts and spot in firsts and spot in lasts:
                ends[spot] = firsts[spot], lasts[spot]

    await asyncio.gather(*(ask_ends(leader, wanted) for leader, wanted in by_leader.items()))
    return {name: _view(*parts, ends) for name, parts in found.items()}


def _view(
    members: _Members | None,
    offsets: Mapping[Spot, int] | None,
    error: str,
    ends: Mapping[Spot, tuple[int, int]],
) -> GroupView:
    if members is None or offsets is None:
        return GroupView(error=error or "its coordinator did not answer")
    if members.code:
        return GroupView(error=f"its coordinator answered error {members.code}")
    found = {spot: Place(read, *ends[spot]) for spot, read in offsets.items() if spot in ends}
    # Groups of the newer protocol are dead to this request, and have offsets.
    known = members.state != "Dead" or not offsets
    return GroupView(members.state, members.count if known else None, found, members.owned)


def _coordinator(group: str) -> Request[tuple[int, int]]:
    """The error, and the node that coordinates the group."""

    def read(reader: Reader) -> tuple[int, int]:
        reader.number("i")
        code, _ = reader.number("h"), reader.text()
        return code, reader.number("i")

    return Request(10, 1, text(group) + b"\0", read)


def _describe(group: str) -> Request[_Members]:
    def read(reader: Reader) -> _Members:
        reader.number("i")

        def member() -> list[Spot]:
            for _ in range(3):
                reader.text()
            reader.octets()
            return list(_read_assignment(reader.octets()))

        def one() -> _Members:
            code, _, state = reader.number("h"), reader.text(), reader.text()
            reader.text(), reader.text()
            rows = reader.many(member)
            return _Members(code, state, len(rows), frozenset(s for row in rows for s in row))

        found = reader.many(one)
        if not found:
            raise ValueError("the answer has no group")
        return found[0]

    return Request(15, 1, struct.pack(">i", 1) + text(group), read)


def _read_assignment(data: bytes) -> Iterable[Spot]:
    """The partitions of a member; none where it has a protocol of its own."""
    reader = Reader(data)
    try:
        reader.number("h")
        rows = reader.many(lambda: (reader.text(), reader.integers()))
    except ValueError:
        return []
    return [(topic, index) for topic, indexes in rows for index in indexes]


def _offsets(group: str) -> Request[dict[Spot, int]]:
    """Where the group is in every partition that it has read."""

    def read(reader: Reader) -> dict[Spot, int]:
        reader.number("i")
        found: dict[Spot, int] = {}

        def topic() -> None:
            name = reader.text()

            def partition() -> None:
                index, offset = reader.number("i"), reader.number("q")
                reader.text()
                if not reader.number("h") and offset >= 0:
                    found[name, index] = offset

            reader.many(partition)

        reader.many(topic)
        if code := reader.number("h"):
            raise ValueError(f"it answered error {code}")
        return found

    return Request(9, 3, text(group) + struct.pack(">i", -1), read)


def _ends(spots: Iterable[Spot], when: int) -> Request[dict[Spot, int]]:
    """The first or the last offset of partitions, asked at their leader."""
    topics: dict[str, list[int]] = {}
    for name, index in spots:
        topics.setdefault(name, []).append(index)

    def read(reader: Reader) -> dict[Spot, int]:
        found: dict[Spot, int] = {}

        def topic() -> None:
            name = reader.text()

            def partition() -> None:
                index, code, _ = reader.number("i"), reader.number("h"), reader.number("q")
                offset = reader.number("q")
                if not code:
                    found[name, index] = offset

            reader.many(partition)

        reader.many(topic)
        return found

    body = struct.pack(">ii", -1, len(topics))
    for name, indexes in topics.items():
        body += text(name) + struct.pack(">i", len(indexes))
        body += b"".join(struct.pack(">iq", index, when) for index in indexes)
    return Request(2, 1, body, read)
