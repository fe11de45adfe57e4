"""What speaks for a diagnosis, the decisive first, and what to check next. Pure."""

from __future__ import annotations

import math
import shlex
from dataclasses import dataclass

from operator_protocols.domain.change import Change, describe_change
from operator_protocols.domain.diagnosis import Evidence
from operator_protocols.domain.observation import Trouble, Violation
from operator_sre.models.reasoner.belief import Suspect, likelihood
from operator_sre.models.reasoner.case import LISTENS_ON, OBSERVED, Case, Reading, is_made
from operator_sre.models.reasoner.causes import UNEXPLAINED
from operator_sre.models.reasoner.logs import LINES_READ
from operator_sre.models.reasoner.outcomes import HEALTHY
from operator_sre.models.reasoner.statement import find_visible
from operator_sre.models.reasoner.symptoms import REASONS, WEAK_REASONS

__all__ = [
    "Weighing",
    "order_evidence",
    "quote_reason",
    "report_change",
    "report_parts",
    "report_unidentified",
    "weigh_readings",
]

CANDIDATES_MAX = 3
RULED_OUT_MAX = 4
CHECKS_MAX = 3
HEADLINE_CHARS_MAX = 260
POSSIBLE = 0.05  # candidates from this probability on are listed where no cause is identified
# An outcome that a healthy target shows so seldom is evidence of a failure.
ABNORMAL = 0.05
TELLS = 1.2  # a reading whose score is above this is telling
LEAST = 1e-6
# What a process, its disk and its limits are is a fact that needs no interpretation.
FACTS, FACT = ("process", "disk", "limits"), 2.0
RARELY_SHOWN = 0.2  # of the causes that are possible at a target
NORMAL = 0.5  # the share of healthy targets that show an outcome which excludes causes at most
PLAIN = (Trouble.REFUSED, Trouble.SILENCE)  # findings that say only that nothing answers
TELLING = 2.0  # a likelihood ratio from which on a reading counts as evidence


@dataclass(frozen=True, slots=True)
class Weighing:
    """The readings that speak for one suspect and against it, compared with another."""

    supporting: tuple[str, ...]
    against: tuple[str, ...]


def order_evidence(case: Case, leader: Suspect) -> tuple[Evidence, ...]:
    """All that was observed: the most telling first, so that three lines make the case.

    These are the reading that tells most, a change before the failure, and what a check found, or
    another reading where the finding only says that there is no answer.
    """
    seq = case.briefing.observation_seq
    violations = _sort_findings(case, leader)
    findings = [Evidence(f"{each.target}: {each.detail}", seq) for each in violations]
    is_plain = not violations or violations[0].trouble in PLAIN
    ranked = sorted(
        (_rate(case, reading, leader, is_printed=printed), at, reading)
        for printed, readings in ((True, case.outputs), (False, case.readings))
        for at, reading in enumerate(readings)
    )
    telling = [_cite(reading) for (_, score), _, reading in ranked if score < -TELLS]
    rest = [_cite(reading) for reading in (*case.outputs, *case.readings)]
    ordered = _sort_changes(case, leader.target)
    if leader.target not in find_visible(case.briefing):
        # What became different around processes is about findings of processes.
        near = {leader.target, *(each.target for each in case.briefing.ticket.violations)}
        ordered = [each for each in ordered if each.target in near or each.source == OBSERVED]
    changes = [Evidence(describe_change(change), seq) for change in ordered]
    made = [each for change, each in zip(ordered, changes, strict=True) if is_made(change)]
    shown = [Evidence(text, seq) for text in _list_shown(case, leader)]
    is_near = is_plain or any(is_made(each) for each in ordered if each.target == leader.target)
    first = [*telling[:1], *(made[:1] if is_near else ())]
    first += [*(() if is_plain else findings[:1]), *telling[1:2]]
    lines = (*first, *shown[:1], *made[1:2], *findings, *shown, *changes, *telling, *rest)
    return tuple(dict.fromkeys(lines))


