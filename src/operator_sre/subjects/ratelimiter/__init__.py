"""A sliding-window rate limiter: several nodes that share one store."""

from __future__ import annotations

from operator_protocols.ports import Plugin
from operator_sre.subjects.ratelimiter.causes import CAUSES
from operator_sre.subjects.ratelimiter.faults import FAULTS
from operator_sre.subjects.ratelimiter.notes import NOTES
from operator_sre.subjects.ratelimiter.rig import rig
from operator_sre.subjects.ratelimiter.stack import stack
from operator_sre.subjects.ratelimiter.subject import RateLimiter
from operator_sre.subjects.ratelimiter.tools import tools
from operator_sre.subjects.ratelimiter.truths import TRUTHS

__all__ = ["plugin"]

plugin = Plugin(
    name="ratelimiter",
    sentence="Rate limiter nodes that count in one shared Valkey or Redis.",
    subject=RateLimiter,
    causes=CAUSES,
    rig=rig,
    faults=FAULTS,
    truths=TRUTHS,
    notes=NOTES,
    tools=tools,
    stack=stack,
)
