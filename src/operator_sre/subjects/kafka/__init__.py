"""Apache Kafka: brokers that replicate partitions, their controllers, and consumer groups."""

from __future__ import annotations

from operator_protocols.ports import Plugin
from operator_sre.subjects.kafka.faults import FAULTS
from operator_sre.subjects.kafka.rig import KafkaDepot, rig
from operator_sre.subjects.kafka.subject import KafkaCluster
from operator_sre.subjects.kafka.tools import KNOWLEDGE, kafka_tools

__all__ = ["plugin"]

STORY = {
    "cluster": (
        "Three brokers, which are controllers too, hold every partition in three replicas, one of"
        " which leads it. The application checkout writes an order for every request, and two"
        " consumer groups read them."
    ),
    "watch": (
        "It asks every broker for itself, one of them for all partitions, and the groups for their"
        " progress, and it writes a record of its own."
    ),
    "fault": (
        "The other two brokers elect new leaders for its partitions, and go on confirming writes."
    ),
    "detection": "The broker does not answer; what its replicas lack belongs to the same incident.",
    "remedy": (
        "A broker is restarted only if its data is what it left and the others have enough replicas"
        " in sync. The agent observes, proposes, acts through the gate, and observes again."
    ),
    "proof": "The controllers must count the broker as alive, with all of its replicas in sync.",
}

plugin = Plugin(
    name="kafka",
    sentence="Apache Kafka: brokers, controllers, replicas and consumer groups.",
    subject=KafkaCluster,
    causes=KNOWLEDGE.causes,
    rig=rig,
    faults=FAULTS,
    truths=KNOWLEDGE.truths,
    notes=KNOWLEDGE.notes,
    tools=kafka_tools,
    requires=KNOWLEDGE.requires,
    depot=KafkaDepot,
    story=STORY,
)
