"""Preconditions: what a fresh observation has to show just before an action. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from operator_protocols.domain.observation import Observation, Seen, Value
from operator_protocols.domain.target import Target

__all__ = ["Precondition", "Scope", "Unmet", "find_unmet"]


class Scope(StrEnum):
    """Whose reading has to have the required value. Peers are the other targets of its kind."""

    TARGET = "target"
    PEERS = "peers"  # every one of them
    ANY_PEER = "any_peer"  # at least one


@dataclass(frozen=True, slots=True)
class Precondition:
    """A named check of one reading and its required answer; without an answer it is not met.

    A tool declares it in `requires`. One of `equals`, `at_least` and `at_most` is the required
    answer. `kinds` limits it to targets of these kinds. Where the answer may still change by
    itself, as while another server takes over, it is awaited for `within_s`. With
    `on_this_machine` it is only about targets whose data directory is on this machine, where
    silence is a failure; elsewhere nothing could answer. `next_step` says what a person does when
    it is not met; `{target}` stands for the target of the action.
    """

    name: str
    sentence: str
    reading: str
    equals: Value = None
    at_least: float | None = None
    at_most: float | None = None
    of: Scope = Scope.TARGET
    kinds: tuple[str, ...] = ()
    within_s: float = 0.0
    on_this_machine: bool = False
    next_step: str = ""

    def answer(self, value: Value) -> bool | None:
        """Whether this value is the required one; None where it does not tell."""
        if value is None:
            return None
        if self.equals is not None:
            return value == self.equals and isinstance(value, bool) == isinstance(self.equals, bool)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        low = self.at_least is None or value >= self.at_least
        return low and (self.at_most is None or value <= self.at_most)


@dataclass(frozen=True, slots=True)
class Unmet:
    """A precondition that does not hold, or of which nothing is `known`, and what was seen."""

    precondition: Precondition
    target: str
    known: bool
    seen: str

    @property
    def sentence(self) -> str:
        """What is not met, and the next step of a person."""
        how = "not met" if self.known else "no answer"
        step = self.precondition.next_step.replace("{target}", self.target)
        problem = f"{self.precondition.sentence.rstrip('.')} ({how}: {self.seen})."
        return f"{problem} {step}".strip()


def find_unmet(
    requires: Iterable[Precondition],
    target: str,
    targets: Sequence[Target],
    observation: Observation,
) -> tuple[Unmet, ...]:
    """The preconditions of an action at a target that this observation does not show to hold."""
    place = next((each for each in targets if each.name == target), None)
    kind = place.kind if place is not None else ""
    here = place is not None and bool(place.data_dir) and not place.runs_at
    peers = [each.name for each in targets if each.kind == kind and each.name != target]
    unmet = []
    for required in requires:
        if required.kinds and kind not in required.kinds:
            continue
        if required.on_this_machine and not here:
            continue
        names = [target] if required.of is Scope.TARGET else peers
        seen = [observation.of(name) for name in names]
        answers = [required.answer(each.readings.get(required.reading)) for each in seen]
        if required.of is Scope.ANY_PEER:
            met = True if True in answers else (None if None in answers else False)
        else:
            met = False if False in answers else (None if None in answers else True)
        if met is not True:
            shown = [each for each, answer in zip(seen, answers, strict=True) if answer is not True]
            unmet.append(Unmet(required, target, met is False, _describe(required, shown)))
    return tuple(unmet)


def _describe(required: Precondition, seen: Sequence[Seen]) -> str:
    shown = []
    for each in seen:
        value = each.readings.get(required.reading)
        known = "unknown" if value is None else repr(value)
        shown.append(f"{required.reading} of {each.target} is {known}")
    return ", ".join(shown) or "there is no other target of its kind"
