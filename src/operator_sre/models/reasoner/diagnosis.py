"""Writing the Diagnosis: every sentence of it points at something that was seen. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
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
from operator_protocols.domain.observation import Value
from operator_protocols.domain.run import Briefing
from operator_protocols.domain.target import dependencies_of
from operator_protocols.domain.verdict import Risk
from operator_sre.models.reasoner.belief import SURE, Suspect, likelihood
from operator_sre.models.reasoner.case import Case
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
    ticket, seq = case.briefing.ticket, case.briefing.observation_seq
    rivals = [suspect for suspect, _ in ranked[1:] if suspect.cause is not UNEXPLAINED]
    broken = sorted(ticket.violations, key=lambda violation: violation.since)
    options = [
        Option(f"{one.tool}({leader.target})", one.risk, one.reversible, one.trade_off)
        for one in remedies_for(case, leader)
    ]
    leave = Option("leave it and tell a person", Risk.LOW, True, "it stays broken until they come")
    return Diagnosis(
        cause=leader.cause.name,
        target=leader.target,
        summary=_summarise(case),
        severity=ticket.severity,
        confidence=round(confidence, 4),
        timeline=tuple(
            Evidence(
                f"{one.since:%H:%M:%S} UTC {one.target}: {one.invariant} broke ({one.detail})", seq
            )
            for one in broken
        ),
        affected=tuple(dict.fromkeys(violation.target for violation in ticket.violations)),
        evidence=(
            *(Evidence(f"{one.target}: {one.detail}", seq) for one in ticket.violations),
            *(Evidence(f"{one.target}: {one.sentence}", one.seq) for one in case.readings),
        ),
        hypotheses=tuple(
            Hypothesis(suspect.cause.name, suspect.target, round(weight, 4))
            for suspect, weight in ranked[:6]
        ),
        alternatives=tuple(
            _compare(case, suspect, leader) for suspect in rivals[:ALTERNATIVES_MAX]
        ),
        options=(*options, leave),
        choice=f"{remedy.tool}({leader.target})" if remedy else "escalate",
        why=_explain_choice(leader, confidence, remedy),
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
    specs = {spec.name: spec for spec in case.briefing.tools}
    remedies = {remedy.tool: remedy for remedy in suspect.cause.remedies}
    for spec in case.briefing.tools:
        if suspect.cause.name in spec.ends and spec.name not in remedies:
            # What a tool itself says that it ends.
            sentence = spec.sentence.partition(": it runs `")[0]
            sentence = f"{sentence[:1].lower()}{sentence[1:].rstrip('.')}"
            trade_off = spec.expected or "nothing is known of what it costs"
            remedies[spec.name] = Remedy(spec.name, sentence, trade_off, spec.risk, spec.reversible)
    left = []
    for remedy in remedies.values():
        if (remedy.tool, suspect.target) in tried:
            continue
        if arguments_of(remedy, case.briefing, suspect.target) is None:
            continue
        if (known := specs.get(remedy.tool)) is not None:
            # What a tool says of its own risk counts; a script is undone by whoever knows what it
            # did.
            undone = known.reversible or (remedy.reversible and known.name == SCRIPT)
            remedy = replace(remedy, risk=known.risk, reversible=undone)
        left.append(remedy)
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
            found[name] = _fill_blanks(value, readings)
        except KeyError:
            return None
    return found


def _fill_blanks(value: Argument, readings: Mapping[str, Value]) -> Argument:
    """A whole text `{name}` is the reading of that name; KeyError where there is none."""
    if isinstance(value, Mapping):
        return {name: str(_fill_blanks(each, readings)) for name, each in value.items()}
    blank = _BLANK.fullmatch(value) if isinstance(value, str) else None
    if blank is None:
        return value
    if (reading := readings.get(blank[1])) is None:
        raise KeyError(blank[1])
    return reading


def _compare(case: Case, suspect: Suspect, leader: Suspect) -> Alternative:
    """What speaks for a suspect and against it, and why the leader explains more."""
    supporting, against = [], []
    for one in case.readings:
        chances = [
            likelihood(each, one.probe, one.target, one.outcome) for each in (suspect, leader)
        ]
        ratio = chances[0] / max(chances[1], 1e-9)
        if ratio >= TELLING:
            supporting.append(f"{one.target}: {one.sentence}")
        elif ratio <= 1 / TELLING:
            against.append(f"{one.target}: {one.sentence}")
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


def _summarise(case: Case) -> str:
    ranked = case.belief.ranked()
    leader, chance = ranked[0]
    sentence = leader.cause.sentence
    if leader.cause is UNEXPLAINED:
        return f"{leader.target} is broken, and {sentence}."
    if chance >= SURE:
        targets = case.briefing.targets
        names = [one.name for one in targets if leader.target in dependencies_of(one.name, targets)]
        joined = f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else "".join(names)
        because = f", and {joined} depend on it" if names else ""
        return f"{leader.target} is broken because {sentence}{because}."
    others = [
        f"at {suspect.target} {suspect.cause.sentence} ({weight:.0%})"
        for suspect, weight in ranked[1:]
        if weight >= POSSIBLE and suspect.cause is not UNEXPLAINED
    ]
    rest = f"; or {' or '.join(others[:ALTERNATIVES_MAX])}" if others else ""
    return f"{leader.target} is broken most likely because {sentence} ({chance:.0%}){rest}."


def _explain_choice(leader: Suspect, chance: float, remedy: Remedy | None) -> str:
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
