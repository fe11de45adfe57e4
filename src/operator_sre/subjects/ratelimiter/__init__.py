"""A sliding-window rate limiter: several nodes that share one store."""

from __future__ import annotations

from operator_protocols.ports import Plugin
from operator_sre.subjects.ratelimiter.faults import FAULTS
from operator_sre.subjects.ratelimiter.rig import rig, stack
from operator_sre.subjects.ratelimiter.subject import RateLimiter
from operator_sre.subjects.ratelimiter.tools import KNOWLEDGE, tools

__all__ = ["plugin"]

plugin = Plugin(
    name="ratelimiter",
    sentence="Rate limiter nodes that count in one shared Valkey or Redis.",
    subject=RateLimiter,
    causes=KNOWLEDGE.causes,
    rig=rig,
    faults=FAULTS,
    truths=KNOWLEDGE.truths,
    notes=KNOWLEDGE.notes,
    tools=tools,
    requires=KNOWLEDGE.requires,
    stack=stack,
)