def _sort_findings(case: Case, leader: Suspect) -> list[Violation]:
    """The findings of the ticket: those at the leader that few causes explain come first.

    That a target does not answer follows from most causes, and that its cluster has removed it only
    from one.
    """
    causes = case.briefing.causes
    explained = {
        name: sum(name in cause.breaks for cause in causes)
        for name in {violation.invariant for violation in case.briefing.ticket.violations}
    }

    def rank(violation: Violation) -> tuple[bool, bool, bool, int]:
        name = violation.invariant
        return (
            violation.target != leader.target,
            violation.trouble in PLAIN,
            name not in leader.cause.breaks,
            explained[name],
        )

    return sorted(case.briefing.ticket.violations, key=rank)


def _sort_changes(case: Case, target: str) -> list[Change]:
    """The changes: what is near before the rest, and a cause before its consequence."""
    near = {target, *(each.target for each in case.briefing.ticket.violations)}

    def rank(change: Change) -> tuple[bool, bool, bool, bool]:
        follows = change.name == LISTENS_ON  # from its settings, or from its exit
        return change.target != target, change.target not in near, not is_made(change), follows

    return sorted(case.briefing.changes, key=rank)


def _list_shown(case: Case, leader: Suspect) -> list[str]:
    """What the observation shows of the leading cause that few other causes would."""
    readings = case.briefing.observation.of(leader.target).readings
    others = [suspect.cause for suspect in case.belief.weights if suspect.target == leader.target]
    found = []
    for name, value in leader.cause.shows.items():
        same = sum(cause.shows.get(name) == value for cause in others)
        if readings.get(name) == value and same <= len(others) * RARELY_SHOWN:
            found.append((same, f"{leader.target}: the check reads {name} = {value}"))
    return [text for _, text in sorted(found)]


def report_parts(case: Case, leader: Suspect) -> str:
    """What is wrong with the parts of a leader that has no process of its own, as a sentence."""
    if any(reading.target == leader.target for reading in case.readings):
        return ""
    found = {
        reading.target: f"{reading.target}: {reading.sentence}"
        for reading in case.readings
        if reading.probe == "process" and reading.outcome in ("dead", "stopped", "isolated")
    }
    return f" {'; '.join(found.values())}." if found else ""


def report_change(case: Case, target: str) -> str:
    """The nearest change at the target, as a sentence; "" for none."""
    made = [each for each in _sort_changes(case, target) if each.target == target and is_made(each)]
    return f" Before that, {describe_change(made[0])}." if made else ""


def quote_reason(case: Case, target: str) -> str:
    """The reason that a log or a failed action at the target names, as a sentence; "" for none."""
    named = [
        reading
        for reading in (*case.readings, *case.outputs)
        if reading.target == target and reading.probe == "log" and reading.outcome in REASONS
    ]
    named = named or [output for output in case.outputs if output.target == target]
    if not named:
        return ""
    sentence = named[0].sentence.rstrip(".")
    if len(sentence) > HEADLINE_CHARS_MAX:
        sentence = f"{sentence[:HEADLINE_CHARS_MAX].rstrip()} [...]"
    return f" {sentence[:1].upper()}{sentence[1:]}."


def weigh_readings(case: Case, suspect: Suspect, other: Suspect) -> Weighing:
    """How much likelier, or less likely, each reading is under one suspect than under the other."""
    supporting, against = [], []
    for reading in case.readings:
        here, there = (
            likelihood(each, reading.probe, reading.target, reading.outcome)
            for each in (suspect, other)
        )
        ratio = here / max(there, 1e-9)
        text = f"{reading.target}: {reading.sentence}"
        if ratio >= TELLING:
            supporting.append(f"{text} ({ratio:.2g} times as likely)")
        elif ratio <= 1 / TELLING:
            against.append(f"{text} ({1 / max(ratio, 1e-9):.2g} times less likely)")
    return Weighing(tuple(supporting), tuple(against))


