"""Redis and Valkey servers, with or without replicas."""

from __future__ import annotations

from operator_protocols.ports import Plugin
from operator_subject_redis.rig import FAULTS, rig
from operator_subject_redis.subject import Redis
from operator_subject_redis.tools import KNOWLEDGE, redis_tools

__all__ = ["plugin"]

plugin = Plugin(
    name="redis",
    sentence="Redis and Valkey servers, with or without replicas.",
    subject=Redis,
    causes=KNOWLEDGE.causes,
    rig=rig,
    faults=FAULTS,
    tools=redis_tools,
    notes=KNOWLEDGE.notes,
    requires=KNOWLEDGE.requires,
)
