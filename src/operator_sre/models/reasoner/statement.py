"""What a subject states itself is not diluted by causes that nothing observed supports. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from operator_protocols.domain.cause import Cause
from operator_protocols.domain.run import Briefing
from operator_sre.models.reasoner.belief import (
    Belief,
    Suspect,
    Symptoms,
    likelihood,
    normalise,
    predict_outcomes,
    shows_all,
)
from operator_sre.models.reasoner.causes import GENERIC, UNEXPLAINED
from operator_sre.models.reasoner.outcomes import HEALTHY, WORDS
from operator_sre.models.reasoner.probes import PROBES

__all__ = ["STATED", "find_visible", "keep_supported", "states"]

# A subject that states a cause which explains its finding is hardly ever wrong.
STATED = 10.0
# A reading supports a cause that shows it this often, if a healthy target hardly does.
OFTEN, HARDLY = 0.5, 0.05
_GENERIC = frozenset(cause.name for cause in GENERIC)


class Reading(Protocol):
    """The outcome of a probe at a target."""

    @property
    def probe(self) -> str: ...
    @property
    def target(self) -> str: ...
    @property
    def outcome(self) -> str: ...


def states(cause: Cause) -> bool:
    """Whether a reading has the name of the cause: the subject has then found the cause itself."""
    return cause.name in cause.shows.values()


def find_visible(briefing: Briefing) -> frozenset[str]:
    """The targets of which this machine sees a process, a port, a log or files."""
    return frozenset(
        target.name
        for target in briefing.targets
        if any(probe.ask(target) is not None for probe in PROBES)
    )


def keep_supported(
    belief: Belief,
    briefing: Briefing,
    *,
    symptoms: Symptoms,
    words: Iterable[tuple[str, str]],
    readings: Sequence[Reading],
) -> Belief:
    """The belief without causes that nothing observed supports.

    Where the subject states a cause, no other cause counts at that target and at what depends on
    it, unless a probe shows it. Causes of processes count only at targets that this machine sees,
    unless the finding names them.
    """
    if not briefing.causes:
        return belief
    spoken = frozenset(word for word, _ in words)
    stated = {
        suspect
        for suspect in belief.weights
        if states(suspect.cause)
        and shows_all(suspect.cause, symptoms.readings.get(suspect.target, {}))
        and _explains_any(suspect, symptoms.invariants)
    }
    covered = {name for each in stated for name in (each.target, *each.dependants)}
    unseen = {target.name for target in briefing.targets} - find_visible(briefing)
    kept: dict[Suspect, float] = {}
    for suspect, weight in belief.weights.items():
        cause, target = suspect.cause, suspect.target
        if suspect in stated:
            kept[suspect] = weight * STATED
        elif cause is UNEXPLAINED or _is_shown(suspect, readings):
            kept[suspect] = weight
        elif target in covered:
            continue
        elif target in unseen and cause.name in _GENERIC and not (cause.breaks or cause.shows):
            if any(predict_outcomes(cause, WORDS).get(word, 0.0) >= OFTEN for word in spoken):
                kept[suspect] = weight
        else:
            kept[suspect] = weight
    return normalise(kept)


def _explains_any(suspect: Suspect, invariants: Mapping[str, frozenset[str]]) -> bool:
    """Whether it breaks something that is broken at its target or at what depends on it."""
    near = (suspect.target, *suspect.dependants)
    return any(invariants.get(name, frozenset()) & set(suspect.cause.breaks) for name in near)


def _is_shown(suspect: Suspect, readings: Iterable[Reading]) -> bool:
    """Whether a probe found at its target what it causes and what is rare otherwise."""
    return any(
        reading.target == suspect.target
        and HEALTHY[reading.probe].get(reading.outcome, HARDLY) <= HARDLY
        and likelihood(suspect, reading.probe, reading.target, reading.outcome) >= OFTEN
        for reading in readings
    )
