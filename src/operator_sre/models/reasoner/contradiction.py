"""Whether the observations contradict the diagnosis on which a change is based. Pure."""

from __future__ import annotations

from operator_protocols.domain.cause import Cause
from operator_protocols.domain.diagnosis import Diagnosis
from operator_protocols.domain.run import Ask, Diagnose
from operator_sre.models.reasoner.belief import predict_outcomes
from operator_sre.models.reasoner.case import Case, case_from
from operator_sre.models.reasoner.causes import GENERIC
from operator_sre.models.reasoner.outcomes import chance

__all__ = ["find_contradiction"]

# A cause below this probability, of which an observation is below that likelihood, is contradicted.
IMPROBABLE = 0.2
UNLIKELY = 0.02
TARGETS_NAMED_MAX = 20


def find_contradiction(ask: Ask) -> str:
    """Why a change based on the last diagnosis must not run; empty when nothing contradicts it."""
    diagnoses = [step.want.diagnosis for step in ask.steps if isinstance(step.want, Diagnose)]
    if not diagnoses:
        return ""
    diagnosis, briefing = diagnoses[-1], ask.briefing
    targets = {target.name for target in briefing.targets}
    known = targets | {violation.target for violation in briefing.ticket.violations}
    if diagnosis.target and diagnosis.target not in known | {briefing.ticket.target}:
        names = ", ".join(sorted(known)[:TARGETS_NAMED_MAX])
        return (
            f"The diagnosis names the target {diagnosis.target!r}, which does not exist. Targets:"
            f" {names}. Submit a diagnosis of one of them."
        )
    causes = {cause.name: cause for cause in (*GENERIC, *briefing.causes)}
    cause = causes.get(diagnosis.cause)
    if cause is None:  # nothing is known that it would show
        return ""
    case = case_from(ask)
    belief = sum(
        weight
        for suspect, weight in case.belief.weights.items()
        if (suspect.cause.name, suspect.target) == (cause.name, diagnosis.target)
    )
    observation = _find_observation(case, cause, diagnosis)
    if not observation or belief >= IMPROBABLE:
        return ""
    return (
        f"The diagnosis {cause.name!r} at {diagnosis.target!r} contradicts an observation:"
        f" {observation}. Submit a diagnosis that explains it."
    )


def _find_observation(case: Case, cause: Cause, diagnosis: Diagnosis) -> str:
    """The observation that the cause would not show; empty when there is none."""
    briefing, target = case.briefing, diagnosis.target
    seq = briefing.observation_seq
    cite = "" if seq is None else f" (seq={seq})"
    readings = briefing.observation.of(target).readings
    for name, expected in cause.shows.items():
        shown = readings.get(name)
        if shown is not None and shown != expected:
            return f"{name} of {target} is {shown!r} and would be {expected!r}{cite}"
    port = cause.predicts.get("port", {})
    if readings.get("reachable") is True and port.get("answers", 1.0) < UNLIKELY:
        return f"{target} is reachable{cite}"
    for reading in case.readings:
        if reading.target != target or reading.outcome == "unknown":
            continue
        likely = chance(predict_outcomes(cause, reading.probe), reading.probe, reading.outcome)
        if likely < UNLIKELY:
            cited = "" if reading.seq is None else f" (seq={reading.seq})"
            return f"{target}: {reading.sentence}{cited}"
    return ""
