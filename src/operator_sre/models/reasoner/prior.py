"""What is believed before any question: from what is broken, where, and what a look shows. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from operator_protocols.domain.cause import Cause
from operator_protocols.domain.observation import Value
from operator_protocols.domain.target import Target, dependencies_of
from operator_sre.models.reasoner.belief import Belief, Suspect, normalised
from operator_sre.models.reasoner.causes import NEEDS_OTHERS, UNEXPLAINED, VAGUE

__all__ = ["Symptoms", "first_belief"]

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
    dependants: frozenset[str]

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
        return _shown(cause, readings) and any(_names(cause, each) for each in near)


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
    weights: dict[Suspect, float] = {}
    for place in _places(sorted(set(violated)), targets):
        readings = shown.readings.get(place.target.name, {})
        for cause in causes:
            if place.admits(cause, shown):
                weight = _weight(cause, place, readings, shown.invariants)
                suspect = Suspect(cause, place.target.name, place.dependants)
                weights[suspect] = weight
    root = next((name for name in violated), "")
    weights[Suspect(UNEXPLAINED, root)] = UNEXPLAINED.prior
    return normalised(weights)


def _places(broken: Sequence[str], targets: Sequence[Target]) -> Iterator[_Place]:
    every = {target.name: dependencies_of(target.name, targets) for target in targets}
    known = {target.name: target for target in targets}
    strangers = {name: Target(name, "") for name in broken if name not in known}
    for name, target in sorted({**known, **strangers}.items()):
        own = every.get(name, frozenset())
        dependants = frozenset(each for each, needs in every.items() if name in needs)
        within = tuple(each for each in broken if each == name or each in dependants)
        without = tuple(each for each in broken if each not in within)
        if within or own & set(broken):
            yield _Place(target, name in broken, within, without, own, dependants)


def _weight(
    cause: Cause,
    place: _Place,
    readings: Mapping[str, Value],
    invariants: Mapping[str, frozenset[str]],
) -> float:
    own = 1.0
    if not place.broken:
        own = ELSEWHERE_SHOWN if _shown(cause, readings) else ELSEWHERE
    fit = _together(_fit(cause, invariants.get(name)) for name in place.within)
    outside = math.prod(
        _spread(cause, invariants.get(name), near=name in place.needs) for name in place.without
    )
    return cause.prior * fit * outside * own * _seen(cause, readings) * _reached(cause, readings)


def _fit(cause: Cause, invariants: frozenset[str] | None) -> float:
    """How well a cause explains what is broken at one target that it can reach."""
    if not invariants or not cause.breaks:
        return 1.0
    explained = sum(name in cause.breaks for name in invariants)
    if not explained:
        return NONE_NAMED
    return NAMED**explained * NOT_NAMED ** (len(invariants) - explained)


def _together(fits: Iterable[float]) -> float:
    """What several targets say of a cause: each that it explains speaks for it, doubt counts once.

    Those that depend on the same part all show the same thing, so it is one surprise, not many.
    """
    known = list(fits)
    doubt = min((fit for fit in known if fit < 1.0), default=1.0)
    return doubt * math.prod(fit for fit in known if fit >= 1.0)


def _spread(cause: Cause, invariants: frozenset[str] | None, *, near: bool) -> float:
    """How well it explains what is broken at a target that does not depend on the blamed one.

    What the blamed one needs may show it too, as a primary shows that its replica is away.
    """
    if not (near and _names(cause, invariants)):
        return NOT_EXPLAINED
    return NAMED ** len(invariants or ())


def _names(cause: Cause, invariants: frozenset[str] | None) -> bool:
    return bool(invariants) and set(invariants or ()) <= set(cause.breaks)


def _shown(cause: Cause, readings: Mapping[str, Value]) -> bool:
    """Whether a look shows all that a cause says that it shows, and it says something."""
    return bool(cause.shows) and all(
        name in readings and readings[name] == value for name, value in cause.shows.items()
    )


def _seen(cause: Cause, readings: Mapping[str, Value]) -> float:
    """How well a look fits; what it contradicts is not made up for by what it happens to share."""
    known = [readings[name] == value for name, value in cause.shows.items() if name in readings]
    wrong = known.count(False)
    return NOT_SHOWN**wrong if wrong else SHOWN ** len(known)


def _reached(cause: Cause, readings: Mapping[str, Value]) -> float:
    """Who answered the look a moment ago is hardly one that answers nobody."""
    port = cause.predicts.get("port", {})
    # Some close the door on whoever does not speak their language: they are there as well.
    mute = bool(port) and port.get("answers", 0.0) < HARDLY and port.get("closed", 0.0) < OFTEN
    return REACHED if mute and readings.get("reachable") is True else 1.0
