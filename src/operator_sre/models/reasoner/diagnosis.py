"""Builds the Diagnosis; every sentence in it is backed by an observation. Pure."""

from __future__ import annotations

import re
import shlex
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
from operator_protocols.domain.precondition import Unmet, find_unmet
from operator_protocols.domain.run import Briefing
from operator_protocols.domain.target import dependencies_of
from operator_protocols.domain.verdict import Risk
from operator_sre.models.reasoner.belief import SURE, Suspect, normalise
from operator_sre.models.reasoner.case import Case
from operator_sre.models.reasoner.causes import PATIENCE, UNEXPLAINED, VAGUE
from operator_sre.models.reasoner.evidence import (
    order_evidence,
    quote_reason,
    report_change,
    report_parts,
    report_unidentified,
    weigh_readings,
)

__all__ = ["SCRIPT", "arguments_of", "choose", "diagnose", "find_unmet_of", "focus", "remedies_for"]

ALTERNATIVES_MAX = 3
_BLANK = re.compile(r"\{(\w+)\}")
SCRIPT = "execute_script"
POSSIBLE = 0.1  # candidates from this probability on are named in an uncertain diagnosis
EVEN = 0.5


def diagnose(case: Case, remedy: Remedy | None) -> Diagnosis:
    """The structured diagnosis of the leading suspect, and the choice of remedy."""
    ranked = case.belief.rank()
    leader, confidence = ranked[0]
    ticket, seq = case.briefing.ticket, case.briefing.observation_seq
    # Below even odds no cause is called the cause, unless one remedy serves all likely ones.
    known = leader.cause is not UNEXPLAINED
    identified = known and (confidence >= EVEN or remedy is not None)
    others = [suspect for suspect, _ in ranked[1:]]
    # A diagnosis without a rejected alternative is not accepted.
    rivals = [suspect for suspect in others if suspect.cause is not UNEXPLAINED] or others
    broken = sorted(ticket.violations, key=lambda violation: violation.since)
    options = [
        Option(f"{option.tool}({leader.target})", option.risk, option.reversible, option.trade_off)
        for option in remedies_for(case, leader)
    ]
    leave = Option("escalate", Risk.LOW, True, "it stays broken until someone repairs it")
    return Diagnosis(
        cause=leader.cause.name if identified else UNEXPLAINED.name,
        target=leader.target,
        summary=_summarise(case) if identified else report_unidentified(case),
        severity=ticket.severity,
        confidence=round(confidence, 4),
        timeline=tuple(
            Evidence(
                f"{violation.since:%H:%M:%S} UTC {violation.target}: {violation.invariant} broke"
                f" ({violation.detail})",
                seq,
            )
            for violation in broken
        ),
        affected=tuple(dict.fromkeys(violation.target for violation in ticket.violations)),
        evidence=order_evidence(case, leader),
        hypotheses=tuple(
            Hypothesis(suspect.cause.name, suspect.target, round(weight, 4))
            for suspect, weight in ranked[:6]
        ),
        alternatives=tuple(
            _compare(case, suspect, leader) for suspect in rivals[:ALTERNATIVES_MAX]
        ),
        options=(*options, leave),
        choice=f"{remedy.tool}({leader.target})" if remedy else "escalate",
        why=_explain_choice(case, leader, confidence, remedy),
    )


def choose(case: Case) -> Remedy | None:
    """The remedy of least risk that resolves the leading suspects.

    Several causes at one target may share a remedy; they need not be distinguished then. A leader
    whose remedy is to wait gets its time even if it leads narrowly: waiting harms nothing, and
    what is then still broken is evidence against it.
    """
    ranked = case.belief.rank()
    leader = ranked[0][0]
    rivals = [rival for rival in ranked if rival[0].target == leader.target]
    ends = [
        (weight, {remedy.tool for remedy in remedies_for(case, suspect)})
        for suspect, weight in rivals
    ]
    remedies = remedies_for(case, leader)
    for remedy in remedies:
        if sum(weight for weight, tools in ends if remedy.tool in tools) >= SURE:
            return remedy
    return next((remedy for remedy in remedies if remedy.tool == PATIENCE), None)