def report_unidentified(case: Case) -> str:
    """What an engineer needs where the reasoner gives up: observed, excluded, and what to run."""
    ranked = case.belief.rank()
    leader = ranked[0][0]
    unexplained = next(each for each, _ in ranked if each.cause is UNEXPLAINED)
    candidates = [
        f"{suspect.target}: {suspect.cause.sentence} ({weight:.0%})"
        for suspect, weight in ranked
        if weight >= POSSIBLE and suspect.cause is not UNEXPLAINED
    ]
    likely = "; ".join(candidates[:CANDIDATES_MAX])
    ruled_out: dict[str, str] = {}
    # The usual causes first: they are what a person would think of.
    for suspect, weight in sorted(ranked, key=lambda item: -item[0].cause.prior):
        if suspect.target != leader.target or weight >= POSSIBLE:
            continue
        for reading in case.readings:
            here, there = (
                likelihood(each, reading.probe, reading.target, reading.outcome)
                for each in (suspect, unexplained)
            )
            if here * TELLING <= there:
                ruled_out.setdefault(suspect.cause.name, reading.sentence)
    excluded = "; ".join(
        f"{cause} ({sentence})" for cause, sentence in list(ruled_out.items())[:RULED_OUT_MAX]
    )
    parts = (
        f"{leader.target}: cause not identified.{quote_reason(case, leader.target)}"
        f"{report_parts(case, leader)}{report_change(case, leader.target)}",
        f"Candidates: {likely}." if likely else "",
        f"Ruled out: {excluded}." if excluded else "",
        f"Next: {'; '.join(_list_checks(case, leader.target))}.",
    )
    return " ".join(filter(None, parts))


def _rate(case: Case, reading: Reading, leader: Suspect, *, is_printed: bool) -> tuple[bool, float]:
    """What sorts readings: those of the leader first, and of these what tells most.

    A reading tells much when a healthy target hardly shows it, or when hardly another suspect does.
    """
    elsewhere = reading.target != leader.target
    if is_printed:
        return elsewhere, -math.inf
    # That a process is young follows from an action.
    if reading.outcome in ("unknown", "starting"):
        return elsewhere, 0.0
    healthy = HEALTHY[reading.probe].get(reading.outcome, ABNORMAL)
    if reading.outcome in REASONS and reading.outcome not in WEAK_REASONS:
        return elsewhere, math.log(healthy)
    expected = max(LEAST, likelihood(leader, reading.probe, reading.target, reading.outcome))
    told_apart = math.log(expected / _expect_without(case, leader, reading))
    if healthy >= NORMAL:  # it tells something only where the other evidence speaks against it
        return elsewhere, -told_apart
    fact = FACT if reading.probe in FACTS else 0.0
    return elsewhere, -max(fact - math.log(healthy) / 2, told_apart)


def _expect_without(case: Case, leader: Suspect, reading: Reading) -> float:
    """How likely a reading would have been by all other evidence, were the cause another one."""
    others = [
        (weight, max(LEAST, likelihood(suspect, reading.probe, reading.target, reading.outcome)))
        for suspect, weight in case.belief.weights.items()
        if suspect is not leader and weight > 0
    ]
    # Each weight has been multiplied by the likelihood of this reading.
    total = sum(weight / chance for weight, chance in others)
    return max(LEAST, sum(weight for weight, _ in others) / total) if total else 1.0


def _cite(reading: Reading) -> Evidence:
    return Evidence(f"{reading.target}: {reading.sentence}", reading.seq)


def _list_checks(case: Case, name: str) -> list[str]:
    """The next checks, each with its exact command and what it tells."""
    show = f"run `operator tickets show {case.briefing.ticket.id}` for all the evidence"
    target = next((each for each in case.briefing.targets if each.name == name), None)
    checks = [show]
    if target is not None and target.log:
        command = f"tail -n {LINES_READ} {shlex.quote(target.log)}"
        checks.append(f"`{command}`: an error that began with the failure names the cause")
    if target is not None and target.process is not None:
        command = f"ss -tanp | grep -w pid={target.process.pid}"
        checks.append(f"`{command}`: connections that wait mean that it is stuck or overloaded")
    if target is not None and target.data_dir:
        checks.append(f"`df -h {shlex.quote(target.data_dir)}`: a full disk stops writes")
    if len(checks) == 1:
        checks.append(f"check the log of {name}")
    return checks[:CHECKS_MAX]
