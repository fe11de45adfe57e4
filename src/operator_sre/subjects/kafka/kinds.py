"""The kinds of targets of a Kafka subject."""

from __future__ import annotations

__all__ = ["BROKER", "CLUSTER", "GROUP", "PRODUCER"]

BROKER = "broker"
CLUSTER = "cluster"  # all brokers together; a target that the subject adds
GROUP = "group"  # a consumer group, by its name
PRODUCER = "producer"  # a process that only writes; it is watched as a process
