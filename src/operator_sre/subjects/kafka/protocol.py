"""Messages of the Kafka protocol that Operator sends, and what the answers say. Pure.

librdkafka administers topics, groups and settings; who leads the quorum, log directories,
reassignments and quotas it cannot ask, and it hides which broker answered.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from operator_sre.subjects.kafka.fields import Reader, compact, text, varint

__all__ = [
    "Answer",
    "BrokerEntry",
    "LogDir",
    "Metadata",
    "Partition",
    "Quorum",
    "Quota",
    "Reassignment",
    "Request",
    "Setting",
    "api_versions",
    "authenticate",
    "client_quotas",
    "describe_settings",
    "encode_request",
    "handshake",
    "log_dirs",
    "metadata",
    "move_replicas",
    "quorum",
    "reassignments",
    "set_quota",
]

T = TypeVar("T")
METADATA_LOG = "__cluster_metadata"
FORWARDED_MS_MAX = 5_000


@dataclass(frozen=True, slots=True)
class Request(Generic[T]):
    """A request: its key, version and body, and how its answer is read."""

    key: int
    version: int
    body: bytes
    read: Callable[[Reader], T]
    flexible: bool = False


def encode_request(request: Request[T], number: int, client: str) -> bytes:
    """The whole message."""
    head = struct.pack(">hhi", request.key, request.version, number) + text(client)
    message = head + (b"\0" if request.flexible else b"") + request.body
    return struct.pack(">i", len(message)) + message


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """What a broker answered, or why it did not; `code` is the error that it gave."""

    value: T | None = None
    error: str = ""
    code: int = 0
    took_s: float = 0.0


@dataclass(frozen=True, slots=True)
class BrokerEntry:
    """A broker in the metadata of another: it is registered and not fenced."""

    node: int
    host: str
    port: int
    rack: str


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition: who leads it (-1 for nobody), its replicas, and those in sync."""

    topic: str
    index: int
    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    offline: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """As the tools of Kafka write it."""
        return f"{self.topic}-{self.index}"


@dataclass(frozen=True, slots=True)
class Metadata:
    """The cluster as one broker knows it."""

    cluster: str
    brokers: tuple[BrokerEntry, ...]
    partitions: tuple[Partition, ...] = ()


def api_versions() -> Request[tuple[int, Mapping[int, tuple[int, int]]]]:
    """Which requests a broker understands; the first question of every client."""

    def read(reader: Reader) -> tuple[int, Mapping[int, tuple[int, int]]]:
        code = reader.number("h")
        rows = reader.many(lambda: (reader.number("h"), reader.number("h"), reader.number("h")))
        return code, {key: (low, high) for key, low, high in rows}

    return Request(18, 0, b"", read)


def metadata(*, topics: bool) -> Request[Metadata]:
    """The brokers, and with `topics` every partition."""

    def partition(reader: Reader, topic: str) -> Partition:
        _, index, leader, _ = struct.unpack(">hiii", reader.raw(14))
        return Partition(
            topic, index, leader, reader.integers(), reader.integers(), reader.integers()
        )

    def read(reader: Reader) -> Metadata:
        reader.number("i")
        brokers = reader.many(
            lambda: BrokerEntry(
                reader.number("i"), reader.text(), reader.number("i"), reader.text()
            )
        )
        cluster, _ = reader.text(), reader.number("i")

        def topic() -> list[Partition]:
            code, name, _ = reader.number("h"), reader.text(), reader.number("b")
            found = reader.many(lambda: partition(reader, name))
            return [] if code else found

        found = [each for partitions in reader.many(topic) for each in partitions]
        return Metadata(cluster, tuple(brokers), tuple(found))

    return Request(3, 7, struct.pack(">ib", -1 if topics else 0, 0), read)


@dataclass(frozen=True, slots=True)
class Quorum:
    """The controllers: who leads them in which epoch, and when each voter had caught up (ms)."""

    code: int
    leader: int = -1
    epoch: int = 0
    end: int = 0
    voters: Mapping[int, tuple[int, int]] = field(default_factory=dict)


