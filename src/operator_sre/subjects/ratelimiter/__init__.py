"""A sliding-window rate limiter: several nodes that share one store."""

from __future__ import annotations

from operator_protocols.ports import Plugin
from operator_sre.subjects.ratelimiter.rig import FAULTS, rig
from operator_sre.subjects.ratelimiter.subject import RateLimiter

__all__ = ["plugin"]

plugin = Plugin(
    name="ratelimiter",
    sentence="Rate limiter nodes that count in one shared Valkey or Redis.",
    subject=RateLimiter,
    rig=rig,
    faults=FAULTS,
    notes=(
        "Nodes hold no state of their own: all counts live in the store, so restarting a node"
        " loses nothing. A node whose store is gone stays up and says so."
    ),
)
