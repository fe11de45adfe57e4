"""Apache Kafka: brokers that replicate partitions, their controllers, and consumer groups."""

from __future__ import annotations

from operator_protocols.ports import Plugin
from operator_sre.subjects.kafka.faults import FAULTS
from operator_sre.subjects.kafka.rig import KafkaDepot, rig
from operator_sre.subjects.kafka.subject import KafkaCluster
from operator_sre.subjects.kafka.tools import KNOWLEDGE, kafka_tools

__all__ = ["plugin"]

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
)
