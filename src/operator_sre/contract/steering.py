"""The one thing to do next, for a run that ended in whatever way. Pure."""

from __future__ import annotations

from operator_protocols.domain.category import NextAction
from operator_protocols.domain.entry import Entry, Kind
from operator_sre.contract import evidence
from operator_sre.contract.categories import ADVICE
from operator_sre.contract.facts import RunFacts, denials_of
from operator_sre.contract.messages import EvidenceRef, NextActionResponse, RunStatus

__all__ = ["next_of"]


def next_of(facts: RunFacts) -> NextActionResponse:
    """Exactly one thing to do, also after a run that did not fail."""
    action, why, refs = _decided(facts)
    waiting = facts.waiting.confirmation if facts.waiting else None
    return NextActionResponse(
        run_id=facts.run.id,
        next_action=action,
        rationale=why,
        evidence_refs=(evidence.of_run(facts.run.id), *refs),
        confirmation=waiting,
    )


def _decided(facts: RunFacts) -> tuple[NextAction, str, tuple[EvidenceRef, ...]]:
    last = facts.last(Kind.RUN_FINISHED)
    ended = (evidence.of_entry(last, "how it ended"),) if last else ()
    if facts.waiting is not None:
        asked = facts.waiting
        return asked.next_action, asked.sentence, (asked.evidence,)
    if facts.status is RunStatus.RUNNING:
        why = "It is being worked on, and nothing has to be done before it ends."
        watch = evidence.of_command(f"operator timeline {facts.run.id}", "how far it has come")
        return NextAction.ASK_USER, why, (watch,)
    if handed := _handed_off(facts):
        why = "The ticket was handed to somebody else; look at what they are given."
        return NextAction.REVIEW_HANDOFF, why, (evidence.of_entry(handed),)
    if facts.status is RunStatus.STOPPED:
        why = "It was stopped, not finished; when whoever stopped it agrees, run it again."
        return NextAction.RERUN, why, ended
    if facts.category is not None:
        action, advice = ADVICE[facts.category]
        return action, f"{facts.category}: {advice}", ended
    return _after(facts, ended)


def _handed_off(facts: RunFacts) -> Entry | None:
    """How the ticket was given to others, unless ours have taken it back since."""
    taken = facts.last(Kind.TICKET_HANDED_OFF, Kind.TICKET_REOPENED, Kind.TICKET_CLAIMED)
    return taken if taken is not None and taken.kind is Kind.TICKET_HANDED_OFF else None


def _after(
    facts: RunFacts, ended: tuple[EvidenceRef, ...]
) -> tuple[NextAction, str, tuple[EvidenceRef, ...]]:
    """A run that came to its end in order."""
    if facts.ticket_state != "escalated":
        why = "It ended in order; export the record of it for whoever reviews it."
        export = f"operator audit export --format jsonl --run {facts.run.id}"
        return NextAction.EXPORT_AUDIT, why, (*ended, evidence.of_command(export, "the record"))
    denials = denials_of(facts.entries)
    if denials:
        why = f"It could not go on: {denials[-1].why or 'an action was denied.'}"
        refs = tuple(evidence.of_entry(one.entry, "denied") for one in denials[-3:])
        return NextAction.REVIEW_POLICY_PATCH, why, (*refs, *ended)
    why = f"It was escalated, so a person has to look. {facts.run.summary}".strip()
    return NextAction.ASK_USER, why, ended
