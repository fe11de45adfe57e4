"""The application of a rig, started as `python -m operator_sre.subjects.kafka.shop`.

`checkout` writes an order for every request, `billing` and `shipping` are consumer groups that read
them. A record that is not an order stops the reading of its partition, as it does in most
applications.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message, Producer

__all__ = ["ORDERS", "RECEIPTS", "main", "produce_once", "read_all"]

ORDERS = "orders"
RECEIPTS = "receipts"
TOPICS = {ORDERS: 6, RECEIPTS: 1, "operator-canary": 1}
WRITE_MS_MAX = 4_000
READ_S_MAX = 8.0
POLL_S = 0.2
RETRY_S = 2.0
REQUEST_BYTES_MAX = 1 << 16
REQUEST_S_MAX = 5.0
QUIET: dict[str, Any] = {"log_level": 0, "error_cb": lambda error: None}


def produce_once(servers: str, topic: str, text: str) -> bool:
    """Write one record; True when all replicas in sync have it."""
    from confluent_kafka import KafkaException

    acknowledged: list[bool] = []
    producer = _producer(servers)
    try:
        producer.produce(
            topic, text.encode(), on_delivery=lambda error, _: acknowledged.append(error is None)
        )
        producer.flush(WRITE_MS_MAX / 1000 + 1)
    except (KafkaException, BufferError):
        return False
    return acknowledged == [True]


def read_all(servers: str, topic: str) -> frozenset[str] | None:
    """The records of a topic; None where one of its partitions could not be read to its end."""
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    settings: dict[str, Any] = {
        "bootstrap.servers": servers,
        "group.id": "audit",
        "enable.auto.commit": False,
    }
    consumer = Consumer({**settings, **QUIET, "enable.partition.eof": False})
    kept: set[str] = set()
    ends = time.monotonic() + READ_S_MAX
    try:
        found = consumer.list_topics(topic, timeout=READ_S_MAX).topics[topic]
        if found.error is not None:
            return None
        for partition in found.partitions:
            place = TopicPartition(topic, partition)
            low, high = consumer.get_watermark_offsets(place, timeout=READ_S_MAX)
            place.offset = low
            consumer.assign([place])
            while low < high:
                if time.monotonic() > ends:
                    return None
                message = consumer.poll(POLL_S)
                if message is None:
                    continue
                if message.error():
                    return None
                kept.add((message.value() or b"").decode("utf-8", "replace"))
                low = (message.offset() or 0) + 1
    except KafkaException:
        return None
    finally:
        consumer.close()
    return frozenset(kept)


def _producer(servers: str) -> Producer:
    from confluent_kafka import Producer

    return Producer(
        {
            "bootstrap.servers": servers,
            "acks": "all",
            "enable.idempotence": True,
            "message.timeout.ms": WRITE_MS_MAX,
            "linger.ms": 5,
            **QUIET,
        }
    )


class Group:
    """A consumer group of one member."""

    def __init__(self, name: str, servers: str) -> None:
        self._name, self._servers = name, servers
        self._over = threading.Event()
        self._again_at: dict[tuple[str, int], float] = {}

    def stop(self) -> None:
        """Leave after the record at hand."""
        self._over.set()

    def run(self) -> None:
        """Read until stopped."""
        from confluent_kafka import Consumer, KafkaException, TopicPartition

        consumer = Consumer(
            {
                "bootstrap.servers": self._servers,
                "group.id": self._name,
                "auto.offset.reset": "earliest",
                "auto.commit.interval.ms": 500,
                "enable.auto.offset.store": False,
                "session.timeout.ms": 6000,
                **QUIET,
            }
        )
        consumer.subscribe([ORDERS])
        try:
            while not self._over.is_set():
                for place in [key for key, at in self._again_at.items() if at < time.monotonic()]:
                    del self._again_at[place]
                    with contextlib.suppress(KafkaException):
                        consumer.resume([TopicPartition(*place)])
                message = consumer.poll(POLL_S)
                if message is not None and not message.error():
                    with contextlib.suppress(KafkaException):
                        self._process(consumer, message)
        finally:
            consumer.close()

    def _process(self, consumer: Consumer, message: Message) -> None:
        from confluent_kafka import TopicPartition

        try:
            json.loads(message.value() or b"")
        except ValueError:
            topic, partition = str(message.topic()), int(message.partition() or 0)
            offset = int(message.offset() or 0)
            sys.stderr.write(
                f"{self._name}: cannot process {topic}-{partition} at offset {offset}: not JSON\n"
            )
            place = TopicPartition(topic, partition, offset)
            consumer.seek(place)
            consumer.pause([place])
            self._again_at[topic, partition] = time.monotonic() + RETRY_S
        else:
            consumer.store_offsets(message)


def _make_topics(servers: str) -> None:
    """Make the topics that are not there; wait for a cluster that is still starting."""
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

    admin = AdminClient({"bootstrap.servers": servers, **QUIET})
    left = dict(TOPICS)
    while left:
        wanted = [NewTopic(name, count, 3) for name, count in left.items()]
        for name, future in admin.create_topics(wanted, request_timeout=READ_S_MAX).items():
            try:
                future.result()
            except KafkaException as problem:
                if problem.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    sys.stderr.write(f"checkout: {name}: {problem.args[0].str()}\n")
                    continue
            left.pop(name, None)
        if left:
            time.sleep(POLL_S)


async def _serve(name: str, servers: str, port: int) -> None:
    task = asyncio.current_task()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, lambda: task.cancel() if task is not None else False)
    if name == "checkout":
        await asyncio.to_thread(_make_topics, servers)
    producer = _producer(servers) if name == "checkout" else None
    group = None if producer is not None else Group(name, servers)

    async def write(text: bytes) -> bool:
        done: asyncio.Future[bool] = loop.create_future()

        def settle(acknowledged: bool) -> None:
            if not done.done():
                done.set_result(acknowledged)

        def tell(error: Any, _: Any) -> None:
            loop.call_soon_threadsafe(settle, error is None)

        assert producer is not None
        producer.produce(ORDERS, text, on_delivery=tell)
        return await done

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, TimeoutError, ValueError, EOFError):
            async with asyncio.timeout(REQUEST_S_MAX):
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                status = "200 OK"
                if producer is not None and head.startswith("POST "):
                    fields = (line.partition(":") for line in head.lower().splitlines())
                    sizes = [int(size) for key, _, size in fields if key == "content-length"]
                    body = await reader.readexactly(min(sum(sizes), REQUEST_BYTES_MAX))
                    status = "200 OK" if await write(body) else "503 Service Unavailable"
                rest = "Content-Length: 2\r\nConnection: close\r\n\r\nok"
                writer.write(f"HTTP/1.1 {status}\r\n{rest}".encode())
                await writer.drain()
        writer.close()

    async def deliver() -> None:
        while producer is not None:
            await asyncio.to_thread(producer.poll, POLL_S)

    reading = None if group is None else loop.run_in_executor(None, group.run)
    try:
        async with await asyncio.start_server(answer, "127.0.0.1", port):
            await (deliver() if reading is None else reading)
    finally:
        if group is not None and reading is not None:
            group.stop()
            await reading


def main() -> int:
    """Work until it is ended."""
    parser = argparse.ArgumentParser(prog="shop", description=__doc__)
    parser.add_argument("--directory", type=Path, required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--work", required=True)
    given = parser.parse_args()
    listed = json.loads((given.directory / "servers.json").read_text(encoding="utf-8"))
    with contextlib.suppress(asyncio.CancelledError):
        asyncio.run(_serve(given.work, ",".join(listed), given.port))
    return 0


if __name__ == "__main__":
    sys.exit(main())