def focus(case: Case) -> Case:
    """The case of one target, where the same remedy ends what is broken at several: roots first.

    Causes are rivals in the belief. When several targets fail at once, each of the same, none leads
    clearly although each is plain at its own target.
    """
    ranked = case.belief.rank()
    (leader, chance), broken = ranked[0], case.broken_targets
    if chance >= SURE or leader.target not in broken or len(broken) < 2:
        return case
    for remedy in remedies_for(case, leader):
        alike = {
            suspect: weight
            for suspect, weight in ranked
            if suspect.target in broken
            and remedy.tool in {each.tool for each in remedies_for(case, suspect)}
        }
        if sum(alike.values()) < SURE:
            continue
        names = {suspect.target for suspect in alike}
        roots = {name for name in names if not dependencies_of(name, case.briefing.targets) & names}
        root = next((each.target for each, _ in ranked if each.target in roots), leader.target)
        weights = {
            suspect: weight
            for suspect, weight in ranked
            if suspect.target == root and suspect.cause is not UNEXPLAINED
        }
        return replace(case, belief=normalise(weights))
    return case


def find_unmet_of(
    case: Case, remedy: Remedy, target: str, *, awaited: bool = False
) -> tuple[Unmet, ...]:
    """The preconditions of a remedy that the observation does not show to hold.

    A precondition that the action itself waits for is no reason against it, unless `awaited`.
    """
    briefing = case.briefing
    requires = [
        required
        for spec in briefing.tools
        if spec.name == remedy.tool
        for required in spec.requires
        if awaited or not required.within_s
    ]
    at = str((arguments_of(remedy, briefing, target) or {}).get("target", target))
    return find_unmet(requires, at, briefing.targets, briefing.observation)


def remedies_for(case: Case, suspect: Suspect) -> list[Remedy]:
    """The remedies that may be used now, least risk first."""
    return [
        remedy
        for remedy in _find_untried(case, suspect)
        if not find_unmet_of(case, remedy, suspect.target)
    ]


def _find_untried(case: Case, suspect: Suspect) -> list[Remedy]:
    """The remedies whose tools exist and were not tried, least risk first."""
    if suspect.cause is UNEXPLAINED or suspect.cause.name in VAGUE:
        return []
    # An action that failed for one cause may be right for another.
    other = [act for cause, act in case.failed if cause != suspect.cause.name]
    tried = {(act.action.tool, act.action.target) for act in case.tried if act not in other}
    if (suspect.cause.name, suspect.target) in case.patient:
        tried.add((PATIENCE, suspect.target))
    specs = {spec.name: spec for spec in case.briefing.tools}
    remedies = {remedy.tool: remedy for remedy in suspect.cause.remedies}
    for spec in case.briefing.tools:
        if suspect.cause.name in spec.ends and spec.name not in remedies:
            # A tool may itself declare that it resolves the cause.
            sentence = spec.sentence.partition(": it runs `")[0]
            sentence = f"{sentence[:1].lower()}{sentence[1:].rstrip('.')}"
            quoted = spec.expected.replace("'{target}'", shlex.quote(suspect.target))
            expected = quoted.replace("{target}", suspect.target)
            trade_off = expected.rstrip(".") or "its side effects are unknown"
            remedies[spec.name] = Remedy(spec.name, sentence, trade_off, spec.risk, spec.reversible)
    left = []
    places = {target.name: target for target in case.briefing.targets}
    for remedy in remedies.values():
        if (remedy.tool, suspect.target) in tried:
            continue
        known, place = specs.get(remedy.tool), places.get(suspect.target)
        if known is not None and known.exclusive and suspect.cause.name not in known.ends:
            continue
        if known is not None and place is not None and not known.fits(place):
            continue
        if arguments_of(remedy, case.briefing, suspect.target) is None:
            continue
        if known is not None:
            # The risk of the tool counts; whether a script is reversible is known to its author.
            undone = known.reversible or (remedy.reversible and known.name == SCRIPT)
            remedy = replace(remedy, risk=known.risk, reversible=undone)
        left.append(remedy)
    return sorted(left, key=lambda remedy: (remedy.risk.rank, not remedy.reversible))


