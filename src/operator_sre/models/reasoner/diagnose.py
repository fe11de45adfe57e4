"""Writing the Diagnosis: every sentence of it points at something that was seen. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from operator_protocols.domain.action import Argument
from operator_protocols.domain.cause import Remedy
from operator_protocols.domain.diagnosis import (
    Alternative,
    Diagnosis,
    Evidence,
    Hypothesis,
    Option,
)
from operator_protocols.domain.observation import Violation
from operator_protocols.domain.run import Briefing
from operator_protocols.domain.target import dependencies_of
from operator_protocols.domain.tool import ToolSpec
from operator_protocols.domain.verdict import Risk
from operator_sre.models.reasoner.belief import Suspect, expected
from operator_sre.models.reasoner.case import Case, Reading
from operator_sre.models.reasoner.causes import HEALTHY, UNEXPLAINED

__all__ = ["arguments_of", "diagnose", "remedies_for"]

ALTERNATIVES_MAX = 3
_BLANK = re.compile(r"\{(\w+)\}")
TELLING = 2.0  # how many times likelier under one cause than the other counts as evidence


def diagnose(case: Case, remedy: Remedy | None) -> Diagnosis:
    """The structured diagnosis of the leading suspect, and the choice of remedy."""
    ranked = case.belief.ranked()
    leader, confidence = ranked[0]
    ticket = case.briefing.ticket
    dependants = _dependants(case, leader.target)
    because = f", and {_join(dependants)} depend on it" if dependants else ""
    rivals = [suspect for suspect, _ in ranked[1:] if suspect.cause is not UNEXPLAINED]
    return Diagnosis(
        cause=leader.cause.name,
        target=leader.target,
        summary=f"{leader.target} is broken because {leader.cause.sentence}{because}.",
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
        choice=f"{remedy.tool}({leader.target})" if remedy else "escalate",
        why=_why(remedy),
    )


def remedies_for(case: Case, suspect: Suspect) -> list[Remedy]:
    """What could end it here: tools that exist and were not tried, least risk first."""
    tried = {(act.action.tool, act.action.target) for act in case.tried}
    own = {remedy.tool for remedy in suspect.cause.remedies}
    offered = [
        _offer(spec)
        for spec in case.briefing.tools
        if suspect.cause.name in spec.ends and spec.name not in own
    ]
    left = [
        remedy
        for remedy in (*suspect.cause.remedies, *offered)
        if (remedy.tool, suspect.target) not in tried
        and arguments_of(remedy, case.briefing, suspect.target) is not None
    ]
    return sorted(left, key=lambda remedy: (remedy.risk.rank, not remedy.reversible))


def arguments_of(remedy: Remedy, briefing: Briefing, target: str) -> dict[str, Argument] | None:
    """What its tool is called with at a target; None without the tool or the reading."""
    spec = next((one for one in briefing.tools if one.name == remedy.tool), None)
    if spec is None:
        return None
    readings = {**briefing.observation.of(target).readings, "target": target}
    here = spec.parameter("target") is not None
    found: dict[str, Argument] = {"target": target} if here else {}
    for name, value in remedy.arguments.items():
        blank = _BLANK.fullmatch(value) if isinstance(value, str) else None
        if blank is not None and readings.get(blank[1]) is None:
            return None
        found[name] = value if blank is None else readings[blank[1]]
    return found


def _offer(spec: ToolSpec) -> Remedy:
    """What a tool itself says that it ends."""
    trade_off = spec.expected or "nothing is known of what it costs"
    return Remedy(spec.name, _plain(spec.sentence), trade_off, spec.risk, spec.reversible)


def _plain(sentence: str) -> str:
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
    here = suspect.target == reading.target
    table = expected(suspect.cause, reading.probe) if here else HEALTHY[reading.probe]
    return table.get(reading.outcome, 0.01)


def _options(case: Case, leader: Suspect) -> tuple[Option, ...]:
    found = [
        Option(f"{remedy.tool}({leader.target})", remedy.risk, remedy.reversible, remedy.trade_off)
        for remedy in remedies_for(case, leader)
    ]
    leave = "leave it and tell a person"
    return (*found, Option(leave, Risk.LOW, True, "it stays broken until they come"))


def _why(remedy: Remedy | None) -> str:
    if remedy is None:
        return "No remedy known here removes this cause, so a person has to decide."
    undo = "it can be undone" if remedy.reversible else "it cannot be undone"
    return (
        f"To {remedy.sentence} removes the cause at the least risk ({remedy.risk}): {undo},"
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
