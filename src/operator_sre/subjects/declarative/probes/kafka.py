"""Asking Kafka: brokers, partitions without a leader or with too few copies, the lag of a group."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from operator_protocols.errors import MissingExtraError
from operator_sre.subjects.declarative.document import Table
from operator_sre.subjects.declarative.probes.place import Blind, Place, down, places_of, up
from operator_sre.subjects.declarative.values import Readings

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

__all__ = ["KEYS", "KafkaProbe", "read_kafka"]

KEYS = ("topic", "group", "port", "mechanism")
PORT = 9092
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


@dataclass(frozen=True, slots=True)
class KafkaProbe:
    """The metadata of a cluster, or of one topic; with a group, how far it is behind."""

    topic: str = ""
    group: str = ""
    port: int | None = None
    mechanism: str = MECHANISMS[0]

    @property
    def fields(self) -> frozenset[str]:
        """The values that it can give."""
        own = {"up", "ok", "error", "latency_ms", "endpoint", "brokers", "controller", "topics"}
        more = {"partitions", "offline", "under_replicated"}
        return frozenset(own | more | ({"lag"} if self.group else set()))

    async def observe(self, place: Place) -> Readings:
        """Ask any broker; the client tries all of them."""
        try:
            from confluent_kafka import KafkaException
            from confluent_kafka.admin import AdminClient
        except ImportError as error:
            raise Blind(str(MissingExtraError("kafka", needed_for="A kafka probe"))) from error
        addresses = places_of(place.target, self.port, usual=PORT)
        servers = ",".join(f"{host}:{port}" for host, port in addresses)
        problems: list[str] = []
        client = AdminClient(self._settings(place, servers, problems))
        started = time.perf_counter()
        try:
            readings = await asyncio.to_thread(self._ask, client, place.timeout_s)
        except KafkaException as error:
            client.poll(0)
            text = " ".join([str(error), *problems])
            if "authentication" in text.lower():
                raise Blind("login rejected: the broker refuses our credentials") from error
            return down(f"{servers}: {_why(text)}")
        took_ms = round((time.perf_counter() - started) * 1000, 3)
        return up({**readings, "latency_ms": took_ms, "endpoint": servers}, "")

    def _settings(self, place: Place, servers: str, problems: list[str]) -> dict[str, Any]:
        access = place.access
        settings: dict[str, Any] = {
            "bootstrap.servers": servers,
            "client.id": "operator",
            "socket.timeout.ms": max(100, int(place.timeout_s * 1000)),
            "error_cb": lambda error: problems.append(str(error)),
            "log_level": 0,
        }
        if access.user:
            settings |= {
                "sasl.mechanism": self.mechanism,
                "sasl.username": access.user,
                "sasl.password": place.secret(access.password_file),
            }
        settings["security.protocol"] = ("SASL_" if access.user else "") + (
            "SSL" if access.tls else "PLAINTEXT"
        )
        if access.ca_file:
            settings["ssl.ca.location"] = access.ca_file
        if access.certificate_file:
            settings["ssl.certificate.location"] = access.certificate_file
            settings["ssl.key.location"] = access.key_file
        return settings

    def _ask(self, client: AdminClient, timeout_s: float) -> Readings:
        found = client.list_topics(self.topic or None, timeout=timeout_s)
        topics = {
            name: topic
            for name, topic in found.topics.items()
            if topic.error is None and (name == self.topic or not name.startswith("__"))
        }
        partitions = [each for topic in topics.values() for each in topic.partitions.values()]
        readings: Readings = {
            "brokers": len(found.brokers),
            "controller": found.controller_id,
            "topics": len(topics),
            "partitions": len(partitions),
            "offline": sum(each.leader < 0 for each in partitions),
            "under_replicated": sum(len(each.isrs) < len(each.replicas) for each in partitions),
        }
        if self.group:
            readings["lag"] = self._lag(client, timeout_s)
        return readings

    def _lag(self, client: AdminClient, timeout_s: float) -> int:
        """How many messages the group has not read yet."""
        from confluent_kafka import ConsumerGroupTopicPartitions
        from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

        answers = client.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(self.group)], request_timeout=timeout_s
        )
        read = {
            (place.topic, place.partition): place
            for place in answers[self.group].result(timeout_s).topic_partitions
            if place.offset >= 0 and self.topic in ("", place.topic)
        }
        newest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        ends = client.list_offsets(dict.fromkeys(read.values(), newest), request_timeout=timeout_s)
        return sum(
            max(0, future.result(timeout_s).offset - read[place.topic, place.partition].offset)
            for place, future in ends.items()
        )


def _why(text: str) -> str:
    lowered = text.lower()
    if "refused" in lowered:
        return "connection refused"
    if "resolve" in lowered:
        return "the host name of the broker cannot be resolved"
    return "it did not answer in time" if "timed out" in lowered else text[:100]


def read_kafka(table: Table) -> KafkaProbe:
    """Parse the probe of a description."""
    return KafkaProbe(
        topic=table.text("topic"),
        group=table.text("group"),
        port=table.port(),
        mechanism=table.choice("mechanism", MECHANISMS, MECHANISMS[0]),
    )
