"""Ways to break a Kafka cluster, each with its repair and an independent check of its end."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from operator_protocols.errors import OperatorError, RigError
from operator_protocols.faults import (
    cut_fault,
    fill_fault,
    flood_fault,
    kill_fault,
    limit_fault,
    occupy_fault,
    pause_fault,
    slow_fault,
)
from operator_protocols.ports import Ability, CorrectOutcome, Fault, Scene
from operator_sre.subjects.kafka.client import driver
from operator_sre.subjects.kafka.kinds import BROKER, GROUP, PRODUCER
from operator_sre.subjects.kafka.local import identity_of
from operator_sre.subjects.kafka.protocol import client_quotas, set_quota
from operator_sre.subjects.kafka.scenes import ClusterScene
from operator_sre.subjects.kafka.shop import ORDERS
from operator_sre.subjects.kafka.state import (
    MIN_INSYNC,
    RETENTION,
    THROTTLE_RATES,
    THROTTLED,
    UNCLEAN,
    Cluster,
)

if TYPE_CHECKING:
    from confluent_kafka import Message, TopicPartition

__all__ = ["FAULTS"]

# A question and its answer: above `answer_ms_max` of the rig, below what counts as no answer.
SLOW_S = 0.3
FILES_MAX = 16
WRITE_S_MAX = 20.0
POLL_S = 0.5
SHORT_MS = 1_000
SINGLE = "invoices"
QUOTA = "producer_byte_rate"
ENTITY = (("client-id", "checkout-web"),)


def _topic_fault(
    name: str,
    sentence: str,
    invariant: str,
    setting: str,
    value: str,
    *,
    end: CorrectOutcome = CorrectOutcome.MITIGATED,
) -> Fault:
    """A setting of the topic of the shop has a harmful value."""

    async def inject(scene: Scene) -> Mapping[str, str]:
        await ClusterScene(scene).change("topic", ORDERS, {setting: value})
        return {}

    async def heal(scene: Scene) -> None:
        await ClusterScene(scene).change("topic", ORDERS, {setting: None})

    async def oracle(scene: Scene) -> str:
        found = (await ClusterScene(scene).observe()).topics.get(ORDERS, {}).get(setting)
        if found is None:
            return f"{ORDERS} does not tell its {setting}"
        return f"{setting} of {ORDERS} is {value}" if found.value == value else ""

    return Fault(name, sentence, BROKER, (invariant,), inject, heal, oracle, end)


def _data_fault(
    name: str,
    sentence: str,
    spoil: Callable[[Path, Path], None],
    mend: Callable[[Path, Path], None],
) -> Fault:
    """The data of a stopped broker is not what it left. Only people know which replica is right."""

    def places(scene: Scene) -> tuple[Path, Path]:
        data = Path(scene.target.data_dir)
        kept = data.parent / f"{data.name}.kept"
        return data, kept

    async def inject(scene: Scene) -> Mapping[str, str]:
        await scene.rig.kill(scene.target.name)
        await asyncio.to_thread(spoil, *places(scene))
        with contextlib.suppress(OperatorError):  # it does not come up, and its log says why
            await scene.rig.restart(scene.target.name)
        with contextlib.suppress(OperatorError):
            await scene.rig.kill(scene.target.name)
        return {}

    async def heal(scene: Scene) -> None:
        with contextlib.suppress(OperatorError):
            await scene.rig.kill(scene.target.name)
        await asyncio.to_thread(mend, *places(scene))
        await scene.rig.restart(scene.target.name)

    async def oracle(scene: Scene) -> str:
        if Ability.KILL in scene.rig.damage(scene.target.name):
            return f"{scene.target.name} does not run"
        return _behind(await ClusterScene(scene).observe())

    end = CorrectOutcome.ESCALATED
    return Fault(name, sentence, BROKER, ("broker_down",), inject, heal, oracle, end)


def _behind(cluster: Cluster) -> str:
    if not cluster.partitions:
        return "no broker tells its partitions"
    short = [each.name for each in cluster.partitions if len(each.in_sync) < len(each.replicas)]
    return f"not all replicas are in sync: {', '.join(short[:3])}" if short else ""


def _empty(data: Path, kept: Path) -> None:
    kept.mkdir(exist_ok=True)
    for entry in list(data.iterdir()):
        shutil.move(str(entry), str(kept / entry.name))


def _refill(data: Path, kept: Path) -> None:
    if kept.exists():
        for entry in list(data.iterdir()):
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        for entry in list(kept.iterdir()):
            shutil.move(str(entry), str(data / entry.name))
        kept.rmdir()


def _rename_cluster(data: Path, kept: Path) -> None:
    file = identity_of(data)
    if file is None:
        raise RigError("The broker has no identity.")
    kept.mkdir(exist_ok=True)
    shutil.copy(file, kept / file.name)
    lines = file.read_text(encoding="utf-8").splitlines()
    other = [
        "cluster.id=AAAAAAAAAAAAAAAAAAAAAA" if "cluster.id" in line else line for line in lines
    ]
    with file.open("r+", encoding="utf-8") as content:
        content.write("\n".join(other) + "\n")
        content.truncate()


def _restore_identity(data: Path, kept: Path) -> None:
    file, copy = identity_of(data), kept / "meta.properties"
    if file is not None and copy.exists():
        file.write_bytes(copy.read_bytes())
        shutil.rmtree(kept)


def _throttle_left() -> Fault:
    async def inject(scene: Scene) -> Mapping[str, str]:
        cluster = ClusterScene(scene)
        node = str(await cluster.node(scene.target))
        await cluster.change("broker", node, dict.fromkeys(THROTTLE_RATES, "1000000"))
        await cluster.change("topic", ORDERS, dict.fromkeys(THROTTLED, "*"))
        return {"node": node}

    async def heal(scene: Scene) -> None:
        cluster = ClusterScene(scene)
        await cluster.change("broker", scene.notes["node"], dict.fromkeys(THROTTLE_RATES))
        await cluster.change("topic", ORDERS, dict.fromkeys(THROTTLED))

    async def oracle(scene: Scene) -> str:
        cluster = await ClusterScene(scene).observe()
        own = cluster.brokers.get(scene.target.name, {})
        if not own or ORDERS not in cluster.topics:
            return "the settings cannot be read"
        left = [key for key in THROTTLE_RATES if own[key].own]
        left += [key for key in THROTTLED if cluster.topics[ORDERS][key].value]
        return f"still set: {', '.join(left)}" if left else ""

    sentence = "Replication throttles of a reassignment were never removed."
    return Fault("throttle_left", sentence, BROKER, ("throttle_left",), inject, heal, oracle)


def _setting_changed() -> Fault:
    setting, value = "message.max.bytes", "2048"

    async def inject(scene: Scene) -> Mapping[str, str]:
        cluster = ClusterScene(scene)
        node = str(await cluster.node(scene.target))
        await cluster.change("broker", node, {setting: value})
        return {"node": node}

    async def heal(scene: Scene) -> None:
        await ClusterScene(scene).change("broker", scene.notes["node"], {setting: None})

    async def oracle(scene: Scene) -> str:
        rows = (await ClusterScene(scene).observe()).brokers.get(scene.target.name, {})
        if setting not in rows:
            return "the settings cannot be read"
        return f"{setting} is {value}" if rows[setting].value == value else ""

    sentence = "One broker takes smaller messages than the others."
    return Fault("setting_changed", sentence, BROKER, ("settings_agree",), inject, heal, oracle)


def _replication_low() -> Fault:
    async def make(scene: Scene) -> Mapping[str, str]:
        def create() -> None:
            admin = driver().admin
            client = admin.AdminClient({"bootstrap.servers": cluster.servers(), "log_level": 0})
            topic = admin.NewTopic(SINGLE, 2, 1, config={MIN_INSYNC: "1"})
            for future in client.create_topics([topic], request_timeout=20).values():
                future.result()

        cluster = ClusterScene(scene)
        await asyncio.to_thread(create)
        return {}

    async def remove(scene: Scene) -> None:
        def delete() -> None:
            client = driver().admin.AdminClient(
                {"bootstrap.servers": cluster.servers(), "log_level": 0}
            )
            for future in client.delete_topics([SINGLE], request_timeout=20).values():
                with contextlib.suppress(driver().KafkaException):
                    future.result()

        cluster = ClusterScene(scene)
        await asyncio.to_thread(delete)

    async def oracle(scene: Scene) -> str:
        cluster = await ClusterScene(scene).observe()
        if not cluster.partitions:
            return "no broker tells its partitions"
        own = [each for each in cluster.partitions if each.topic == SINGLE]
        short = [each.name for each in own if len(each.in_sync) < 3]
        return f"less than three replicas: {', '.join(short)}" if short else ""

    sentence = "A topic was created with one replica."
    return Fault("replication_low", sentence, BROKER, ("replication_low",), make, remove, oracle)


def _quota_tight() -> Fault:
    async def inject(scene: Scene) -> Mapping[str, str]:
        code, why = await ClusterScene(scene).ask(set_quota(ENTITY, QUOTA, 1.0))
        if code:
            raise RigError(f"The quota is refused: {why}.")
        return {}

    async def heal(scene: Scene) -> None:
        await ClusterScene(scene).ask(set_quota(ENTITY, QUOTA, None))

    async def oracle(scene: Scene) -> str:
        quotas = await ClusterScene(scene).ask(client_quotas())
        return "".join(f"{each.entity} may send {each.value:g} bytes/s" for each in quotas[:1])

    sentence = "A client may send one byte per second."
    end = CorrectOutcome.ESCALATED
    return Fault("quota_tight", sentence, BROKER, ("quota_tight",), inject, heal, oracle, end)


def _poison_record() -> Fault:
    """A record that no consumer can read, and an end that only a person can decide."""
    text = struct.pack(">HI", 0xFFFE, 7).decode("latin-1")

    async def inject(scene: Scene) -> Mapping[str, str]:
        place = await asyncio.to_thread(_write_order, ClusterScene(scene).servers(), text)
        return {"partition": str(place.partition), "offset": str(place.offset)}

    async def heal(scene: Scene) -> None:
        """Delete the partition up to behind the record; a good one lets the groups move on."""

        def delete() -> None:
            place = driver().TopicPartition(ORDERS, partition, int(scene.notes["offset"]) + 1)
            client = driver().admin.AdminClient({"bootstrap.servers": servers, "log_level": 0})
            for future in client.delete_records([place], request_timeout=20).values():
                future.result()
            _write_order(servers, "{}", partition)

        servers, partition = ClusterScene(scene).servers(), int(scene.notes["partition"])
        await asyncio.to_thread(delete)

    async def oracle(scene: Scene) -> str:
        first = await ClusterScene(scene).group(scene.target.name)
        if first.error:
            return f"{scene.target.name} cannot be read: {first.error}"
        await asyncio.sleep(POLL_S * 6)
        later = await ClusterScene(scene).group(scene.target.name)
        stood = [
            f"{topic}-{index}"
            for (topic, index), place in later.places.items()
            if place.read < place.end
            and (then := first.places.get((topic, index))) is not None
            and then.read == place.read
        ]
        return f"{scene.target.name} stands still at {', '.join(stood)}" if stood else ""

    sentence = "A record cannot be processed by the consumers."
    end = CorrectOutcome.ESCALATED
    return Fault("poison_record", sentence, GROUP, ("group_stalled",), inject, heal, oracle, end)


def _write_order(servers: str, text: str, partition: int = -1) -> TopicPartition:
    """Where the record is now (-1 for any partition); RigError where it was not acknowledged."""
    reports: list[tuple[object, Message]] = []
    producer = driver().Producer({"bootstrap.servers": servers, "acks": "all", "log_level": 0})
    producer.produce(
        *(ORDERS, text.encode()),
        partition=partition,
        on_delivery=lambda error, message: reports.append((error, message)),
    )
    producer.flush(WRITE_S_MAX)
    if not reports or reports[0][0] is not None:
        raise RigError("The record was not acknowledged.")
    message = reports[0][1]
    place: TopicPartition = driver().TopicPartition(ORDERS, message.partition(), message.offset())
    return place


FAULTS: tuple[Fault, ...] = (
    kill_fault("node_kill", BROKER, breaks=("broker_down",)),
    kill_fault("brokers_kill", BROKER, breaks=("broker_down",), count=2),
    pause_fault("node_pause", BROKER, breaks=("broker_down",)),
    cut_fault("network_isolation", BROKER, breaks=("broker_down",)),
    cut_fault(
        "network_partition", BROKER, breaks=("broker_fenced", "replicas_behind"), others=(BROKER,)
    ),
    slow_fault("latency", BROKER, breaks=("slow_broker",), delay_s=SLOW_S),
    fill_fault(
        "disk_pressure", BROKER, breaks=("disk_full", "broker_down"), end=CorrectOutcome.ESCALATED
    ),
    limit_fault("file_descriptors", BROKER, breaks=("broker_down",), files=FILES_MAX),
    # Whose process holds the port, and whether it may go, is known to people only.
    occupy_fault("port_taken", BROKER, breaks=("broker_down",), end=CorrectOutcome.ESCALATED),
    flood_fault("log_flood", BROKER, breaks=("log_oversized",)),
    _data_fault("data_emptied", "The data of one broker is gone.", _empty, _refill),
    _data_fault(
        "identity_damaged",
        "The data directory of one broker belongs to another cluster.",
        *(_rename_cluster, _restore_identity),
    ),
    _throttle_left(),
    _setting_changed(),
    _replication_low(),
    _topic_fault(
        "minimum_strict",
        "A topic takes writes only while all replicas are in sync.",
        *("minimum_strict", MIN_INSYNC, "3"),
    ),
    _topic_fault(
        "unclean_allowed",
        "A topic may elect a leader that lacks confirmed records.",
        *("unclean_election", UNCLEAN, "true"),
    ),
    _topic_fault(
        "retention_short",
        "A topic deletes its records after one second.",
        *("retention_short", RETENTION, str(SHORT_MS)),
        end=CorrectOutcome.ESCALATED,
    ),
    _quota_tight(),
    kill_fault("group_kill", GROUP, breaks=("group_stopped",)),
    pause_fault("group_pause", GROUP, breaks=("group_stopped", "group_stalled")),
    _poison_record(),
    kill_fault("producer_kill", PRODUCER, breaks=("client_down",)),
)