def arguments_of(remedy: Remedy, briefing: Briefing, target: str) -> dict[str, Argument] | None:
    """The arguments of its tool at a target; None without the tool or a reading."""
    if remedy.tool == PATIENCE:
        return {}
    spec = next((spec for spec in briefing.tools if spec.name == remedy.tool), None)
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
    """Replace `{name}` by the reading of that name; KeyError where there is none."""
    if isinstance(value, Mapping):
        return {name: str(_fill_blanks(each, readings)) for name, each in value.items()}
    blank = _BLANK.fullmatch(value) if isinstance(value, str) else None
    if blank is None:
        return value
    if (reading := readings.get(blank[1])) is None:
        raise KeyError(blank[1])
    return reading


def _compare(case: Case, suspect: Suspect, leader: Suspect) -> Alternative:
    """The evidence for and against a suspect, and why the leader explains more."""
    weighing = weigh_readings(case, suspect, leader)
    against = weighing.against
    if not against:
        why = "the chosen cause explains more of the evidence"
    elif suspect.target == leader.target:
        why = f"contradicted by the evidence: {against[0]}"
    else:
        why = f"does not explain the evidence: {against[0]}"
    return Alternative(
        cause=suspect.cause.name,
        target=suspect.target,
        supporting=weighing.supporting,
        against=against,
        why_rejected=why,
    )


def _summarise(case: Case) -> str:
    ranked = case.belief.rank()
    leader, chance = ranked[0]
    headline = f"{leader.target}: {leader.cause.sentence}"
    reason = (
        f"{quote_reason(case, leader.target)}{report_parts(case, leader)}"
        f"{report_change(case, leader.target)}"
    )
    if chance >= SURE:
        targets = case.briefing.targets
        names = [
            target.name
            for target in targets
            if leader.target in dependencies_of(target.name, targets)
        ]
        joined = f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else "".join(names)
        verb = "depends" if len(names) == 1 else "depend"
        rest = f" {joined} {verb} on it." if names else ""
        return f"{headline}.{reason}{rest}"
    others = [
        f"{suspect.target}: {suspect.cause.sentence} ({weight:.0%})"
        for suspect, weight in ranked[1:]
        if weight >= POSSIBLE and suspect.cause is not UNEXPLAINED
    ]
    rest = f" Other candidates: {'; '.join(others[:ALTERNATIVES_MAX])}." if others else ""
    return f"{headline} (most likely, {chance:.0%}).{reason}{rest}"


def _explain_choice(case: Case, leader: Suspect, chance: float, remedy: Remedy | None) -> str:
    blocked = [
        f"{option.tool} is not automatic: {unmet[0].sentence}"
        for option in _find_untried(case, leader)
        if (unmet := find_unmet_of(case, option, leader.target))
    ]
    if remedy is None and blocked:
        return " ".join(blocked)
    if remedy is None and leader.cause is UNEXPLAINED:
        return "Operator knows no remedy for an unidentified cause."
    if remedy is None and chance < SURE:
        why = "No available check tells these causes apart, so an engineer has to decide."
        return f"{why}{_offer(case, leader) if chance >= EVEN else ''}"
    if remedy is None:
        return "Operator knows no remedy for this cause, so an engineer has to decide."
    action = f"{remedy.sentence[:1].upper()}{remedy.sentence[1:]}"
    if remedy.tool == PATIENCE:
        return f"{action}. Trade-off: {remedy.trade_off}."
    undo = "reversible" if remedy.reversible else "not reversible"
    either = "" if chance >= SURE else " for each of the likely causes"
    return (
        f"{action}: the option with the lowest risk{either} ({remedy.risk}, {undo})."
        f" Trade-off: {remedy.trade_off}."
    )


def _offer(case: Case, leader: Suspect) -> str:
    """The line by which a person runs what would end the leading cause, if it is the right one."""
    for remedy in remedies_for(case, leader):
        arguments = arguments_of(remedy, case.briefing, leader.target) or {}
        if remedy.tool == PATIENCE or any(isinstance(each, Mapping) for each in arguments.values()):
            continue
        words = ["operator", "tools", "run", remedy.tool, "--subject", case.briefing.ticket.subject]
        words += ["--mode", "approve", "--target", leader.target]
        for name, value in sorted(arguments.items()):
            words += ["--arg", f"{name}={value}"] if name != "target" else []
        return f" If the first is right: `{shlex.join(words)}` ({remedy.sentence})."
    return ""
