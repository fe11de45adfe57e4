"""The initial belief, how evidence changes it, and the expected gain of a probe. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from operator_protocols.domain.cause import Cause
from operator_protocols.domain.observation import Value
from operator_protocols.domain.target import Target, dependencies_of
from operator_sre.models.reasoner.causes import DEAD, ENDING, NEEDS_OTHERS, UNEXPLAINED, VAGUE
from operator_sre.models.reasoner.outcomes import DECISIVE, HEALTHY, SUFFERING, WORDS, chance
from operator_sre.models.reasoner.symptoms import WEAK_REASONS

__all__ = [
    "FAILED",
    "PRINTED_REASONS",
    "SURE",
    "Belief",
    "Suspect",
    "Symptoms",
    "first_belief",
    "likelihood",
    "normalise",
    "predict_outcomes",
    "shows_all",
]

SURE = 0.9
# A cause that names invariants or readings need not explain words as well.
KNOWS_BETTER = 0.2
KNOWS_BETTER_UNTOLD = 0.6
OF_ANOTHER = 0.1
TRIED = 0.02  # its remedy was applied, and the trouble stayed
FAILED = 0.1  # its remedy could not be applied
NOT_EXPLAINED = 0.05  # a violation that does not follow from the cause
NAMED = 3.0  # one of the invariants that the cause names is broken
NOT_NAMED = 0.1  # another invariant is broken as well
NONE_NAMED = 0.02  # none of the named invariants is broken
SHOWN = 4.0  # the observation shows what the cause predicts
NOT_SHOWN = 0.02
# A server that names the reason itself outweighs causes that fit what is broken.
NAMED_BY_LOG = 20.0
STRONG_REASONS = frozenset(DECISIVE) - WEAK_REASONS
# What a start printed that failed is about that start, while a log has lines about other things.
PRINTED_REASONS = STRONG_REASONS | {"address", "no_space", "memory"}
REACHED = 0.1  # the target answered, although the cause makes it unreachable
HARDLY = 0.05  # how seldom the port answers then
OFTEN, SOMETIMES = 0.5, 0.25
ELSEWHERE = 0.1  # a target whose own invariants hold is rarely the cause
ELSEWHERE_SHOWN = 0.5  # the same, but the observation shows all that the cause predicts


@dataclass(frozen=True, slots=True, eq=False)
class Suspect:
    """A cause at a target; compared by identity, because one belief passes it to the next.

    `dependants` are the targets that fail with it.
    """

    cause: Cause
    target: str
    dependants: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Belief:
    """Suspects with their probabilities, which sum to one."""

    weights: Mapping[Suspect, float]

    def rank(self) -> list[tuple[Suspect, float]]:
        """The most probable first; ties by name, so that a run is reproducible."""
        return sorted(
            self.weights.items(), key=lambda item: (-item[1], item[0].cause.name, item[0].target)
        )

    def after(self, probe: str, target: str, outcome: str) -> Belief:
        """The belief after a probe at a target had this outcome."""
        return normalise(
            {
                suspect: weight * likelihood(suspect, probe, target, outcome)
                for suspect, weight in self.weights.items()
            }
        )

    def weigh_word(self, target: str, word: str) -> Belief:
        """The belief after the findings named this trouble at a target.

        What is wrong with another target may have a cause of its own.
        """
        return normalise(
            {
                suspect: weight
                * max(
                    likelihood(suspect, WORDS, target, word),
                    0.0 if suspect.target == target else OF_ANOTHER,
                )
                for suspect, weight in self.weights.items()
            }
        )

    def favour_reason(
        self, probe: str, target: str, outcome: str, *, printed: bool = False
    ) -> Belief:
        """The belief where a log names a reason: that outweighs what a cause is known to break.

        With `printed`, it is the output of an action that failed.
        """
        if probe != "log" or outcome not in (PRINTED_REASONS if printed else STRONG_REASONS):
            return self
        enough = SOMETIMES if printed else OFTEN
        return normalise(
            {
                suspect: weight * NAMED_BY_LOG
                if likelihood(suspect, probe, target, outcome) >= enough
                else weight
                for suspect, weight in self.weights.items()
            }
        )

    def without(self, tried: Iterable[tuple[str, str]], *, chance: float = TRIED) -> Belief:
        """The belief after the remedies of these (cause, target) pairs did not help."""
        known = set(tried)
        return normalise(
            {
                suspect: weight * (chance if (suspect.cause.name, suspect.target) in known else 1)
                for suspect, weight in self.weights.items()
            }
        )

    def gain(self, probe: str, target: str) -> float:
        """The expected information of a probe, in bits."""
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
        """The uncertainty, in bits."""
        return -sum(p * math.log2(p) for p in self.weights.values() if p > 0)


def predict_outcomes(cause: Cause, probe: str) -> Mapping[str, float]:
    """The outcomes of a probe under a cause; by default those of a healthy target."""
    return cause.predicts.get(probe) or HEALTHY[probe]


def likelihood(suspect: Suspect, probe: str, target: str, outcome: str) -> float:
    """The probability of an outcome of a probe at a target, given the suspect."""
    cause = suspect.cause
    if probe == WORDS:
        if probe not in cause.predicts and (cause.breaks or cause.shows):
            return KNOWS_BETTER_UNTOLD if outcome == "nothing" else KNOWS_BETTER
        # Words about a dependant may well be about the suspect.
        return chance(predict_outcomes(cause, probe), probe, outcome)
    if suspect.target == target:
        return chance(predict_outcomes(cause, probe), probe, outcome)
    suffers = SUFFERING.get(probe) if target in suspect.dependants else None
    return chance(suffers or HEALTHY[probe], probe, outcome)


def normalise(weights: Mapping[Suspect, float]) -> Belief:
    """A belief whose probabilities sum to one."""
    total = sum(weights.values()) or 1.0
    return Belief({suspect: weight / total for suspect, weight in weights.items()})


@dataclass(frozen=True, slots=True)
class Symptoms:
    """Broken invariants and readings by target, from the ticket and the last observation."""

    invariants: Mapping[str, frozenset[str]] = field(default_factory=dict)
    readings: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Place:
    """A possible place of a cause: the broken targets that depend on it, and its dependencies."""

    target: Target
    broken: bool
    within: tuple[str, ...]
    without: tuple[str, ...]
    needs: frozenset[str]

    def admits(self, cause: Cause, symptoms: Symptoms) -> bool:
        """Whether the cause is possible here."""
        if cause.kinds and self.target.kind not in cause.kinds:
            return False
        if cause.name in NEEDS_OTHERS and not self.needs:
            return False
        if cause.name in VAGUE and not self.broken:
            return False
        if self.within:
            return True
        # A mere dependant is suspected only of causes whose predictions the observation shows.
        near = [symptoms.invariants.get(name) for name in self.without if name in self.needs]
        readings = symptoms.readings.get(self.target.name, {})
        return shows_all(cause, readings) and any(_explains_all(cause, each) for each in near)


def first_belief(
    violated: Sequence[str],
    targets: Sequence[Target],
    causes: Sequence[Cause],
    symptoms: Symptoms | None = None,
) -> Belief:
    """The belief before any probe: causes at the broken targets and at their dependencies.

    A dependant of a broken target is a suspect too, if it shows what would break that target.
    """
    shown = symptoms or Symptoms()
    broken = sorted(set(violated))
    needs = {target.name: dependencies_of(target.name, targets) for target in targets}
    known = {target.name: target for target in targets}
    strangers = {name: Target(name, "") for name in broken if name not in known}
    weights: dict[Suspect, float] = {}
    ended = [cause for cause in causes if cause.name == DEAD]
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
                weight = _weigh(cause, place, readings, shown.invariants)
                plain = not (cause.breaks or cause.shows)
                for each in ended if plain and cause.name in ENDING else ():
                    if place.admits(each, shown):
                        like = replace(cause, breaks=each.breaks, shows=each.shows)
                        weight = max(weight, _weigh(like, place, readings, shown.invariants))
                weights[Suspect(cause, name, dependants)] = weight
    weights[Suspect(UNEXPLAINED, next(iter(violated), ""))] = UNEXPLAINED.prior
    return normalise(weights)


def _weigh(
    cause: Cause,
    place: _Place,
    readings: Mapping[str, Value],
    invariants: Mapping[str, frozenset[str]],
) -> float:
    """The weight of a cause at a place, before any probe."""
    weight = cause.prior
    if not place.broken:
        weight *= ELSEWHERE_SHOWN if shows_all(cause, readings) else ELSEWHERE
    # Every explained target adds weight. Unexplained ones count once, because the dependants of
    # one target all show the same symptom.
    doubt = 1.0
    for broken in (invariants.get(name) for name in place.within):
        if not broken or not cause.breaks:
            continue
        explained = sum(name in cause.breaks for name in broken)
        fit = NAMED**explained * NOT_NAMED ** (len(broken) - explained) if explained else NONE_NAMED
        doubt = min(doubt, fit)
        weight *= max(fit, 1.0)
    # A broken target that does not depend on the place may still point to it, as a primary reports
    # that its replica is down.
    for name in place.without:
        broken = invariants.get(name)
        near = name in place.needs and _explains_all(cause, broken)
        weight *= NAMED ** len(broken or ()) if near else NOT_EXPLAINED
    # A contradiction is not compensated by matching readings. What could not be read is none.
    known = [
        readings[name] == value
        for name, value in cause.shows.items()
        if readings.get(name) is not None
    ]
    wrong = known.count(False)
    weight *= NOT_SHOWN**wrong if wrong else SHOWN ** len(known)
    # A target that has just answered is hardly unreachable. Some servers close connections that do
    # not speak their protocol: they are reachable as well.
    port = cause.predicts.get("port", {})
    mute = bool(port) and port.get("answers", 0.0) < HARDLY and port.get("closed", 0.0) < OFTEN
    return doubt * weight * (REACHED if mute and readings.get("reachable") is True else 1.0)


def _explains_all(cause: Cause, invariants: frozenset[str] | None) -> bool:
    return bool(invariants) and set(invariants or ()) <= set(cause.breaks)


def shows_all(cause: Cause, readings: Mapping[str, Value]) -> bool:
    """Whether the readings show everything that the cause predicts, and it predicts something."""
    return bool(cause.shows) and all(
        name in readings and readings[name] == value for name, value in cause.shows.items()
    )
