"""How a reading becomes an opinion on an invariant. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from operator_protocols.domain.health import Health, Severity
from operator_protocols.domain.observation import Finding, Observation, Seen

__all__ = ["WELL", "Opinion", "PartInvariant", "broken", "number_of", "unknown"]

Opinion = tuple[Health, str]
WELL: Opinion = (Health.HEALTHY, "")


def broken(detail: str) -> Opinion:
    """It does not hold."""
    return Health.BROKEN, detail


def unknown(detail: str) -> Opinion:
    """Nobody can tell."""
    return Health.UNKNOWN, detail


@dataclass(frozen=True, slots=True)
class PartInvariant:
    """A sentence that must hold of every part of one of these kinds.

    `judge` is asked about a part that could be looked at; None: it has nothing to say here.
    """

    name: str
    sentence: str
    severity: Severity
    grace_s: float
    kinds: tuple[str, ...]
    judge: Callable[[Seen], Opinion | None]

    def check(self, observation: Observation) -> Iterable[Finding]:
        """One finding for every part; of what could not be looked at nothing is known."""
        for seen in observation.seen:
            if seen.readings.get("kind") not in self.kinds:
                continue
            opinion = unknown(seen.problem) if seen.problem else self.judge(seen)
            if opinion is not None:
                yield Finding(self.name, seen.target, *opinion)


def number_of(seen: Seen, name: str) -> float | None:
    """A number that was read; None where there is none."""
    value = seen.readings.get(name)
    return None if isinstance(value, bool) or not isinstance(value, int | float) else value
