"""How a reading becomes a finding: opinions on an invariant, and an invariant of parts. Pure."""

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
    """The invariant cannot be decided."""
    return Health.UNKNOWN, detail


def number_of(seen: Seen, name: str) -> float | None:
    """A number that was read; None where there is none, and for a boolean."""
    value = seen.readings.get(name)
    return None if isinstance(value, bool) or not isinstance(value, int | float) else value


@dataclass(frozen=True, slots=True)
class PartInvariant:
    """A sentence that must hold of every part of one of these kinds.

    `judge` is asked about a part that could be observed; None: it does not apply to this part.
    With `adopts_strangers` a part that was read without a kind counts as one of the first kind.
    """

    name: str
    sentence: str
    severity: Severity
    grace_s: float
    kinds: tuple[str, ...]
    judge: Callable[[Seen], Opinion | None]
    adopts_strangers: bool = False

    def check(self, observation: Observation) -> Iterable[Finding]:
        """One finding for every part; UNKNOWN for a part without an observation."""
        for seen in observation.seen:
            otherwise = self.kinds[0] if self.adopts_strangers else None
            if seen.readings.get("kind", otherwise) not in self.kinds:
                continue
            opinion = unknown(seen.problem) if seen.problem else self.judge(seen)
            if opinion is not None:
                yield Finding(self.name, seen.target, *opinion)
