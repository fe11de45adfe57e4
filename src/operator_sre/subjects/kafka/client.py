"""What librdkafka does for Operator: the canary, and changes of settings, leaders and offsets.

Every function blocks and is called in a thread. A client is made when it is first needed, and only
while a broker answers: it goes on trying in the background.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from operator_protocols.domain.observation import Value
from operator_protocols.domain.target import Access
from operator_protocols.errors import MissingExtraError, OperatorError
from operator_protocols.kit.client import ALL_CHECKED, CLIENT_VIEW, READS_CHECKED

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Producer
    from confluent_kafka.admin import AdminClient

__all__ = ["Canary", "Client", "client_settings", "driver", "servers_of"]

CHARACTERS_MAX = 160
CANARY_GROUP = "operator-canary"


def driver() -> Any:
    """The client library; MissingExtraError without it."""
    try:
        import confluent_kafka.admin
    except ImportError as error:
        raise MissingExtraError("kafka", needed_for="Watching Kafka") from error
    return confluent_kafka


def client_settings(
    servers: str, access: Access, *, mechanism: str, password: str, timeout_s: float
) -> dict[str, Any]:
    """How librdkafka reaches the brokers, as Operator does."""
    settings: dict[str, Any] = {
        "bootstrap.servers": servers,
        "client.id": "operator",
        "socket.timeout.ms": max(1000, int(timeout_s * 1000)),
        "topic.metadata.refresh.interval.ms": 10_000,
        "reconnect.backoff.max.ms": 1_000,
        "log_level": 0,
        "error_cb": lambda error: None,
        "security.protocol": ("SASL_" if access.user else "")
        + ("SSL" if access.tls else "PLAINTEXT"),
    }
    if access.user:
        settings |= {
            "sasl.mechanism": mechanism,
            "sasl.username": access.user,
            "sasl.password": password,
        }
    if access.ca_file:
        settings["ssl.ca.location"] = access.ca_file
    if access.certificate_file:
        settings["ssl.certificate.location"] = access.certificate_file
        settings["ssl.key.location"] = access.key_file
    return settings


class Client:
    """Administers a cluster. OperatorError with the words of the client where that fails."""

    def __init__(self, settings: Mapping[str, Any], *, timeout_s: float) -> None:
        self._settings, self._timeout_s = dict(settings), timeout_s
        self._made: AdminClient | None = None

    @property
    def _admin(self) -> AdminClient:
        if self._made is None:
            self._made = driver().admin.AdminClient(self._settings)
        made: AdminClient = self._made
        return made

    def elect_preferred(self) -> None:
        """Let the preferred replica of every partition lead, where it is in sync."""
        kafka = driver()
        future = self._admin.elect_leaders(
            kafka.ElectionType.PREFERRED, None, request_timeout=self._timeout_s
        )
        self._result(future)

    def change(self, kind: str, name: str, changes: Mapping[str, str | None]) -> None:
        """Set settings of a `topic` or `broker`, or with None remove them where they are set."""
        admin = driver().admin
        operation = admin.AlterConfigOpType
        entries = [
            admin.ConfigEntry(
                key,
                value or "",
                incremental_operation=operation.DELETE if value is None else operation.SET,
            )
            for key, value in changes.items()
        ]
        resource = admin.ConfigResource(kind, name, incremental_configs=entries)
        futures = self._admin.incremental_alter_configs([resource], request_timeout=self._timeout_s)
        for future in futures.values():
            self._result(future)

    def commit(self, group: str, topic: str, partition: int, offset: int) -> None:
        """Let a group go on at this offset; it must have no member."""
        kafka = driver()
        places = [kafka.TopicPartition(topic, partition, offset)]
        wanted = kafka.ConsumerGroupTopicPartitions(group, places)
        futures = self._admin.alter_consumer_group_offsets(
            [wanted], request_timeout=self._timeout_s
        )
        for future in futures.values():
            for place in self._result(future).topic_partitions:
                if place.error is not None:
                    raise OperatorError(f"The group refuses the offset: {place.error.str()}.")

    def read_record(self, topic: str, partition: int, offset: int) -> tuple[bytes, bytes] | None:
        """The key and value at one offset; None where there is none."""
        kafka = driver()
        consumer = kafka.Consumer(
            {**self._settings, "group.id": CANARY_GROUP, "enable.auto.commit": False}
        )
        ends = time.monotonic() + self._timeout_s
        try:
            consumer.assign([kafka.TopicPartition(topic, partition, offset)])
            while (left_s := ends - time.monotonic()) > 0:
                message = consumer.poll(left_s)
                if message is None or message.error():
                    continue
                if message.offset() != offset:
                    return None
                return message.key() or b"", message.value() or b""
        finally:
            consumer.close()
        return None

    @staticmethod
    def _result(future: Any) -> Any:
        try:
            return future.result()
        except driver().KafkaException as problem:
            raise OperatorError(f"The cluster refuses: {_words(problem)}.") from problem


class Canary:
    """Writes a record to one topic at every check, as a client does, and reads it back."""

    def __init__(self, settings: Mapping[str, Any], topic: str, *, timeout_s: float) -> None:
        self._settings, self._topic, self._timeout_s = dict(settings), topic, timeout_s
        self._producer: Producer | None = None
        self._consumer: Consumer | None = None
        self._number = 0

    def check(self) -> dict[str, Value]:
        """What came of it: `write_ms`, or `write_error`; a record that cannot be read was lost."""
        kafka = driver()
        if self._producer is None:
            ours = {"acks": "all", "linger.ms": 0}
            limit = {"message.timeout.ms": int(self._timeout_s * 1000)}
            self._producer = kafka.Producer({**self._settings, **ours, **limit})
        assert self._producer is not None
        self._number += 1
        text = f"{time.time():.3f} {self._number}".encode()
        reports: list[tuple[Any, Any]] = []
        started = time.monotonic()
        try:
            self._producer.produce(
                self._topic, text, on_delivery=lambda *answer: reports.append(answer)
            )
            self._producer.flush(self._timeout_s + 1)
        except (kafka.KafkaException, BufferError) as problem:
            return {CLIENT_VIEW: ALL_CHECKED, "write_error": _words(problem)}
        took_ms = round((time.monotonic() - started) * 1000, 1)
        if not reports:
            return {CLIENT_VIEW: ALL_CHECKED, "write_error": "it was not acknowledged in time"}
        error, message = reports[0]
        if error is not None:
            if error.code() in (
                kafka.KafkaError.TOPIC_AUTHORIZATION_FAILED,
                kafka.KafkaError.UNKNOWN_TOPIC_OR_PART,
                kafka.KafkaError._UNKNOWN_TOPIC,
            ):
                return {CLIENT_VIEW: READS_CHECKED, "blind_canary": error.str()[:CHARACTERS_MAX]}
            return {CLIENT_VIEW: ALL_CHECKED, "write_error": error.str()[:CHARACTERS_MAX]}
        read = self._read(message.partition(), message.offset(), text)
        return {CLIENT_VIEW: ALL_CHECKED, "write_ms": took_ms, "write_error": "", **read}

    def _read(self, partition: int, offset: int, text: bytes) -> dict[str, Value]:
        kafka = driver()
        if self._consumer is None:
            own = {"group.id": CANARY_GROUP, "enable.auto.commit": False}
            self._consumer = kafka.Consumer({**self._settings, **own, "fetch.wait.max.ms": 100})
        assert self._consumer is not None
        self._consumer.assign([kafka.TopicPartition(self._topic, partition, offset)])
        message = self._consumer.poll(self._timeout_s)
        if message is None or message.error():
            error: Any = None if message is None else message.error()
            why = "it could not be read in time" if error is None else error.str()
            return {"read_error": why[:CHARACTERS_MAX]}
        if message.offset() != offset or message.value() != text:
            return {"read_error": "", "write_lost": f"the record at offset {offset} is another"}
        return {"read_error": "", "write_lost": ""}

    def close(self) -> None:
        """Hang up."""
        if self._consumer is not None:
            self._consumer.close()
        self._consumer = self._producer = None


def servers_of(addresses: Iterable[tuple[str, int]]) -> str:
    """Addresses as librdkafka takes them."""
    return ",".join(
        f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in addresses
    )


def _words(problem: Exception) -> str:
    first = problem.args[0] if problem.args else problem
    text = first.str() if hasattr(first, "str") else str(first)
    return " ".join(str(text).split())[:CHARACTERS_MAX]
