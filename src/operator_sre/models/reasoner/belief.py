"""What is believed, how evidence moves it, and which question would move it most. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from operator_protocols.domain.cause import Cause
from operator_protocols.domain.target import Target, dependencies_of
from operator_sre.models.reasoner.causes import HEALTHY, UNEXPLAINED

__all__ = ["Belief", "Suspect", "first_belief"]

NOT_EXPLAINED = 0.05  # how well a cause fits a violation that does not follow from it


@dataclass(frozen=True, slots=True, eq=False)
class Suspect:
    """A cause at a target; compared by identity, because one belief passes it to the next."""

    cause: Cause
    target: str


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
        return _normalised(
            {
                suspect: weight * _likelihood(suspect, probe, target, outcome)
                for suspect, weight in self.weights.items()
            }
        )

    def without(self, tried: Iterable[tuple[str, str]]) -> Belief:
        """The belief when what ends these (cause, target) was done, and the trouble stayed."""
        known = set(tried)
        return _normalised(
            {
                suspect: weight * (0.02 if (suspect.cause.name, suspect.target) in known else 1)
                for suspect, weight in self.weights.items()
            }
        )

    def gain(self, probe: str, target: str) -> float:
        """How many bits a probe is expected to tell."""
        expected = 0.0
        for outcome in HEALTHY[probe]:
            chance = sum(
                weight * _likelihood(suspect, probe, target, outcome)
                for suspect, weight in self.weights.items()
            )
            if chance > 0:
                expected += chance * self.after(probe, target, outcome).entropy()
        return self.entropy() - expected

    def entropy(self) -> float:
        """How much is not known, in bits."""
        return -sum(p * math.log2(p) for p in self.weights.values() if p > 0)


def first_belief(
    violated: Sequence[str], targets: Sequence[Target], causes: Sequence[Cause]
) -> Belief:
    """The belief before any question: causes at what is broken and at what that depends on."""
    broken = set(violated)
    places = sorted(broken | {need for name in broken for need in dependencies_of(name, targets)})
    weights: dict[Suspect, float] = {}
    for place in places:
        fit = 1.0
        for name in sorted(broken):
            explained = name == place or place in dependencies_of(name, targets)
            fit *= 1.0 if explained else NOT_EXPLAINED
        # A part whose own invariants hold is rarely the one to blame.
        own = 1.0 if place in broken else 0.1
        for cause in causes:
            weights[Suspect(cause, place)] = cause.prior * fit * own
    root = next((name for name in violated), "")
    weights[Suspect(UNEXPLAINED, root)] = UNEXPLAINED.prior
    return _normalised(weights)


def _likelihood(suspect: Suspect, probe: str, target: str, outcome: str) -> float:
    here = suspect.target == target
    table = suspect.cause.predicts.get(probe, {}) if here else HEALTHY[probe]
    return table.get(outcome, 0.01)


def _normalised(weights: Mapping[Suspect, float]) -> Belief:
    total = sum(weights.values()) or 1.0
    return Belief({suspect: weight / total for suspect, weight in weights.items()})