def quorum() -> Request[Quorum]:
    """Who leads the quorum of controllers; the leader answers it."""

    def read(reader: Reader) -> Quorum:
        code = reader.number("h")

        def replica() -> tuple[int, tuple[int, int]]:
            node, end = reader.number("i"), reader.number("q")
            reader.number("q")
            caught_up_ms = reader.number("q")
            reader.tags()
            return node, (end, caught_up_ms)

        def partition() -> Quorum:
            reader.number("i")
            problem, leader, epoch = reader.number("h"), reader.number("i"), reader.number("i")
            end = reader.number("q")
            voters = dict(reader.many(replica))
            reader.many(replica)
            reader.tags()
            return Quorum(code or problem, leader, epoch, end, voters)

        def topic() -> list[Quorum]:
            reader.text()
            found = reader.many(partition)
            reader.tags()
            return found

        found = [each for rows in reader.many(topic) for each in rows]
        return found[0] if found else Quorum(code or -1)

    topic = compact(METADATA_LOG) + varint(2) + struct.pack(">i", 0) + b"\0\0"
    return Request(55, 1, varint(2) + topic + b"\0", read, flexible=True)


@dataclass(frozen=True, slots=True)
class LogDir:
    """A directory with logs; with a `code` it is offline. Sizes are -1 where they are unknown."""

    path: str
    code: int
    total_bytes: int
    usable_bytes: int


def log_dirs() -> Request[tuple[LogDir, ...]]:
    """The log directories of a broker, without what lies in them."""

    def read(reader: Reader) -> tuple[LogDir, ...]:
        reader.number("i")
        reader.number("h")

        def partition() -> None:
            reader.raw(4 + 8 + 8 + 1)
            reader.tags()

        def topic() -> None:
            reader.text()
            reader.many(partition)
            reader.tags()

        def place() -> LogDir:
            code, path = reader.number("h"), reader.text()
            reader.many(topic)
            found = LogDir(path, code, reader.number("q"), reader.number("q"))
            reader.tags()
            return found

        return tuple(reader.many(place))

    return Request(35, 4, varint(1) + b"\0", read, flexible=True)


@dataclass(frozen=True, slots=True)
class Reassignment:
    """A partition whose replicas are being moved."""

    topic: str
    index: int
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @property
    def name(self) -> str:
        """As the tools of Kafka write it."""
        return f"{self.topic}-{self.index}"


def reassignments() -> Request[tuple[Reassignment, ...]]:
    """All that are under way; the controller answers it."""

    def read(reader: Reader) -> tuple[Reassignment, ...]:
        reader.number("i")
        if code := reader.number("h"):
            raise ValueError(f"it answered error {code}")
        reader.text()

        def topic() -> list[Reassignment]:
            name = reader.text()

            def partition() -> Reassignment:
                found = Reassignment(
                    *(name, reader.number("i")),
                    *(reader.integers(), reader.integers(), reader.integers()),
                )
                reader.tags()
                return found

            found = reader.many(partition)
            reader.tags()
            return found

        return tuple(each for rows in reader.many(topic) for each in rows)

    return Request(
        46, 0, struct.pack(">i", FORWARDED_MS_MAX) + varint(0) + b"\0", read, flexible=True
    )


def move_replicas(
    wanted: Mapping[tuple[str, int], Sequence[int] | None],
) -> Request[Mapping[tuple[str, int], tuple[int, str]]]:
    """Let partitions have these replicas; None cancels what is under way. By partition what the
    controller says against it.
    """

    def read(reader: Reader) -> Mapping[tuple[str, int], tuple[int, str]]:
        reader.number("i")
        code, why = reader.number("h"), reader.text()
        found = dict.fromkeys(wanted, (code, why)) if code else {}

        def topic() -> None:
            name = reader.text()

            def partition() -> None:
                index, code, why = reader.number("i"), reader.number("h"), reader.text()
                reader.tags()
                if code:
                    found[name, index] = code, why

            reader.many(partition)
            reader.tags()

        reader.many(topic)
        return found

    topics: dict[str, list[bytes]] = {}
    for (name, index), replicas in wanted.items():
        nodes = b"\0" if replicas is None else varint(len(replicas) + 1)
        nodes += struct.pack(f">{len(replicas or ())}i", *(replicas or ()))
        topics.setdefault(name, []).append(struct.pack(">i", index) + nodes + b"\0")
    body = b"".join(
        compact(name) + varint(len(rows) + 1) + b"".join(rows) + b"\0"
        for name, rows in topics.items()
    )
    head = struct.pack(">i", FORWARDED_MS_MAX) + varint(len(topics) + 1)
    return Request(45, 0, head + body + b"\0", read, flexible=True)


