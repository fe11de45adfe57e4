"""What is believed at first, how evidence moves it, and which question would move it most. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from operator_protocols.domain.cause import Cause
from operator_protocols.domain.observation import Value
from operator_protocols.domain.target import Target, dependencies_of
from operator_sre.models.reasoner.causes import NEEDS_OTHERS, UNEXPLAINED, VAGUE
from operator_sre.models.reasoner.outcomes import HEALTHY, SUFFERING, WORDS, chance

__all__ = [
    "SURE",
    "Belief",
    "Suspect",
    "Symptoms",
    "expected",
    "first_belief",
    "likelihood",
    "normalise",
]

SURE = 0.9
# A cause that names invariants or readings need not explain words besides.
KNOWS_BETTER = 0.2
KNOWS_BETTER_UNTOLD = 0.6
TRIED = 0.02  # what should have ended it was done, and the trouble stayed
NOT_EXPLAINED = 0.05  # how well a cause fits a violation that does not follow from it
NAMED = 3.0  # a cause that says which invariants it breaks, and one of them is broken
NOT_NAMED = 0.1  # the same, and another one is broken besides
NONE_NAMED = 0.02  # the same, and none of those is
SHOWN = 4.0  # a look shows just what the cause says that it shows
NOT_SHOWN = 0.02
REACHED = 0.1  # a look reached it, and the cause means that hardly anybody does
HARDLY = 0.05  # how seldom its port answers then
OFTEN = 0.5
ELSEWHERE = 0.1  # at a part whose own invariants hold, which is rarely the one to blame
ELSEWHERE_SHOWN = 0.5  # the same, and a look shows there all that the cause says that it shows


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
        return normalise(
            {
                suspect: weight * likelihood(suspect, probe, target, outcome)
                for suspect, weight in self.weights.items()
            }
        )

    def without(self, tried: Iterable[tuple[str, str]]) -> Belief:
        """The belief when what ends these (cause, target) was done, and the trouble stayed."""
        known = set(tried)
        return normalise(
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


def normalise(weights: Mapping[Suspect, float]) -> Belief:
    """A belief whose probabilities add up to one."""
    total = sum(weights.values()) or 1.0
    return Belief({suspect: weight / total for suspect, weight in weights.items()})


@dataclass(frozen=True, slots=True)
class Symptoms:
    """What the ticket and the last look show: broken invariants and readings, by target."""

    invariants: Mapping[str, frozenset[str]] = field(default_factory=dict)
    readings: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a cause may be: the broken targets that need it, and those that it needs itself."""

    target: Target
    broken: bool
    within: tuple[str, ...]
    without: tuple[str, ...]
    needs: frozenset[str]

    def admits(self, cause: Cause, symptoms: Symptoms) -> bool:
        """Whether a cause can be here at all."""
        if cause.kinds and self.target.kind not in cause.kinds:
            return False
        if cause.name in NEEDS_OTHERS and not self.needs:
            return False
        if cause.name in VAGUE and not self.broken:
            return False
        if self.within:
            return True
        # Who merely needs what is broken is to blame only for what it names, where a look shows it.
        near = [symptoms.invariants.get(name) for name in self.without if name in self.needs]
        readings = symptoms.readings.get(self.target.name, {})
        return _shows_all(cause, readings) and any(_explains_all(cause, each) for each in near)


def first_belief(
    violated: Sequence[str],
    targets: Sequence[Target],
    causes: Sequence[Cause],
    symptoms: Symptoms | None = None,
) -> Belief:
    """The belief before any question: causes at what is broken and at what that depends on.

    A part that depends on what is broken is a suspect too, if it shows what would break that.
    """
    shown = symptoms or Symptoms()
    broken = sorted(set(violated))
    needs = {target.name: dependencies_of(target.name, targets) for target in targets}
    known = {target.name: target for target in targets}
    strangers = {name: Target(name, "") for name in broken if name not in known}
    weights: dict[Suspect, float] = {}
    for name, target in sorted({**known, **strangers}.items()):
        own = needs.get(name, frozenset())
        dependants = frozenset(other for other, needed in needs.items() if name in needed)
        within = tuple(each for each in broken if each == name or each in dependants)
        without = tuple(each for each in broken if each not in within)
        if not within and not own & set(broken):
            continue
        place = _Place(target, name in broken, within, without, own)
        readings = shown.readings.get(name, {})
        for cause in causes:
            if place.admits(cause, shown):
                suspect = Suspect(cause, name, dependants)
                weights[suspect] = _weigh(cause, place, readings, shown.invariants)
    weights[Suspect(UNEXPLAINED, next(iter(violated), ""))] = UNEXPLAINED.prior
    return normalise(weights)


def _weigh(
    cause: Cause,
    place: _Place,
    readings: Mapping[str, Value],
    invariants: Mapping[str, frozenset[str]],
) -> float:
    """How much speaks for a cause at a place, before anything was asked."""
    weight = cause.prior
    if not place.broken:
        weight *= ELSEWHERE_SHOWN if _shows_all(cause, readings) else ELSEWHERE
    # What several targets say of a cause: each that it explains speaks for it, doubt counts once.
    # Those that depend on the same part all show the same thing, so it is one surprise, not many.
    doubt = 1.0
    for broken in (invariants.get(name) for name in place.within):
        if not broken or not cause.breaks:
            continue
        explained = sum(name in cause.breaks for name in broken)
        fit = NAMED**explained * NOT_NAMED ** (len(broken) - explained) if explained else NONE_NAMED
        doubt = min(doubt, fit)
        weight *= max(fit, 1.0)
    # What is broken where nothing depends on the place may still show what the place needs, as a
    # primary shows that its replica is away.
    for name in place.without:
        broken = invariants.get(name)
        near = name in place.needs and _explains_all(cause, broken)
        weight *= NAMED ** len(broken or ()) if near else NOT_EXPLAINED
    # What an observation contradicts is not made up for by what it happens to share.
    known = [readings[name] == value for name, value in cause.shows.items() if name in readings]
    wrong = known.count(False)
    weight *= NOT_SHOWN**wrong if wrong else SHOWN ** len(known)
    # Who answered a moment ago is hardly one that answers nobody. Some close the door on whoever
    # does not speak their language: they are there as well.
    port = cause.predicts.get("port", {})
    mute = bool(port) and port.get("answers", 0.0) < HARDLY and port.get("closed", 0.0) < OFTEN
    return doubt * weight * (REACHED if mute and readings.get("reachable") is True else 1.0)


def _explains_all(cause: Cause, invariants: frozenset[str] | None) -> bool:
    return bool(invariants) and set(invariants or ()) <= set(cause.breaks)


def _shows_all(cause: Cause, readings: Mapping[str, Value]) -> bool:
    """Whether all that a cause says that it shows is seen, and it says something."""
    return bool(cause.shows) and all(
        name in readings and readings[name] == value for name, value in cause.shows.items()
    )
