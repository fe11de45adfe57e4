"""What must hold of a server. Pure: each reads what was seen, and knows nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from operator_protocols.domain.health import Health, Severity
from operator_protocols.domain.observation import Finding, Observation, Seen

__all__ = ["INVARIANTS", "Holds"]

FULL = 0.9
Judgement = tuple[Health, str]


@dataclass(frozen=True, slots=True)
class Holds:
    """One sentence about every server that was seen."""

    name: str
    severity: Severity
    grace_s: float
    judge: Callable[[Seen], Judgement | None]

    def check(self, observation: Observation) -> Iterable[Finding]:
        """Say it of each; of one that could not be looked at nothing is known."""
        for seen in observation.seen:
            unseen = seen.problem or "up" not in seen.readings
            told = (Health.UNKNOWN, seen.problem) if unseen else self.judge(seen)
            if told is not None:
                yield Finding(self.name, seen.target, *told)


def _up(seen: Seen) -> Judgement:
    if seen.readings["up"]:
        return Health.HEALTHY, ""
    return Health.BROKEN, str(seen.readings.get("error", "it does not answer"))


def _accepts_writes(seen: Seen) -> Judgement | None:
    paused = seen.readings.get("clients_paused")
    if paused is None:  # older servers do not tell
        return None
    return (Health.BROKEN, "its clients have to wait") if paused else (Health.HEALTHY, "")


def _room(what: str, used: str, limit: str) -> Callable[[Seen], Judgement]:
    def judge(seen: Seen) -> Judgement:
        now, most = seen.readings.get(used), seen.readings.get(limit)
        if not isinstance(now, int) or not isinstance(most, int):
            return Health.UNKNOWN, f"it does not tell its {what}"
        if most and now > FULL * most:
            return Health.BROKEN, f"{now} of {most} {what} are used"
        return Health.HEALTHY, ""

    return judge


def _linked(seen: Seen) -> Judgement:
    if not seen.readings["up"]:
        return Health.UNKNOWN, "it does not answer"
    if seen.readings.get("linked", True):
        return Health.HEALTHY, ""
    return Health.BROKEN, "it is a replica and has lost its primary"


INVARIANTS = (
    Holds("server_up", Severity.CRITICAL, 0.0, _up),
    Holds("accepts_writes", Severity.CRITICAL, 5.0, _accepts_writes),
    Holds("memory", Severity.WARNING, 30.0, _room("bytes", "used_memory", "maxmemory")),
    Holds("clients", Severity.WARNING, 30.0, _room("clients", "connected_clients", "maxclients")),
    Holds("replica_linked", Severity.WARNING, 30.0, _linked),
)
