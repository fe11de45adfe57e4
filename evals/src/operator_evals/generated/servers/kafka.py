"""Kafka: settings of brokers and topics, grants, quotas, replicas and leaders."""

from __future__ import annotations

import asyncio
import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from operator_evals.generated.servers.kafka_wire import Fields, ask, compact, text, varint
from operator_evals.generated.servers.server import ASK_S_MAX, Seat, Undo, nothing_to_undo
from operator_evals.generated.surface import AdminCommand, Setting, SettingType
from operator_protocols.errors import MissingExtraError, RigError

__all__ = ["KafkaServer"]

SETTINGS_FILE = "server.properties"
TINY = 1.0
MANY_TOPICS = 50
_CONTROLLER = re.compile(r"^listeners=.*CONTROLLER://[^:,]*:(\d+)", re.MULTILINE)
_NODE = re.compile(r"^node\.id=(\d+)", re.MULTILINE)
# By command about a topic: the operation that a rule denies, or allows to one stranger only.
_DENIED = {"deny_write": "WRITE", "deny_read": "READ", "deny_describe": "DESCRIBE"}
_QUOTAS = {
    "quota_produce": "producer_byte_rate",
    "quota_consume": "consumer_byte_rate",
    "quota_requests": "request_percentage",
}


class KafkaServer:
    """One broker, asked at its own ports."""

    def __init__(self, seat: Seat, kin: Sequence[Seat]) -> None:
        self._seat = seat
        self._peers = [each for each in kin if each.kind == seat.kind]
        self._controller = _number_in(seat, _CONTROLLER)
        self._nodes = {each.name: _number_in(each, _NODE) for each in (seat, *self._peers)}
        self._node = self._nodes[seat.name]
        self._topics: dict[str, list[int]] = {}

    async def settings(self) -> Sequence[Setting]:
        """All that the broker lists for itself, and for each topic; the type is that of the value.

        A setting of a topic is named `TOPIC/SETTING`, and has no place in a file.
        """
        listed = await self._describe("broker", str(self._node))
        for topic in await self._list_topics():
            listed += [
                replace(each, name=f"{topic}/{each.name}", live=True, filed=False)
                for each in await self._describe("topic", topic)
            ]
        return listed

    async def change(self, name: str, value: str) -> Undo:
        """Change a setting of the broker or of a topic at run time."""
        topic, _, setting = name.rpartition("/")
        kind, owner = ("topic", topic) if topic else ("broker", str(self._node))
        await self._alter(kind, owner, setting, value)
        return partial(self._alter, kind, owner, setting, None)

    async def commands(self) -> Sequence[AdminCommand]:
        """Grants, quotas, replicas, leaders and topics."""
        topics = await self._list_topics()
        about_topics = (
            *(AdminCommand(name, topic, reversible=True) for name in _DENIED for topic in topics),
            *(AdminCommand("allow_only_other", topic, reversible=True) for topic in topics),
            *(AdminCommand("replicas_only_here", topic, reversible=True) for topic in topics),
            *(AdminCommand("replicas_not_here", topic, reversible=True) for topic in topics),
            *(AdminCommand("partitions_add", topic) for topic in topics),
            *(AdminCommand("records_delete", topic) for topic in topics),
            *(AdminCommand("topic_delete", topic) for topic in topics),
        )
        if not await self._judges_rules():
            about_topics = tuple(
                each for each in about_topics if each.name not in (*_DENIED, "allow_only_other")
            )
        return (
            *about_topics,
            *(AdminCommand(name, "client-id", reversible=True) for name in _QUOTAS),
            *(AdminCommand("unregister", peer.name) for peer in (self._seat, *self._peers)),
            AdminCommand("elect_preferred"),
            AdminCommand("topics_many", reversible=True),
            AdminCommand("topic_single", reversible=True),
        )

    async def execute(self, command: str, about: str) -> Undo:
        """One request."""
        if command in _QUOTAS:
            await self._set_quota(_QUOTAS[command], TINY)
            return partial(self._set_quota, _QUOTAS[command], None)
        if command in _DENIED:
            return await self._rule(about, _DENIED[command], "DENY", "User:*")
        match command:
            case "allow_only_other":
                return await self._rule(about, "ALL", "ALLOW", "User:stranger")
            case "replicas_only_here" | "replicas_not_here":
                before = await self._replicas(about)
                away = command == "replicas_not_here"
                wanted = {
                    index: [node for node in nodes if (node == self._node) != away]
                    for index, nodes in before.items()
                }
                await self._assign(about, {k: v for k, v in wanted.items() if v})
                return partial(self._assign, about, before)
            case "unregister":
                body = struct.pack(">i", self._nodes[about]) + b"\0"
                answer = await self._ask(64, 0, body, flexible=True)
                answer.number("i")
                _check(answer.number("h"))
                return nothing_to_undo
            case _:
                return await self._execute_with_client(command, about)

    async def takes_writes(self) -> bool | None:
        """Whether it says that it is the active controller."""
        topic = compact("__cluster_metadata") + varint(2) + struct.pack(">i", 0) + b"\0\0"
        try:
            answer = await self._ask(
                *(55, 0, varint(2) + topic + b"\0"), flexible=True, port=self._controller
            )
        except RigError:
            return None
        code = answer.number("h")
        if code or answer.varint() != 2:
            return False
        answer.text()
        answer.varint()
        answer.number("i")
        return answer.number("h") == 0 and answer.number("i") == self._node

    async def holds(self) -> frozenset[str] | None:
        """The partitions that it says it leads; None where it is silent."""
        try:
            topics = self._topics or await self._list_topics()
            body = struct.pack(">ii", -1, len(topics))
            for topic, partitions in topics.items():
                body += text(topic) + struct.pack(">i", len(partitions))
                body += b"".join(struct.pack(">iq", index, -1) for index in partitions)
            answer = await self._ask(2, 1, body)
        except RigError:
            return None
        led = set()
        for _ in range(answer.number("i")):
            topic = answer.text()
            for _ in range(answer.number("i")):
                index, code = answer.number("i"), answer.number("h")
                answer.raw(16)
                if not code:
                    led.add(f"{topic}-{index}")
        return frozenset(led)

    async def _list_topics(self) -> dict[str, list[int]]:
        """Topics of the applications with their partitions, read once."""
        if not self._topics:
            found = await self._read_topics()
            self._topics = {
                name: sorted(rows) for name, rows in sorted(found.items()) if name[:2] != "__"
            }
        return self._topics

    async def _read_topics(self) -> dict[str, dict[int, list[int]]]:
        """By topic and partition its replicas."""
        answer = await self._ask(3, 1, struct.pack(">i", -1))
        for _ in range(answer.number("i")):
            answer.number("i")
            answer.text()
            answer.number("i")
            answer.text()
        answer.number("i")
        found: dict[str, dict[int, list[int]]] = {}
        for _ in range(answer.number("i")):
            _, topic, _ = answer.number("h"), answer.text(), answer.number("b")
            rows = found.setdefault(topic, {})
            for _ in range(answer.number("i")):
                _, index, _ = answer.number("h"), answer.number("i"), answer.number("i")
                rows[index] = [answer.number("i") for _ in range(answer.number("i"))]
                answer.raw(4 * answer.number("i"))
        return found

    async def _replicas(self, topic: str) -> dict[int, list[int]]:
        found = (await self._read_topics()).get(topic, {})
        if not found:
            raise RigError(f"There is no topic {topic!r}.")
        return found

    async def _assign(self, topic: str, wanted: dict[int, list[int]]) -> None:
        rows = b""
        for index, nodes in wanted.items():
            places = struct.pack(f">{len(nodes)}i", *nodes)
            rows += struct.pack(">i", index) + varint(len(nodes) + 1) + places + b"\0"
        body = struct.pack(">i", int(ASK_S_MAX * 1000)) + varint(2)
        body += compact(topic) + varint(len(wanted) + 1) + rows + b"\0\0"
        answer = await self._ask(45, 0, body, flexible=True)
        answer.number("i")
        _check(answer.number("h"), answer.text())
        for _ in range(answer.varint() - 1):
            answer.text()
            for _ in range(answer.varint() - 1):
                answer.number("i")
                _check(answer.number("h"), answer.text())
                answer.tags()
            answer.tags()

    async def _set_quota(self, name: str, value: float | None) -> None:
        """Of every client that has none of its own."""
        entity = text("client-id") + struct.pack(">h", -1)
        body = struct.pack(">ii", 1, 1) + entity + struct.pack(">i", 1) + text(name)
        answer = await self._ask(49, 0, body + struct.pack(">dbb", value or 0.0, value is None, 0))
        answer.number("i")
        for _ in range(answer.number("i")):
            _check(answer.number("h"), answer.text())
            for _ in range(answer.number("i")):
                answer.text()
                answer.text()

    async def _judges_rules(self) -> bool:
        kafka = _driver()
        anything = kafka.admin.AclBindingFilter(
            *(kafka.admin.ResourceType.ANY, None, kafka.admin.ResourcePatternType.ANY, None, None),
            *(kafka.admin.AclOperation.ANY, kafka.admin.AclPermissionType.ANY),
        )
        try:
            await self._with_client(lambda admin: [admin.describe_acls(anything)])
        except RigError:
            return False
        return True

    async def _rule(self, topic: str, operation: str, permission: str, who: str) -> Undo:
        kafka = _driver()
        words = (
            *(kafka.admin.ResourceType.TOPIC, topic),
            *(kafka.admin.ResourcePatternType.LITERAL, who, "*"),
            *(kafka.admin.AclOperation[operation], kafka.admin.AclPermissionType[permission]),
        )
        rule, same = kafka.admin.AclBinding(*words), kafka.admin.AclBindingFilter(*words)
        await self._with_client(lambda admin: admin.create_acls([rule]).values())

        async def undo() -> None:
            await self._with_client(lambda admin: admin.delete_acls([same]).values())

        return undo

    async def _execute_with_client(self, command: str, about: str) -> Undo:
        kafka = _driver()
        if command in ("topics_many", "topic_single"):
            count = MANY_TOPICS if command == "topics_many" else 1
            names = [f"other-{number}" for number in range(count)]
            made = [kafka.admin.NewTopic(name, 2, 1) for name in names]

            async def remove() -> None:
                await self._with_client(lambda admin: admin.delete_topics(names).values())

            await self._with_client(lambda admin: admin.create_topics(made).values())
            return remove
        topics = await self._read_topics()
        if about and about not in topics:
            raise RigError(f"There is no topic {about!r}.")
        ends = [kafka.TopicPartition(about, index, -1) for index in topics.get(about, {})]
        more = kafka.admin.NewPartitions(about or "none", len(ends) * 2)
        calls: dict[str, Callable[[Any], Any]] = {
            "partitions_add": lambda admin: admin.create_partitions([more]).values(),
            "records_delete": lambda admin: admin.delete_records(ends).values(),
            "topic_delete": lambda admin: admin.delete_topics([about]).values(),
            "elect_preferred": lambda admin: [
                admin.elect_leaders(kafka.ElectionType.PREFERRED, None)
            ],
        }
        await self._with_client(calls[command])
        return nothing_to_undo

    async def _describe(self, kind: str, name: str) -> list[Setting]:
        kafka = _driver()
        resource = kafka.admin.ConfigResource(kind, name)
        (entries,) = await self._with_client(
            lambda admin: admin.describe_configs([resource]).values()
        )
        return [
            _setting(entry.name, str(entry.value), live=not entry.is_read_only)
            for entry in entries.values()
            if not entry.is_sensitive
        ]

    async def _alter(self, kind: str, owner: str, name: str, value: str | None) -> None:
        kafka = _driver()
        operation = kafka.admin.AlterConfigOpType
        entry = kafka.admin.ConfigEntry(
            *(name, value or ""),
            incremental_operation=operation.DELETE if value is None else operation.SET,
        )
        resource = kafka.admin.ConfigResource(kind, owner, incremental_configs=[entry])
        await self._with_client(lambda admin: admin.incremental_alter_configs([resource]).values())

    async def _with_client(self, call: Callable[[Any], Any]) -> list[Any]:
        """What a client of librdkafka is answered."""

        def run() -> list[Any]:
            kafka = _driver()
            admin = kafka.admin.AdminClient(
                {
                    "bootstrap.servers": f"127.0.0.1:{self._seat.own_port}",
                    "socket.timeout.ms": int(ASK_S_MAX * 1000),
                    "log_level": 0,
                    "error_cb": lambda error: None,
                }
            )
            try:
                return [future.result(ASK_S_MAX) for future in call(admin)]
            except TimeoutError:
                raise RigError(f"{self._seat.name} did not answer.") from None
            except (kafka.KafkaException, ValueError, TypeError) as error:
                why = " ".join(str(error).split())[:200]
                raise RigError(f"{self._seat.name} refused: {why}.") from None

        return await asyncio.to_thread(run)

    async def _ask(
        self, key: int, version: int, body: bytes, *, flexible: bool = False, port: int = 0
    ) -> Fields:
        try:
            async with asyncio.timeout(ASK_S_MAX):
                return await ask(port or self._seat.own_port, key, version, body, flexible=flexible)
        except (OSError, TimeoutError, EOFError, ValueError) as error:
            raise RigError(f"{self._seat.name} did not answer: {type(error).__name__}.") from None


def _driver() -> Any:
    try:
        import confluent_kafka.admin
    except ImportError:
        raise MissingExtraError("kafka", needed_for="Faults of Kafka") from None
    return confluent_kafka


def _check(code: int, why: str = "") -> None:
    if code:
        raise RigError(f"It refuses: {why or f'error {code}'}.")


def _number_in(seat: Seat, pattern: re.Pattern[str]) -> int:
    found = pattern.search((seat.home / SETTINGS_FILE).read_text(encoding="utf-8"))
    if found is None:
        raise RigError(f"The settings of {seat.name!r} do not name its place in the cluster.")
    return int(found[1])


def _setting(name: str, value: str, *, live: bool) -> Setting:
    if value in ("true", "false"):
        return Setting(name, SettingType.BOOL, value, live=live)
    if re.fullmatch(r"-?\d+", value):
        return Setting(name, SettingType.INTEGER, value, live=live)
    if re.fullmatch(r"-?\d+\.\d+", value):
        return Setting(name, SettingType.REAL, value, live=live)
    # An address or a directory is another one in every rig.
    return Setting(name, SettingType.TEXT, live=live)
