"""Writing the Diagnosis: every sentence of it points at something that was seen. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from operator_protocols.domain.action import Argument
from operator_protocols.domain.cause import Remedy
from operator_protocols.domain.diagnosis import (
    Alternative,
    Diagnosis,
    Evidence,
    Hypothesis,
    Option,
)
from operator_protocols.domain.observation import Value, Violation
from operator_protocols.domain.run import Briefing
from operator_protocols.domain.target import dependencies_of
from operator_protocols.domain.tool import ToolSpec
from operator_protocols.domain.verdict import Risk
from operator_sre.models.reasoner.belief import SURE, Suspect, likelihood
from operator_sre.models.reasoner.case import Case, Reading
from operator_sre.models.reasoner.causes import PATIENCE, UNEXPLAINED

__all__ = ["SCRIPT", "arguments_of", "choose", "diagnose", "remedies_for"]

ALTERNATIVES_MAX = 3
_BLANK = re.compile(r"\{(\w+)\}")
SCRIPT = "execute_script"
POSSIBLE = 0.1  # what is at least so probable is named where nothing is sure
TELLING = 2.0  # how many times likelier under one cause than the other counts as evidence


def diagnose(case: Case, remedy: Remedy | None) -> Diagnosis:
    """The structured diagnosis of the leading suspect, and the choice of remedy."""
    ranked = case.belief.ranked()
    leader, confidence = ranked[0]
    ticket = case.briefing.ticket
    rivals = [suspect for suspect, _ in ranked[1:] if suspect.cause is not UNEXPLAINED]
    return Diagnosis(
        cause=leader.cause.name,
        target=leader.target,
        summary=_summary(case),
        severity=ticket.severity,
        confidence=round(confidence, 4),
        timeline=_timeline(case),
        affected=tuple(dict.fromkeys(violation.target for violation in ticket.violations)),
        evidence=_evidence(case),
        hypotheses=tuple(
            Hypothesis(suspect.cause.name, suspect.target, round(weight, 4))
            for suspect, weight in ranked[:6]
        ),
        alternatives=tuple(
            _alternative(case, suspect, leader) for suspect in rivals[:ALTERNATIVES_MAX]
        ),
        options=_options(case, leader),
        choice=_named(remedy, leader.target) if remedy else "escalate",
        why=_why(case, remedy),
    )


def choose(case: Case) -> Remedy | None:
    """The remedy of least risk that ends what is the matter, whichever suspect it is.

    Several causes at one target may have a remedy in common: they need not be told apart then.
    """
    ranked = case.belief.ranked()
    leader = ranked[0][0]
    rivals = [one for one in ranked if one[0].target == leader.target]
    ends = [(weight, {one.tool for one in remedies_for(case, each)}) for each, weight in rivals]
    for remedy in remedies_for(case, leader):
        if sum(weight for weight, tools in ends if remedy.tool in tools) >= SURE:
            return remedy
    return None


def remedies_for(case: Case, suspect: Suspect) -> list[Remedy]:
    """What could end it here: tools that exist and were not tried, least risk first."""
    if suspect.cause is UNEXPLAINED:
        return []
    # What failed for one cause was not done, and may be right for another.
    other = [act for cause, act in case.failed if cause != suspect.cause.name]
    tried = {(act.action.tool, act.action.target) for act in case.tried if act not in other}
    if (suspect.cause.name, suspect.target) in case.patient:
        tried.add((PATIENCE, suspect.target))
    own = {remedy.tool for remedy in suspect.cause.remedies}
    offered = [
        _offer(spec)
        for spec in case.briefing.tools
        if suspect.cause.name in spec.ends and spec.name not in own
    ]
    specs = {spec.name: spec for spec in case.briefing.tools}
    left = [
        _priced(remedy, specs.get(remedy.tool))
        for remedy in (*suspect.cause.remedies, *offered)
        if (remedy.tool, suspect.target) not in tried
        and arguments_of(remedy, case.briefing, suspect.target) is not None
    ]
    return sorted(left, key=lambda remedy: (remedy.risk.rank, not remedy.reversible))


def arguments_of(remedy: Remedy, briefing: Briefing, target: str) -> dict[str, Argument] | None:
    """What its tool is called with at a target; None without the tool or the reading."""
    if remedy.tool == PATIENCE:
        return {}
    spec = next((one for one in briefing.tools if one.name == remedy.tool), None)
    if spec is None:
        return None
    readings = {**briefing.observation.of(target).readings, "target": target}
    here = spec.parameter("target") is not None
    found: dict[str, Argument] = {"target": target} if here else {}
    for name, value in remedy.arguments.items():
        try:
            found[name] = _filled(value, readings)
        except KeyError:
            return None
    return found


def _filled(value: Argument, readings: Mapping[str, Value]) -> Argument:
    """A whole text `{name}` is the reading of that name; KeyError where there is none."""
    if isinstance(value, Mapping):
        return {name: str(_filled(each, readings)) for name, each in value.items()}
    blank = _BLANK.fullmatch(value) if isinstance(value, str) else None
    if blank is None:
        return value
    if (reading := readings.get(blank[1])) is None:
        raise KeyError(blank[1])
    return reading


def _offer(spec: ToolSpec) -> Remedy:
    """What a tool itself says that it ends."""
    trade_off = spec.expected or "nothing is known of what it costs"
    return Remedy(spec.name, _plain(spec.sentence), trade_off, spec.risk, spec.reversible)


def _priced(remedy: Remedy, spec: ToolSpec | None) -> Remedy:
    """What a tool says of its own risk counts; a script is undone by whoever knows what it did."""
    if spec is None:
        return remedy
    undone = spec.reversible or (remedy.reversible and spec.name == SCRIPT)
    return replace(remedy, risk=spec.risk, reversible=undone)


def _plain(sentence: str) -> str:
    sentence = sentence.partition(": it runs `")[0]
    return f"{sentence[:1].lower()}{sentence[1:].rstrip('.')}"


def _timeline(case: Case) -> tuple[Evidence, ...]:
    violations: Sequence[Violation] = case.briefing.ticket.violations
    return tuple(
        Evidence(
            f"{violation.since:%H:%M:%S} UTC {violation.target}: {violation.invariant} broke"
            f" ({violation.detail})",
            case.briefing.observation_seq,
        )
        for violation in sorted(violations, key=lambda violation: violation.since)
    )


def _evidence(case: Case) -> tuple[Evidence, ...]:
    seen = tuple(
        Evidence(f"{violation.target}: {violation.detail}", case.briefing.observation_seq)
        for violation in case.briefing.ticket.violations
    )
    asked = tuple(
        Evidence(f"{reading.target}: {reading.sentence}", reading.seq) for reading in case.readings
    )
    return (*seen, *asked)


def _alternative(case: Case, suspect: Suspect, leader: Suspect) -> Alternative:
    supporting, against = [], []
    for reading in case.readings:
        ratio = _chance(suspect, reading) / max(_chance(leader, reading), 1e-9)
        if ratio >= TELLING:
            supporting.append(f"{reading.target}: {reading.sentence}")
        elif ratio <= 1 / TELLING:
            against.append(f"{reading.target}: {reading.sentence}")
    if not against:
        why = "nothing speaks against it but that the other explains more"
    elif suspect.target == leader.target:
        why = f"that {suspect.cause.sentence} does not fit what was seen: {against[0]}"
    else:
        why = f"it would not show this: {against[0]}"
    return Alternative(
        cause=suspect.cause.name,
        target=suspect.target,
        supporting=tuple(supporting),
        against=tuple(against),
        why_rejected=why,
    )


def _chance(suspect: Suspect, reading: Reading) -> float:
    return likelihood(suspect, reading.probe, reading.target, reading.outcome)


def _options(case: Case, leader: Suspect) -> tuple[Option, ...]:
    found = [
        Option(_named(remedy, leader.target), remedy.risk, remedy.reversible, remedy.trade_off)
        for remedy in remedies_for(case, leader)
    ]
    leave = "leave it and tell a person"
    return (*found, Option(leave, Risk.LOW, True, "it stays broken until they come"))


def _named(remedy: Remedy, target: str) -> str:
    return f"{remedy.tool}({target})"


def _summary(case: Case) -> str:
    ranked = case.belief.ranked()
    leader, chance = ranked[0]
    dependants = _dependants(case, leader.target)
    because = f", and {_join(dependants)} depend on it" if dependants else ""
    sentence = leader.cause.sentence
    if leader.cause is UNEXPLAINED:
        return f"{leader.target} is broken, and {sentence}."
    if chance >= SURE:
        return f"{leader.target} is broken because {sentence}{because}."
    others = [
        f"at {suspect.target} {suspect.cause.sentence} ({weight:.0%})"
        for suspect, weight in ranked[1:]
        if weight >= POSSIBLE and suspect.cause is not UNEXPLAINED
    ]
    rest = f"; or {' or '.join(others[:ALTERNATIVES_MAX])}" if others else ""
    return f"{leader.target} is broken most likely because {sentence} ({chance:.0%}){rest}."


def _why(case: Case, remedy: Remedy | None) -> str:
    leader, chance = case.belief.ranked()[0]
    if remedy is None and chance < SURE and leader.cause is not UNEXPLAINED:
        return "Nothing that can be asked here tells them apart surely, so a person has to decide."
    if remedy is None:
        return "No remedy known here removes this cause, so a person has to decide."
    if remedy.tool == PATIENCE:
        return f"To {remedy.sentence} is all that it needs: {remedy.trade_off}."
    undo = "it can be undone" if remedy.reversible else "it cannot be undone"
    either = "" if chance >= SURE else ", whichever of the likely ones it is,"
    return (
        f"To {remedy.sentence} removes the cause{either} at the least risk ({remedy.risk}): {undo},"
        f" and {remedy.trade_off}."
    )


def _dependants(case: Case, target: str) -> list[str]:
    return [
        one.name
        for one in case.briefing.targets
        if target in dependencies_of(one.name, case.briefing.targets)
    ]


def _join(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
