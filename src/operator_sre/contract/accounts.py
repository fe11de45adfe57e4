"""From what is known of a run to what is told of it: summary, failure, timeline. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter

from operator_protocols.domain.entry import Entry, Kind
from operator_protocols.errors import UsageError
from operator_sre.contract import evidence
from operator_sre.contract.categories import ADVICE
from operator_sre.contract.facts import (
    ATTEMPTS,
    Denial,
    RunFacts,
    attempt_of,
    denials_of,
    obstacle_of,
)
from operator_sre.contract.messages import (
    EvidenceRef,
    ExplainFailureResponse,
    GetRunTimelineResponse,
    RedactedExcerpt,
    RunStatus,
    SummarizeRunResponse,
    TimelineEvent,
)

__all__ = ["NotFailedError", "failure_of", "summary_of", "timeline_of"]

EXCERPT_LINES_MAX = 20
EXCERPT_CHARACTERS_MAX = 4000
EVIDENCE_MAX = 20
EVENTS: Mapping[Kind, str] = {
    Kind.RUN_STARTED: "run_start",
    Kind.OBSERVED: "invoke",
    Kind.REASONING: "invoke_complete",
}
ENDS = {
    RunStatus.COMPLETED: "run_complete",
    RunStatus.FAILED: "run_failed",
    RunStatus.STOPPED: "run_stopped",
}
DENIED = "policy_denied"
# What begins a span of the run's trace.
SPANNED = frozenset(
    {
        *(Kind.RUN_STARTED, Kind.REASONING, Kind.TOOL_CALL, Kind.REFUSED),
        *(Kind.PROOF, Kind.APPROVAL_REQUESTED),
    }
)


_ORDER = attrgetter("timestamp", "audit_seq")


class NotFailedError(UsageError):
    """A run that did not fail has no failure to explain."""

    exit_code = 1


def summary_of(facts: RunFacts) -> SummarizeRunResponse:
    """How a run went, in figures and a sentence."""
    run, denials = facts.run, denials_of(facts.entries)
    status = facts.status
    finished = run.finished_at if status is not RunStatus.RUNNING else None
    took = (finished - run.started_at).total_seconds() if finished else 0.0
    return SummarizeRunResponse(
        run_id=run.id,
        status=status,
        exit_code=1 if status is RunStatus.FAILED else 0,
        started_at=run.started_at,
        finished_at=finished,
        duration_ms=max(0, round(took * 1000)),
        summary=_sentence(facts),
        invocations=facts.count(Kind.REASONING),
        policy_denials=len(denials),
        error_category=facts.category,
        evidence_refs=(evidence.of_run(run.id), *_cornerstones(facts, denials)),
    )


def failure_of(facts: RunFacts, rule_of: Callable[[Denial], EvidenceRef]) -> ExplainFailureResponse:
    """Why a run failed; NotFailedError for one that did not."""
    category = facts.category
    if category is None:
        raise NotFailedError(
            f"Run {facts.run.id!r} did not fail: it is {facts.status}.",
            next_step=f"See: operator summarize {facts.run.id}",
        )
    next_action, advice = ADVICE[category]
    denials = denials_of(facts.entries)
    shown, last = obstacle_of(facts), facts.last(Kind.RUN_FINISHED)
    refs = [evidence.of_run(facts.run.id)]
    refs += [evidence.of_entry(last, f"the run ended: {category}")] if last else []
    refs += _refs_of_obstacle(facts, shown) if shown else []
    if category.value == DENIED and denials:
        refs.append(rule_of(denials[-1]))
    refs.append(evidence.of_command(f"operator timeline {facts.run.id}", "every step, in order"))
    return ExplainFailureResponse(
        run_id=facts.run.id,
        error_category=category,
        root_cause=f"{facts.run.summary or 'It ended without a word.'} {advice}",
        redacted_excerpts=_excerpts(shown),
        evidence_refs=tuple(refs),
        next_action=next_action,
    )


def _refs_of_obstacle(facts: RunFacts, shown: Entry) -> list[EvidenceRef]:
    """The record of what failed, the excerpt that is taken from it, and all that was said."""
    refs = [evidence.of_entry(shown, "what stood in the way")]
    refs += [evidence.of_excerpt(shown)] if _excerpts(shown) else []
    attempt = attempt_of(facts.entries, shown)
    return refs + ([evidence.of_output(attempt)] if attempt else [])


def timeline_of(facts: RunFacts, tell: Callable[[Entry], str]) -> GetRunTimelineResponse:
    """All that happened in a run, oldest first; `tell` puts an entry into words."""
    denied = {one.entry.seq for one in denials_of(facts.entries)}
    status = facts.status
    events = [
        TimelineEvent(
            timestamp=entry.at,
            event_type=_event_type(entry, status, denied=entry.seq in denied),
            audit_seq=entry.seq,
            detail=tell(entry) or entry.kind.replace("_", " "),
            evidence_refs=_refs(entry),
        )
        for entry in facts.entries
    ]
    events.sort(key=_ORDER)
    return GetRunTimelineResponse(run_id=facts.run.id, events=tuple(events))


def _refs(entry: Entry) -> tuple[EvidenceRef, ...]:
    record = evidence.of_entry(entry, "its record")
    if entry.kind not in SPANNED:
        return (record,)
    span = evidence.of_span(entry, "its span")
    return (record, span, evidence.of_output(entry)) if entry.kind in ATTEMPTS else (record, span)


def _event_type(entry: Entry, status: RunStatus, *, denied: bool) -> str:
    if denied:
        return DENIED
    if entry.kind is Kind.RUN_FINISHED:
        said = entry.payload.get("state")
        return ENDS.get(RunStatus(said) if said in tuple(RunStatus) else status, "run_failed")
    return EVENTS.get(entry.kind, entry.kind.value)


def _sentence(facts: RunFacts) -> str:
    run = facts.run
    about = f"the run of {run.model} on ticket {run.ticket}"
    if facts.halted and facts.status is RunStatus.STOPPED and run.finished_at is None:
        return f"Stopped: {about} is held by the kill switch. {facts.halted}".strip()
    if facts.waiting is not None and facts.status is RunStatus.RUNNING:
        return f"Running: {about} waits. {facts.waiting.sentence}"
    if facts.status is RunStatus.RUNNING:
        return f"Running: {about} has not ended."
    ended = f" and the ticket is {facts.ticket_state}" if facts.ticket_state else ""
    return f"{facts.status.capitalize()}: {about} has ended{ended}. {run.summary}".strip()


def _cornerstones(facts: RunFacts, denials: list[Denial]) -> list[EvidenceRef]:
    """The entries one would look at first: diagnosis, denials, proof and end."""
    kinds = (Kind.RUN_STARTED, Kind.DIAGNOSIS, Kind.PROOF, Kind.RUN_FINISHED)
    found = [one for one in map(facts.last, kinds) if one is not None]
    refs = [evidence.of_entry(one) for one in found]
    refs += [evidence.of_entry(one.entry, "denied") for one in denials[-EVIDENCE_MAX:]]
    return refs + ([facts.waiting.evidence] if facts.waiting else [])


def _excerpts(entry: Entry | None) -> tuple[RedactedExcerpt, ...]:
    """The end of what was said by what failed; the ledger took the secrets out already."""
    if entry is None:
        return ()
    result = entry.payload.get("result") or {}
    text = str(result.get("stderr") or result.get("stdout") or "").strip()
    if not text:
        return ()
    lines = text.splitlines()[-EXCERPT_LINES_MAX:]
    content = "\n".join(lines)[-EXCERPT_CHARACTERS_MAX:]
    return (RedactedExcerpt(source=f"audit:{entry.seq}", content=content),)
