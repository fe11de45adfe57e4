"""What is known of a ticket so far, read from the steps of its run. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from operator_protocols.domain.action import SHELL, Action, Outcome, Result
from operator_protocols.domain.cause import Cause
from operator_protocols.domain.run import Act, Ask, Briefing, Diagnose, Prove, Step
from operator_protocols.domain.target import Target, dependencies_of
from operator_sre.models.reasoner.belief import Belief, Symptoms, first_belief
from operator_sre.models.reasoner.causes import GENERIC
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
    """The state of knowledge: readings that are still fresh, what was tried, what is believed."""

    briefing: Briefing
    readings: tuple[Reading, ...]
    tried: tuple[Act, ...]
    belief: Belief
    last: Step | None

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
        broken = {violation.target for violation in self.briefing.ticket.violations}
        needs = {need for name in broken for need in dependencies_of(name, self.briefing.targets)}
        return [target for target in self.briefing.targets if target.name in broken | needs]


def case_from(ask: Ask) -> Case:
    """Everything a run has shown so far, weighed."""
    changing = {spec.name for spec in ask.briefing.tools if spec.changes}
    changes = [
        index
        for index, step in enumerate(ask.steps)
        if isinstance(step.want, Act) and step.want.action.tool in changing
    ]
    # A change makes older readings worthless: they tell of a world that is gone.
    fresh = ask.steps[changes[-1] + 1 :] if changes else ask.steps
    readings = tuple(reading for step in fresh if (reading := _reading(step)) is not None)
    tried = tuple(
        step.want
        for step in (ask.steps[index] for index in changes)
        if isinstance(step.want, Act) and not _lost(step)
    )
    violated = [violation.target for violation in ask.briefing.ticket.violations]
    first = first_belief(
        violated, ask.briefing.targets, _causes(ask.briefing), _symptoms(ask.briefing)
    )
    belief = first.without(_blamed(ask.steps))
    for reading in readings:
        belief = belief.after(reading.probe, reading.target, reading.outcome)
    return Case(
        briefing=ask.briefing,
        readings=readings,
        tried=tried,
        belief=belief,
        last=ask.steps[-1] if ask.steps else None,
    )


def _causes(briefing: Briefing) -> Sequence[Cause]:
    """Those of every subject, unless it knows better, and its own."""
    own = {cause.name for cause in briefing.causes}
    return (*(cause for cause in GENERIC if cause.name not in own), *briefing.causes)


def _symptoms(briefing: Briefing) -> Symptoms:
    broken: dict[str, set[str]] = {}
    for violation in briefing.ticket.violations:
        broken.setdefault(violation.target, set()).add(violation.invariant)
    return Symptoms(
        {target: frozenset(names) for target, names in broken.items()},
        {seen.target: seen.readings for seen in briefing.observation.seen},
    )


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
