"""What must hold of a rate limiter. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from operator_protocols.domain.health import Health, Severity
from operator_protocols.domain.observation import Finding, Observation, Seen

__all__ = ["INVARIANTS", "NodeDown", "RedisDisconnected"]


@dataclass(frozen=True, slots=True)
class NodeDown:
    """Every node is up and reachable."""

    name: str = "node_down"
    severity: Severity = Severity.CRITICAL
    grace_s: float = 0.0

    def check(self, observation: Observation) -> Iterable[Finding]:
        """Broken at every node that does not answer or says it is not up."""
        for seen in observation.seen:
            if seen.readings.get("kind", "node") == "node":
                yield Finding(self.name, seen.target, *_up(seen))


@dataclass(frozen=True, slots=True)
class RedisDisconnected:
    """Every node reaches the store, and the store answers."""

    name: str = "redis_disconnected"
    severity: Severity = Severity.CRITICAL
    grace_s: float = 0.0

    def check(self, observation: Observation) -> Iterable[Finding]:
        """Broken at a node that cannot reach the store, and at a store that nobody can reach."""
        for seen in observation.seen:
            kind = seen.readings.get("kind", "node")
            yield Finding(self.name, seen.target, *(_up(seen) if kind == "store" else _link(seen)))


def _up(seen: Seen) -> tuple[Health, str]:
    if seen.problem or "reachable" not in seen.readings:
        return Health.UNKNOWN, seen.problem
    if not seen.readings["reachable"]:
        return Health.BROKEN, str(seen.readings.get("error", "it does not answer"))
    status = seen.readings.get("status", "up")
    return (Health.HEALTHY, "") if status == "up" else (Health.BROKEN, f"it says {status!r}")


def _link(seen: Seen) -> tuple[Health, str]:
    # A node that does not answer says nothing about its store.
    if seen.problem or not seen.readings.get("reachable"):
        return Health.UNKNOWN, seen.problem
    if seen.readings.get("store_connected"):
        return Health.HEALTHY, ""
    why = seen.readings.get("store_error") or "no reason given"
    return Health.BROKEN, f"it cannot reach the store: {why}"


INVARIANTS = (NodeDown(), RedisDisconnected())
