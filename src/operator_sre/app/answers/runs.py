"""Questions about one run, answered from its own entries: what else there is costs nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from operator_protocols.domain.category import ErrorCategory, NextAction
from operator_protocols.domain.confirmation import Boundary, Confirmation, ConfirmationState
from operator_protocols.domain.entry import Entry, Kind
from operator_protocols.domain.permit import ApprovalState
from operator_protocols.domain.run_record import RunRecord
from operator_protocols.errors import NotFoundError
from operator_sre.app.answers.texts import blocking_rule, collapse_marks, without_secrets
from operator_sre.app.story import lines_of, summarize_entry
from operator_sre.contract import SCHEMA_VERSION, evidence
from operator_sre.contract.accounts import (
    Denial,
    RunFacts,
    Waiting,
    failure_of,
    idle_of,
    next_of,
    summary_of,
    timeline_of,
)
from operator_sre.contract.editions import amend_document
from operator_sre.contract.evidence import ADVICE, after_decline
from operator_sre.contract.messages import (
    EvidenceRef,
    ExplainFailureRequest,
    ExplainFailureResponse,
    GetRunTimelineRequest,
    GetRunTimelineResponse,
    Message,
    NextActionRequest,
    NextActionResponse,
    SummarizeRunRequest,
    SummarizeRunResponse,
)

if TYPE_CHECKING:
    from operator_sre.app.wiring import App

__all__ = [
    "document_in",
    "entries_of",
    "explain_failure",
    "facts_of",
    "next_action",
    "rule_evidence",
    "run_timeline",
    "summarize_run",
    "waiting_for",
]

PAGE = 1000
ENTRIES_MAX = 20_000
# How many entries are searched for the next action of a home.
RECENT_MAX = 200
RUN_TEXT_MAX = 200
# More than people are ever asked at once, and further back than what was declined is still news.
PENDING_MAX, DECLINED_MAX = 1000, 100
# The next action for a pending change, by its boundary; ask_user for all others.
LOOKED_AT: Mapping[Boundary, NextAction] = {
    Boundary.POLICY_PATCH: NextAction.REVIEW_POLICY_PATCH,
    Boundary.RULE_LOOSENED: NextAction.REVIEW_POLICY_PATCH,
    Boundary.EGRESS: NextAction.REVIEW_POLICY_PATCH,
    Boundary.MODE_EXECUTE: NextAction.REVIEW_POLICY_PATCH,
    Boundary.HANDOFF: NextAction.REVIEW_HANDOFF,
    Boundary.CREDENTIAL_BINDING: NextAction.SET_SECRET,
    Boundary.DIRECT_LEASE: NextAction.SET_SECRET,
}


def summarize_run(app: App, request: SummarizeRunRequest) -> SummarizeRunResponse:
    """How a run went."""
    return without_secrets(summary_of(facts_of(app, request.run_id)), collapse_marks)


def explain_failure(app: App, request: ExplainFailureRequest) -> ExplainFailureResponse:
    """Why a run failed, and the one thing to do next."""
    found = failure_of(facts_of(app, request.run_id), lambda denial: rule_evidence(app, denial))
    return without_secrets(found, collapse_marks)


def run_timeline(app: App, request: GetRunTimelineRequest) -> GetRunTimelineResponse:
    """All that happened in a run, oldest first."""

    # An entry as people read it, in one line: all of a timeline that others wrote.
    def describe(entry: Entry) -> str:
        if entry.kind is Kind.RUN_FINISHED:
            return collapse_marks(f"{entry.payload['state']}: {entry.payload['summary']}")
        if entry.kind is Kind.RUN_STARTED:
            return collapse_marks(f"{entry.payload['model']} starts")
        text = " ".join([line.text for line in lines_of(entry)]) or summarize_entry(entry)
        return collapse_marks(text)

    return timeline_of(facts_of(app, request.run_id), describe)


def next_action(app: App, request: NextActionRequest) -> NextActionResponse:
    """The one thing to do next: about a run, or about all there is."""
    answer = next_of(facts_of(app, request.run_id)) if request.run_id else _next_of_home(app)
    return without_secrets(answer, collapse_marks)


def document_in(app: App, answer: Message, edition: str) -> dict[str, Any]:
    """The document of an answer in an edition of the contract."""
    run = str(getattr(answer, "run_id", ""))
    is_later = run and edition != SCHEMA_VERSION
    document = amend_document(answer, facts_of(app, run) if is_later else None, edition=edition)
    for part, name in ((document, "latest_reason"), (document.get("attempt_report"), "reason")):
        if part and name in part:
            part[name] = collapse_marks(part[name])
    return document


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
    entries, now = entries_of(app, run), app.clock.now()
    ends = app.store.backlog.lease_end(record.ticket)
    return RunFacts(
        run=record,
        entries=entries,
        ticket_state=ticket.state.value if ticket and ticket.run == run else "",
        halted=f"{switch.by} turned it on: {switch.reason}" if switch and switch.on else "",
        waiting=waiting_for(app, record),
        idle=idle_of(record, ticket, entries, lease_ends=ends, now=now),
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


def _next_of_home(app: App) -> NextActionResponse:
    """The most urgent action of a home: pending decisions first, then the newest failure."""
    waiting = waiting_for(app)
    if waiting is not None:
        return NextActionResponse(
            next_action=waiting.next_action,
            rationale=waiting.sentence,
            evidence_refs=(waiting.evidence,),
            confirmation=waiting.confirmation,
        )
    newest: dict[Kind, Entry] = {}
    for entry in app.store.entries.newest(limit=RECENT_MAX):
        newest.setdefault(entry.kind, entry)
    damaged = newest.get(Kind.SEGMENT_STARTED)
    if damaged is not None:
        return NextActionResponse(
            next_action=NextAction.EXPORT_AUDIT,
            rationale="The ledger is damaged. Export it for an investigation.",
            evidence_refs=(evidence.of_entry(damaged),),
        )
    refused = newest.get(Kind.TRIGGER_REFUSED)
    runs = app.store.runs.newest(limit=1)
    if refused is not None and (not runs or refused.at > runs[0].started_at):
        action, advice = ADVICE[ErrorCategory.TRIGGER_AUTH_FAILED]
        return NextActionResponse(
            next_action=action, rationale=advice, evidence_refs=(evidence.of_entry(refused),)
        )
    if runs:
        return next_of(facts_of(app, runs[0].id))
    start = evidence.of_command("operator validate", "check that the project is ready")
    return NextActionResponse(
        next_action=NextAction.ASK_USER,
        rationale="Operator watches nothing yet. Configure a subject.",
        evidence_refs=(start,),
    )


def waiting_for(app: App, run: RunRecord | None = None) -> Waiting | None:
    """What one run waits for, or what all wait for: a change first, then a command."""

    def is_about(change: Confirmation) -> bool:
        return run is None or change.run == run.id or change.ticket == run.ticket

    confirmations = app.store.confirmations
    pending = confirmations.page(
        states=(ConfirmationState.PENDING,), alive_at=app.clock.now(), limit=PENDING_MAX
    )
    if alive := [change for change in pending if is_about(change)]:
        from operator_sre.app.confirmations import requirement

        change = alive[-1]
        return Waiting(
            f"A person must confirm or decline {change.id} ({change.boundary}): {change.rationale}",
            _show_change(change),
            LOOKED_AT.get(change.boundary, NextAction.ASK_USER),
            requirement(change),
        )
    declined = confirmations.newest(states=(ConfirmationState.DECLINED,), limit=DECLINED_MAX)
    for change in filter(is_about, declined):
        # A declined change counts until a later run has ended or started.
        decided_at = change.decided_at or change.requested_at
        if run is None:
            runs = app.store.runs.newest(limit=1)
            is_news = not runs or runs[0].started_at < decided_at
        else:
            is_news = run.finished_at is None or run.finished_at <= decided_at
        if is_news:
            because = f": {change.reason}" if change.reason else ""
            who = change.decided_by or "A person"
            why = f"{who} declined {change.id} ({change.boundary}){because}."
            return Waiting(why, _show_change(change), after_decline(change.boundary))
        break
    run_id = run.id if run else ""
    now = app.clock.now()
    pending_requests = app.store.approvals.find(states=(ApprovalState.PENDING,), run=run_id)
    # A request that is out of time can no longer be decided, also before that is recorded.
    requests = [request for request in pending_requests if request.expires_at > now]
    if not requests:
        return None
    approval = requests[0]
    command = f"operator approvals show {approval.id}"
    why = f"Approval required for request {approval.id}: {approval.action.command}."
    return Waiting(why, evidence.of_command(command, "the request and its effect"))


def _show_change(change: Confirmation) -> EvidenceRef:
    show = f"operator confirmations show {change.id}"
    return evidence.of_command(show, "the exact change and its effect")
