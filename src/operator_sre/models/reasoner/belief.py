"""What is believed, how evidence moves it, and which question would move it most. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from operator_protocols.domain.cause import Cause
from operator_protocols.domain.observation import Value
from operator_protocols.domain.target import Target, dependencies_of
from operator_sre.models.reasoner.causes import HEALTHY, UNEXPLAINED

__all__ = ["Belief", "Suspect", "Symptoms", "expected", "first_belief"]

NOT_EXPLAINED = 0.05  # how well a cause fits a violation that does not follow from it
NAMED = 3.0  # a cause that says which invariants it breaks, and one of them is broken
NOT_NAMED = 0.1  # the same, and another one is
SHOWN = 4.0  # a look shows just what the cause says that it shows
NOT_SHOWN = 0.02


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


@dataclass(frozen=True, slots=True)
class Symptoms:
    """What the ticket and the last look show: broken invariants and readings, by target."""

    invariants: Mapping[str, frozenset[str]] = field(default_factory=dict)
    readings: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)


def first_belief(
    violated: Sequence[str],
    targets: Sequence[Target],
    causes: Sequence[Cause],
    symptoms: Symptoms | None = None,
) -> Belief:
    """The belief before any question: causes at what is broken and at what that depends on."""
    shown = symptoms or Symptoms()
    broken = sorted(set(violated))
    needs = {name: dependencies_of(name, targets) for name in broken}
    kinds = {target.name: target.kind for target in targets}
    weights: dict[Suspect, float] = {}
    for place in sorted(set(broken).union(*needs.values())):
        # A part whose own invariants hold is rarely the one to blame.
        own = 1.0 if place in broken else 0.1
        within = [name for name in broken if name == place or place in needs[name]]
        outside = NOT_EXPLAINED ** (len(broken) - len(within))
        for cause in causes:
            if cause.kinds and kinds.get(place) not in cause.kinds:
                continue
            fit = math.prod(_fit(cause, shown.invariants.get(name)) for name in within)
            seen = _seen(cause, shown.readings.get(place, {}))
            weights[Suspect(cause, place)] = cause.prior * fit * outside * own * seen
    root = next((name for name in violated), "")
    weights[Suspect(UNEXPLAINED, root)] = UNEXPLAINED.prior
    return _normalised(weights)


def expected(cause: Cause, probe: str) -> Mapping[str, float]:
    """What a probe shows where this is so; what a cause does not speak of is as it always is."""
    return cause.predicts.get(probe) or HEALTHY[probe]


def _fit(cause: Cause, invariants: frozenset[str] | None) -> float:
    """How well a cause explains what is broken at one target that it can reach."""
    if not invariants or not cause.breaks:
        return 1.0
    explained = sum(name in cause.breaks for name in invariants)
    return NAMED**explained * NOT_NAMED ** (len(invariants) - explained)


def _seen(cause: Cause, readings: Mapping[str, Value]) -> float:
    weight = 1.0
    for name, value in cause.shows.items():
        if name in readings:
            weight *= SHOWN if readings[name] == value else NOT_SHOWN
    return weight


def _likelihood(suspect: Suspect, probe: str, target: str, outcome: str) -> float:
    here = suspect.target == target
    table = expected(suspect.cause, probe) if here else HEALTHY[probe]
    return table.get(outcome, 0.01)


def _normalised(weights: Mapping[Suspect, float]) -> Belief:
    total = sum(weights.values()) or 1.0
    return Belief({suspect: weight / total for suspect, weight in weights.items()})
