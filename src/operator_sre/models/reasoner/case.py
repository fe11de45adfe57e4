"""What is known of a ticket so far, read from the steps of its run. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from operator_protocols.domain.action import SHELL, Action, Outcome, Result
from operator_protocols.domain.cause import Cause
from operator_protocols.domain.observation import Seen, Violation, key_of
from operator_protocols.domain.run import Act, Ask, Briefing, Diagnose, Prove, Step
from operator_protocols.domain.target import Target
from operator_sre.models.reasoner.belief import Belief
from operator_sre.models.reasoner.causes import GENERIC, VAGUE
from operator_sre.models.reasoner.outcomes import WORDS, meaning
from operator_sre.models.reasoner.prior import Symptoms, first_belief
from operator_sre.models.reasoner.probes import PROBES, Probe

__all__ = ["Case", "Reading", "case_from"]


@dataclass(frozen=True, slots=True)
class Reading:
    """What one probe showed at one target."""

    probe: str
    target: str
    outcome: str
    sentence: str
    seq: int | None


@dataclass(frozen=True, slots=True)
class Case:
    """The state of knowledge: readings that are still fresh, what was tried, what is believed.

    `before` is what was believed before the last reading. `patient` are those that were given time
    in vain. `failed` are deeds that were begun and not done, each with the cause it was to end.
    """

    briefing: Briefing
    readings: tuple[Reading, ...]
    tried: tuple[Act, ...]
    belief: Belief
    last: Step | None
    before: Belief | None = None
    patient: frozenset[tuple[str, str]] = frozenset()
    failed: tuple[tuple[str, Act], ...] = ()

    @property
    def open_questions(self) -> list[tuple[Probe, Target, Action]]:
        """Every probe that can be asked and has not been since the last change."""
        asked = {(reading.probe, reading.target) for reading in self.readings}
        given = {SHELL, *(spec.name for spec in self.briefing.tools)}
        return [
            (probe, target, action)
            for target in self._places()
            for probe in PROBES
            if (probe.name, target.name) not in asked
            and (action := probe.ask(target)) is not None
            and action.tool in given
        ]

    def _places(self) -> list[Target]:
        suspected = {suspect.target for suspect in self.belief.weights}
        return [target for target in self.briefing.targets if target.name in suspected]


def case_from(ask: Ask) -> Case:
    """Everything a run has shown so far, weighed."""
    changing = {spec.name for spec in ask.briefing.tools if spec.changes}
    changes = [
        index
        for index, step in enumerate(ask.steps)
        if isinstance(step.want, Act) and step.want.action.tool in changing
    ]
    # A change makes older readings worthless: they tell of a world that is gone.
    over = [*changes, *(at for at, step in enumerate(ask.steps) if isinstance(step.want, Prove))]
    fresh = ask.steps[max(over) + 1 :] if over else ask.steps
    readings = tuple(reading for step in fresh if (reading := _reading(step)) is not None)
    tried = tuple(
        step.want
        for step in (ask.steps[index] for index in changes)
        if isinstance(step.want, Act) and not _lost(step)
    )
    violated = [violation.target for violation in _still(ask.briefing)]
    first = first_belief(
        violated, ask.briefing.targets, _causes(ask.briefing), _symptoms(ask.briefing)
    )
    blamed = _blamed(ask.steps)
    belief = first.without(blamed)
    for word, target in (*_words(ask.briefing), *_complaints(ask.steps, changes)):
        belief = belief.after(WORDS, target, word)
    before = None
    for reading in readings:
        before, belief = belief, belief.after(reading.probe, reading.target, reading.outcome)
    return Case(
        briefing=ask.briefing,
        readings=readings,
        tried=tried,
        belief=belief,
        last=ask.steps[-1] if ask.steps else None,
        before=before,
        patient=frozenset(blamed),
        failed=_failed(ask.steps, changes),
    )


def _causes(briefing: Briefing) -> Sequence[Cause]:
    """Those of every subject, unless it knows better, and its own."""
    own = {cause.name for cause in briefing.causes}
    own |= VAGUE if own else frozenset()
    return (*(cause for cause in GENERIC if cause.name not in own), *briefing.causes)


def _still(briefing: Briefing) -> Sequence[Violation]:
    """What of the ticket is broken now: what holds again needs no cause any more."""
    every = briefing.ticket.violations
    return [violation for violation in every if violation.key in briefing.broken] or every


def _symptoms(briefing: Briefing) -> Symptoms:
    """All that is broken now where the ticket is: what has its grace yet tells as much."""
    subject = briefing.ticket.subject
    known = {invariant for cause in briefing.causes for invariant in cause.breaks}
    broken: dict[str, set[str]] = {}
    for violation in _still(briefing):
        broken.setdefault(violation.target, set()).add(violation.invariant)
    for target, names in broken.items():
        names |= {name for name in known if key_of(subject, target, name) in briefing.broken}
    return Symptoms(
        {target: frozenset(names) for target, names in broken.items()},
        {seen.target: seen.readings for seen in briefing.observation.seen},
    )


def _words(briefing: Briefing) -> list[tuple[str, str]]:
    """What the violations speak of, each trouble once: they are one thing that was seen."""
    said: dict[str, str] = {}
    for violation in _still(briefing):
        # What it says now counts: a ticket tells how it was when it broke.
        looks = [seen for seen in briefing.observation.seen if seen.target == violation.target]
        now = " ".join(_errors(seen) for seen in looks) or violation.detail
        text = f"{violation.invariant.replace('_', ' ')}: {now}"
        said.setdefault(meaning(text) or "nothing", violation.target)
    telling = {word: target for word, target in said.items() if word != "nothing"}
    return list((telling or said).items())


def _errors(seen: Seen) -> str:
    readings = [
        value
        for name, value in sorted(seen.readings.items())
        if name.endswith("error") and isinstance(value, str)
    ]
    return " ".join(text for text in (*readings, seen.problem) if text)


def _complaints(steps: Sequence[Step], changes: Sequence[int]) -> list[tuple[str, str]]:
    """What remedies that failed said about why."""
    found: dict[tuple[str, str], None] = {}
    for step in (steps[index] for index in changes):
        result, want = step.result, step.want
        if isinstance(want, Act) and isinstance(result, Result) and result.outcome is Outcome.RAN:
            word = "" if result.ok else meaning(f"{result.stderr}\n{result.stdout}")
            found |= {(word, want.action.target): None} if word else {}
    return list(found)


def _lost(step: Step) -> bool:
    """Nobody knows whether it was done, so after a fresh look it may be proposed again."""
    cut_off = {Outcome.CANCELLED, Outcome.UNKNOWN}
    return isinstance(step.result, Result) and step.result.outcome in cut_off


def _reading(step: Step) -> Reading | None:
    if not isinstance(step.want, Act) or not isinstance(step.result, Result):
        return None
    for probe in PROBES:
        if probe.mine(step.want.action):
            outcome, sentence = probe.read(step.result)
            return Reading(probe.name, step.want.action.target, outcome, sentence, step.seq)
    return None


def _blamed(steps: Sequence[Step]) -> list[tuple[str, str]]:
    """The causes whose remedy was done and whose proof then failed."""
    blamed: list[tuple[str, str]] = []
    suspect: tuple[str, str] | None = None
    for step in steps:
        if isinstance(step.want, Diagnose):
            suspect = (step.want.diagnosis.cause, step.want.diagnosis.target)
        elif isinstance(step.want, Prove) and suspect is not None:
            blamed.append(suspect)
    return blamed


def _failed(steps: Sequence[Step], changes: Sequence[int]) -> tuple[tuple[str, Act], ...]:
    """What was begun and not done, each with the cause that was blamed then."""
    found: list[tuple[str, Act]] = []
    cause = ""
    for at, step in enumerate(steps):
        want = step.want
        if isinstance(want, Diagnose):
            cause = want.diagnosis.cause
        elif at in changes and isinstance(want, Act) and _not_done(step.result):
            found.append((cause, want))
    return tuple(found)


def _not_done(result: object) -> bool:
    return isinstance(result, Result) and result.outcome is Outcome.RAN and not result.ok
