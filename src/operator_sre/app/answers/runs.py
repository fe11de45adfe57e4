"""Questions about one run, answered from its own entries: what else there is costs nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from operator_protocols.domain.category import ErrorCategory, NextAction
from operator_protocols.domain.entry import Entry, Kind
from operator_protocols.errors import NotFoundError
from operator_sre.app.answers.asked import waiting_for
from operator_sre.app.answers.rules import blocking_rule
from operator_sre.app.answers.wording import collapsed, without_secrets
from operator_sre.app.story import lines_of
from operator_sre.contract import evidence
from operator_sre.contract.accounts import failure_of, summary_of, timeline_of
from operator_sre.contract.categories import ADVICE
from operator_sre.contract.facts import Denial, RunFacts
from operator_sre.contract.messages import (
    EvidenceRef,
    ExplainFailureRequest,
    ExplainFailureResponse,
    GetRunTimelineRequest,
    GetRunTimelineResponse,
    NextActionRequest,
    NextActionResponse,
    SummarizeRunRequest,
    SummarizeRunResponse,
)
from operator_sre.contract.steering import next_of

if TYPE_CHECKING:
    from operator_sre.app.wiring import App

__all__ = [
    "entries_of",
    "explain_failure",
    "facts_of",
    "next_action",
    "rule_evidence",
    "run_timeline",
    "summarize_run",
]

PAGE = 1000
ENTRIES_MAX = 20_000
# How far back a home is looked at for what wants to be done next.
RECENT_MAX = 200
RUN_TEXT_MAX = 200


def summarize_run(app: App, request: SummarizeRunRequest) -> SummarizeRunResponse:
    """How a run went."""
    return without_secrets(summary_of(facts_of(app, request.run_id)), collapsed)


def explain_failure(app: App, request: ExplainFailureRequest) -> ExplainFailureResponse:
    """Why a run failed, and the one thing to do next."""
    found = failure_of(facts_of(app, request.run_id), lambda denial: rule_evidence(app, denial))
    return without_secrets(found, collapsed)


def run_timeline(app: App, request: GetRunTimelineRequest) -> GetRunTimelineResponse:
    """All that happened in a run, oldest first."""
    return timeline_of(facts_of(app, request.run_id), _told)


def next_action(app: App, request: NextActionRequest) -> NextActionResponse:
    """The one thing to do next: about a run, or about all there is."""
    if request.run_id:
        return without_secrets(next_of(facts_of(app, request.run_id)), collapsed)
    return without_secrets(_overall(app), collapsed)


def facts_of(app: App, run: str) -> RunFacts:
    """What is known of a run."""
    record = app.store.runs.get(run)
    if record is None:
        raise NotFoundError(
            f"There is no run {run[:RUN_TEXT_MAX]!r}.",
            next_step="See them with: operator audit list",
        )
    ticket = app.store.tickets.get(record.ticket)
    running = record.state == "running"
    switch = app.store.switch.state() if running else None
    return RunFacts(
        run=record,
        entries=entries_of(app, run),
        ticket_state=ticket.state.value if ticket and ticket.run == run else "",
        halted=f"{switch.by} turned it on: {switch.reason}" if switch and switch.on else "",
        waiting=waiting_for(app, record),
    )


def entries_of(app: App, run: str) -> list[Entry]:
    """The entries of one run, by its index."""
    found: list[Entry] = []
    while len(found) < ENTRIES_MAX:
        behind = found[-1].seq if found else 0
        page = app.store.entries.after(behind, limit=PAGE, run=run)
        found += page
        if len(page) < PAGE:
            break
    return found


def rule_evidence(app: App, denial: Denial) -> EvidenceRef:
    """The place of the policy that denied it."""
    place, says = blocking_rule(app.rules(), denial.verdict)
    return evidence.of_rule(place, says)


def _told(entry: Entry) -> str:
    """An entry as people read it, in one line: all of a timeline that others wrote."""
    if entry.kind is Kind.RUN_FINISHED:
        return collapsed(f"{entry.payload['state']}: {entry.payload['summary']}")
    if entry.kind is Kind.RUN_STARTED:
        return collapsed(f"{entry.payload['model']} begins")
    return collapsed(" ".join([line.text for line in lines_of(entry)]))


def _overall(app: App) -> NextActionResponse:
    """The most pressing thing of a whole home: what waits for people, then what went wrong last."""
    waiting = waiting_for(app)
    if waiting is not None:
        return NextActionResponse(
            next_action=waiting.next_action,
            rationale=waiting.sentence,
            evidence_refs=(waiting.evidence,),
            confirmation=waiting.confirmation,
        )
    newest = app.store.entries.newest(limit=RECENT_MAX)
    damaged = _newest_of(newest, Kind.SEGMENT_STARTED)
    if damaged is not None:
        return NextActionResponse(
            next_action=NextAction.EXPORT_AUDIT,
            rationale="The ledger was found damaged; export it for whoever looks into it.",
            evidence_refs=(evidence.of_entry(damaged),),
        )
    refused = _newest_of(newest, Kind.TRIGGER_REFUSED)
    runs = app.store.runs.newest(limit=1)
    if refused is not None and (not runs or refused.at > runs[0].started_at):
        action, advice = ADVICE[ErrorCategory.TRIGGER_AUTH_FAILED]
        return NextActionResponse(
            next_action=action, rationale=advice, evidence_refs=(evidence.of_entry(refused),)
        )
    if runs:
        return next_of(facts_of(app, runs[0].id))
    start = evidence.of_command("operator validate", "whether this project is ready")
    return NextActionResponse(
        next_action=NextAction.ASK_USER,
        rationale="Nothing has happened here yet; say what shall be watched.",
        evidence_refs=(start,),
    )


def _newest_of(entries: Sequence[Entry], kind: Kind) -> Entry | None:
    return next((one for one in entries if one.kind is kind), None)
