"""A disposable Kafka: three brokers that are controllers too, a producer and a consumer group."""

from __future__ import annotations

import asyncio
import base64
import importlib.util
import json
import os
import secrets
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from operator_protocols.domain.rig import Artifact, LoadSpec, ProcessSpec, RigSpec
from operator_protocols.domain.target import Target
from operator_protocols.errors import MissingExtraError, MissingProgramError, RigError
from operator_protocols.ports import SubjectSettings
from operator_sre.subjects.kafka.kinds import BROKER, GROUP, PRODUCER
from operator_sre.subjects.kafka.shop import RECEIPTS, produce_once, read_all

__all__ = ["CANARY", "CONFIG_FILE", "KafkaDepot", "artifacts", "jmx_agent", "rig"]

VERSION = "4.1.0"
BROKERS = ("broker-1", "broker-2", "broker-3")
CONFIG_FILE = "server.properties"
CANARY = "operator-canary"
# Segments are small and the log of the cluster's metadata has room as well.
VOLUME_MB = 256
READY_S_MAX = 180.0
RATE_PER_S = 10.0

# Sessions are short, so that a silent broker is noticed within seconds. Brokers reach each other by
# `{NAME.port}`, which is a link of the lab. On a busy machine a broker takes a minute to register.
CONFIG = """\
process.roles=broker,controller
node.id={node}
broker.rack={name}
controller.quorum.voters={voters}
listeners=PLAINTEXT://127.0.0.1:{{port}},CONTROLLER://127.0.0.1:{{port:controller}}
advertised.listeners=PLAINTEXT://127.0.0.1:{{{name}.port}},\
CONTROLLER://127.0.0.1:{{{name}.port:controller}}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs={{volume}}/log
log.segment.bytes=8388608
log.retention.bytes=67108864
log.cleaner.dedupe.buffer.size=4194304
default.replication.factor=3
min.insync.replicas=2
unclean.leader.election.enable=false
auto.create.topics.enable=false
offsets.topic.replication.factor=3
offsets.topic.num.partitions=3
transaction.state.log.replication.factor=3
transaction.state.log.num.partitions=1
transaction.state.log.min.isr=2
share.coordinator.state.topic.num.partitions=1
group.initial.rebalance.delay.ms=0
broker.session.timeout.ms=6000
initial.broker.registration.timeout.ms=300000
broker.heartbeat.interval.ms=1000
replica.lag.time.max.ms=6000
leader.imbalance.check.interval.seconds=10
num.network.threads=2
num.io.threads=2
num.recovery.threads.per.data.dir=1
"""


class KafkaDepot:
    """Writes to a topic as the shop does, acknowledged by all replicas in sync, and reads it."""

    def __init__(self, settings: SubjectSettings) -> None:
        self._settings = settings

    async def put(self, mark: str) -> bool:
        """Write one record."""
        servers = _servers(self._settings.targets())
        return bool(servers) and await asyncio.to_thread(produce_once, servers, RECEIPTS, mark)

    async def find_lost(self, marks: Sequence[str]) -> frozenset[str] | None:
        """Records that cannot be read any more; None where not all partitions can be read."""
        servers = _servers(self._settings.targets())
        kept = await asyncio.to_thread(read_all, servers, RECEIPTS) if servers else None
        return None if kept is None else frozenset(marks) - kept


def rig() -> RigSpec:
    """Brokers, the shop and its load. MissingProgramError without Java, MissingExtraError without
    the client.
    """
    java = _find_java()
    if importlib.util.find_spec("confluent_kafka") is None:
        raise MissingExtraError("kafka", needed_for="The rig of 'kafka'")
    cluster = base64.urlsafe_b64encode(secrets.token_bytes(16)).decode().rstrip("=")
    voters = ",".join(
        f"{node}@127.0.0.1:{{{name}.port:controller}}" for node, name in enumerate(BROKERS, 1)
    )
    script = Path(__file__).with_name("broker.sh").read_text(encoding="utf-8")
    brokers = []
    for node, name in enumerate(BROKERS, 1):
        words = (java, str(_cache()), "{dir}", "{volume}", str(node))
        brokers.append(
            ProcessSpec(
                name=name,
                kind=BROKER,
                argv=("/bin/sh", "{dir}/broker.sh", "run", *words),
                files={
                    CONFIG_FILE: CONFIG.format(node=node, name=name, voters=voters),
                    "cluster.id": cluster + "\n",
                    "broker.sh": script,
                },
                prepare=(("/bin/sh", "{dir}/broker.sh", "prepare", *words),),
                ports=("controller",),
                linked=True,
                volume_mb=VOLUME_MB,
                ready_s_max=READY_S_MAX,
            )
        )
    servers = {"servers.json": json.dumps([f"127.0.0.1:{{{name}.port}}" for name in BROKERS])}
    program = (sys.executable, "-P", "-m", "operator_sre.subjects.kafka.shop", "--directory")
    shop = tuple(
        ProcessSpec(
            name=name,
            kind=kind,
            argv=(*program, "{dir}", "--port", "{port}", "--work", name),
            depends_on=needs,
            files=servers,
            ready_path="/health",
            ready_s_max=READY_S_MAX,
        )
        for name, kind, needs in (
            ("checkout", PRODUCER, BROKERS),
            ("billing", GROUP, ("checkout",)),
            ("shipping", GROUP, ("checkout",)),
        )
    )
    load = LoadSpec(
        PRODUCER, path="/orders", body={"item": "apple-{n}", "count": "3"}, rate_per_s=RATE_PER_S
    )
    options: dict[str, str | int | float | bool] = {
        "canary": CANARY,
        "answer_ms_max": 500.0,
        "settings_every_s": 4.0,
        "lag_window_s": 15.0,
        "disk_free_bytes_min": 24 << 20,
        "log_bytes_max": 16 << 20,
    }
    return RigSpec("kafka", (*brokers, *shop), load, options, artifacts=artifacts())


def artifacts() -> tuple[Artifact, ...]:
    """The pinned files of a broker."""
    lines = Path(__file__).with_name("jars.txt").read_text(encoding="utf-8").splitlines()
    rows = (line.split() for line in lines if not line.startswith("#"))
    return tuple(
        Artifact(path, digest, int(size), str(_cache() / Path(path).name))
        for digest, size, path in rows
    )


def jmx_agent() -> Artifact:
    """The Prometheus JMX agent that Operator was tried with. The rig runs without it."""
    version = "1.0.1"
    name = f"jmx_prometheus_javaagent-{version}.jar"
    return Artifact(
        f"io/prometheus/jmx/jmx_prometheus_javaagent/{version}/{name}",
        "7d61f737fd661610ccc14aea79764faa1ea94a340cbc8f0029b3d2edea3d80c1",
        2_886_599,
        str(_cache().with_name("jmx") / name),
    )


def _servers(targets: Sequence[Target]) -> str:
    return ",".join(f"{each.host}:{each.port}" for each in targets if each.kind == BROKER)


def _cache() -> Path:
    folder = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(folder) / "operator-sre" / f"kafka-{VERSION}"


def _find_java() -> str:
    home = os.environ.get("JAVA_HOME")
    at_home = shutil.which("java", path=str(Path(home) / "bin")) if home else None
    if (java := at_home or shutil.which("java")) is None:
        raise MissingProgramError(
            "Java 17 or newer",
            needed_for="The rig of 'kafka'",
            next_step="Install a Java runtime, or set JAVA_HOME.",
        )
    if " " in java:
        raise RigError(f"The path {java!r} of Java has a space, which a rig cannot use.")
    return java
