"""What is believed, how evidence moves it, and which question would move it most. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from operator_protocols.domain.cause import Cause
from operator_sre.models.reasoner.outcomes import HEALTHY, SUFFERING, WORDS, chance

__all__ = ["SURE", "Belief", "Suspect", "expected", "likelihood", "normalised"]

SURE = 0.9
# A cause that names invariants or readings need not explain words besides.
KNOWS_BETTER = 0.2
KNOWS_BETTER_UNTOLD = 0.6
TRIED = 0.02  # what should have ended it was done, and the trouble stayed


@dataclass(frozen=True, slots=True, eq=False)
class Suspect:
    """A cause at a target; compared by identity, because one belief passes it to the next.

    `dependants` are those that suffer with it.
    """

    cause: Cause
    target: str
    dependants: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Belief:
    """Suspects with their probabilities, which add up to one."""

    weights: Mapping[Suspect, float]

    def ranked(self) -> list[tuple[Suspect, float]]:
        """The most probable first; equal ones by name, so that a run repeats exactly."""
        return sorted(
            self.weights.items(), key=lambda item: (-item[1], item[0].cause.name, item[0].target)
        )

    def after(self, probe: str, target: str, outcome: str) -> Belief:
        """The belief when a probe at a target has shown an outcome."""
        return normalised(
            {
                suspect: weight * likelihood(suspect, probe, target, outcome)
                for suspect, weight in self.weights.items()
            }
        )

    def without(self, tried: Iterable[tuple[str, str]]) -> Belief:
        """The belief when what ends these (cause, target) was done, and the trouble stayed."""
        known = set(tried)
        return normalised(
            {
                suspect: weight * (TRIED if (suspect.cause.name, suspect.target) in known else 1)
                for suspect, weight in self.weights.items()
            }
        )

    def gain(self, probe: str, target: str) -> float:
        """How many bits a probe is expected to tell."""
        expected = 0.0
        for outcome in HEALTHY[probe]:
            chance = sum(
                weight * likelihood(suspect, probe, target, outcome)
                for suspect, weight in self.weights.items()
            )
            if chance > 0:
                expected += chance * self.after(probe, target, outcome).entropy()
        return self.entropy() - expected

    def entropy(self) -> float:
        """How much is not known, in bits."""
        return -sum(p * math.log2(p) for p in self.weights.values() if p > 0)


def expected(cause: Cause, probe: str) -> Mapping[str, float]:
    """What a probe shows where this is so; what a cause does not speak of is as it always is."""
    return cause.predicts.get(probe) or HEALTHY[probe]


def likelihood(suspect: Suspect, probe: str, target: str, outcome: str) -> float:
    """How probable it is that a probe at a target shows this, if the suspect is to blame."""
    cause = suspect.cause
    if probe == WORDS:
        if probe not in cause.predicts and (cause.breaks or cause.shows):
            return KNOWS_BETTER_UNTOLD if outcome == "nothing" else KNOWS_BETTER
        # Words about what depends on it may well be about it.
        return chance(expected(cause, probe), probe, outcome)
    if suspect.target == target:
        return chance(expected(cause, probe), probe, outcome)
    suffers = SUFFERING.get(probe) if target in suspect.dependants else None
    return chance(suffers or HEALTHY[probe], probe, outcome)


def normalised(weights: Mapping[Suspect, float]) -> Belief:
    """A belief whose probabilities add up to one."""
    total = sum(weights.values()) or 1.0
    return Belief({suspect: weight / total for suspect, weight in weights.items()})