@dataclass(frozen=True, slots=True)
class Quota:
    """A limit of clients: of whom (`client-id=web`, `user=` for the default), and how much."""

    entity: str
    name: str
    value: float


def client_quotas() -> Request[tuple[Quota, ...]]:
    """All quotas of clients."""

    def read(reader: Reader) -> tuple[Quota, ...]:
        reader.number("i")
        if code := reader.number("h"):
            raise ValueError(f"it answered error {code}")
        reader.text()

        def entry() -> list[Quota]:
            parts = reader.many(lambda: f"{reader.text()}={reader.text()}")
            values = reader.many(lambda: (reader.text(), reader.real()))
            return [Quota(",".join(parts), name, value) for name, value in values]

        return tuple(each for rows in reader.many(entry) for each in rows)

    return Request(48, 0, struct.pack(">ib", 0, 0), read)


def set_quota(
    entity: Iterable[tuple[str, str | None]], name: str, value: float | None
) -> Request[tuple[int, str]]:
    """Set or (with None) remove a quota; the error and its words. A name of None is the default."""

    def read(reader: Reader) -> tuple[int, str]:
        reader.number("i")

        def entry() -> tuple[int, str]:
            found = reader.number("h"), reader.text()
            reader.many(lambda: (reader.text(), reader.text()))
            return found

        found = reader.many(entry)
        return next((each for each in found if each[0]), (0, ""))

    parts = [
        text(kind) + (struct.pack(">h", -1) if owner is None else text(owner))
        for kind, owner in entity
    ]
    body = struct.pack(">ii", 1, len(parts)) + b"".join(parts) + struct.pack(">i", 1) + text(name)
    return Request(49, 0, body + struct.pack(">dbb", value or 0.0, value is None, 0), read)


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting of a topic or broker: its value, and whether it is set for this one alone."""

    value: str
    own: bool


TOPIC, BROKER = 2, 4
# Set by `kafka-configs` for this topic, and for this broker.
_OWN_SOURCES = (1, 2)


def describe_settings(
    topics: Iterable[str], node: int, names: Sequence[str]
) -> Request[Mapping[str, Mapping[str, Setting]]]:
    """Settings of topics by their name, and of the broker that is asked by ""."""

    def read(reader: Reader) -> Mapping[str, Mapping[str, Setting]]:
        reader.number("i")
        found: dict[str, Mapping[str, Setting]] = {}

        def entry() -> tuple[str, Setting]:
            name, value, _ = reader.text(), reader.text(), reader.number("b")
            source, _ = reader.number("b"), reader.number("b")
            reader.many(lambda: (reader.text(), reader.text(), reader.number("b")))
            return name, Setting(value, source in _OWN_SOURCES)

        def resource() -> None:
            code, _ = reader.number("h"), reader.text()
            kind, name = reader.number("b"), reader.text()
            settings = dict(reader.many(entry))
            if not code:
                found["" if kind == BROKER else name] = settings

        reader.many(resource)
        return found

    keys = struct.pack(">i", len(names)) + b"".join(map(text, names))
    rows = [struct.pack(">b", TOPIC) + text(topic) + keys for topic in topics]
    rows.append(struct.pack(">b", BROKER) + text(str(node)) + keys)
    return Request(32, 1, struct.pack(">i", len(rows)) + b"".join(rows) + b"\0", read)


def handshake(mechanism: str) -> Request[int]:
    """Begin to log in; the error, or 0."""
    return Request(17, 1, text(mechanism), lambda reader: reader.number("h"))


def authenticate(token: bytes) -> Request[tuple[int, str, bytes]]:
    """One step of a login: the error, its words, and the answer of the broker."""

    def read(reader: Reader) -> tuple[int, str, bytes]:
        return reader.number("h"), reader.text(), reader.octets()

    return Request(36, 0, struct.pack(">i", len(token)) + token, read)
