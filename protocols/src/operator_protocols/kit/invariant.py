"""How a reading becomes a finding: opinions on an invariant, and an invariant of parts. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from operator_protocols.domain.health import Health, Severity
from operator_protocols.domain.observation import Finding, Observation, Seen, Trouble

__all__ = ["WELL", "Opinion", "PartInvariant", "broken", "number_of", "unknown"]


class Opinion(NamedTuple):
    """What a check says of one target."""

    health: Health
    detail: str
    trouble: Trouble | None = None

    def to_finding(
        self, invariant: str, target: str, *, otherwise: Trouble | None = None
    ) -> Finding:
        """The finding; `otherwise` is its trouble where the opinion states none."""
        trouble = self.trouble or otherwise
        return Finding(invariant, target, self.health, self.detail, trouble=trouble)


WELL = Opinion(Health.HEALTHY, "")


def broken(detail: str, trouble: Trouble | None = None) -> Opinion:
    """It does not hold."""
    return Opinion(Health.BROKEN, detail, trouble)


def unknown(detail: str) -> Opinion:
    """The invariant cannot be decided."""
    return Opinion(Health.UNKNOWN, detail)


def number_of(seen: Seen, name: str) -> float | None:
    """A number that was read; None where there is none, and for a boolean."""
    value = seen.readings.get(name)
    return None if isinstance(value, bool) or not isinstance(value, int | float) else value


@dataclass(frozen=True, slots=True)
class PartInvariant:
    """A sentence that must hold of every part of one of these kinds.

    `judge` is asked about a part that could be observed; None: it does not apply to this part.
    With `adopts_strangers` a part that was read without a kind counts as one of the first kind.
    `trouble` is what a break means, unless the opinion says otherwise.
    """

    name: str
    sentence: str
    severity: Severity
    grace_s: float
    kinds: tuple[str, ...]
    judge: Callable[[Seen], Opinion | None]
    adopts_strangers: bool = False
    trouble: Trouble | None = None

    def check(self, observation: Observation) -> Iterable[Finding]:
        """One finding for every part; UNKNOWN for a part without an observation."""
        for seen in observation.seen:
            otherwise = self.kinds[0] if self.adopts_strangers else None
            if seen.readings.get("kind", otherwise) not in self.kinds:
                continue
            opinion = unknown(seen.problem) if seen.problem else self.judge(seen)
            if opinion is not None:
                yield opinion.to_finding(self.name, seen.target, otherwise=self.trouble)
