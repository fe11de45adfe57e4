"""From the facts of a run to the answers about it: summary, failure, timeline, next. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any

from operator_protocols.domain.category import ControlCategory, ErrorCategory, NextAction
from operator_protocols.domain.entry import Entry, Kind
from operator_protocols.domain.run_record import RunRecord
from operator_protocols.domain.ticket import Ticket, TicketState
from operator_protocols.errors import UsageError
from operator_sre.contract import evidence
from operator_sre.contract.documents import is_valid_error_category
from operator_sre.contract.evidence import ADVICE
from operator_sre.contract.messages import (
    ConfirmationRequirement,
    EvidenceRef,
    ExplainFailureResponse,
    GetRunTimelineResponse,
    NextActionResponse,
    RedactedExcerpt,
    RunStatus,
    SummarizeRunResponse,
    TimelineEvent,
)

__all__ = [
    "Denial",
    "Idle",
    "NotFailedError",
    "RunFacts",
    "Waiting",
    "category_of",
    "denials_of",
    "failure_of",
    "idle_of",
    "next_of",
    "obstacle_of",
    "summary_of",
    "timeline_of",
]

# The entries by which the history knows a command: it started, or it was refused.
ATTEMPTS = frozenset({Kind.TOOL_CALL, Kind.REFUSED})
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
CLAIMED = TicketState.CLAIMED
# Entries that start a span of the run's trace.
SPANNED = frozenset(
    {
        *(Kind.RUN_STARTED, Kind.REASONING, Kind.TOOL_CALL, Kind.REFUSED),
        *(Kind.PROOF, Kind.APPROVAL_REQUESTED),
    }
)
_ORDER = attrgetter("timestamp", "audit_seq")


@dataclass(frozen=True, slots=True)
class Denial:
    """One action that the gate refused: its entry, and the verdict before it."""

    entry: Entry
    verdict: Mapping[str, Any] = field(default_factory=dict)
    judged: Entry | None = None

    @property
    def action(self) -> Mapping[str, Any]:
        """The refused action."""
        found: Mapping[str, Any] = self.entry.payload.get("action") or {}
        return found

    @property
    def why(self) -> str:
        """The reason that the agent received."""
        return str((self.entry.payload.get("result") or {}).get("stderr", "")).strip()


@dataclass(frozen=True, slots=True)
class Waiting:
    """A decision of a person that a run waits for, and the place that shows it."""

    sentence: str
    evidence: EvidenceRef
    next_action: NextAction = NextAction.ASK_USER
    confirmation: ConfirmationRequirement | None = None


@dataclass(frozen=True, slots=True)
class Idle:
    """Why no agent works on a run now, and the next action."""

    sentence: str
    next_action: NextAction
    evidence: tuple[EvidenceRef, ...] = ()


@dataclass(frozen=True, slots=True)
class RunFacts:
    """A run with all its entries, oldest first; `halted` when the kill switch holds it."""

    run: RunRecord
    entries: Sequence[Entry]
    ticket_state: str = ""
    halted: str = ""
    waiting: Waiting | None = None
    idle: Idle | None = None

    @property
    def status(self) -> RunStatus:
        """The state of the run; a run that the kill switch holds is stopped, not running."""
        known = self.run.state in tuple(RunStatus)
        status = RunStatus(self.run.state) if known else RunStatus.FAILED
        return RunStatus.STOPPED if status is RunStatus.RUNNING and self.halted else status

    @property
    def category(self) -> ErrorCategory | None:
        """Why it failed; None exactly when it did not."""
        if self.status is not RunStatus.FAILED:
            return None
        return category_of(self.last(Kind.RUN_FINISHED)) or ErrorCategory.AGENT_RUNTIME_EXCEPTION

    def last(self, *kinds: Kind) -> Entry | None:
        """The newest entry of these kinds."""
        return next((entry for entry in reversed(self.entries) if entry.kind in kinds), None)

    def count(self, kind: Kind) -> int:
        """How many entries of a kind there are."""
        return sum(entry.kind is kind for entry in self.entries)


def denials_of(entries: Sequence[Entry]) -> list[Denial]:
    """What the gate refused, oldest first.

    An action that was never judged was refused for another reason, such as a missing diagnosis;
    a permitted action was refused by the executor.
    """
    judged, minted = _Judged(), set[str]()
    found = []
    for entry in entries:
        if entry.kind is Kind.VERDICT:
            judged.add(entry)
        elif entry.kind is Kind.PERMIT_MINTED:
            minted.add(str(entry.payload.get("permit", "")))
        elif entry.kind is Kind.REFUSED:
            before = judged.take(entry.payload.get("action"))
            permit = str(entry.payload.get("permit", ""))
            permitted = permit != "" and permit in minted
            # A late action was postponed, and is proposed again.
            outcome = (entry.payload.get("result") or {}).get("outcome")
            if before is not None and not permitted and outcome == "refused":
                found.append(Denial(entry, before.payload, before))
        elif entry.kind is Kind.TOOL_RESULT and category_of(entry) is ErrorCategory.POLICY_DENIED:
            found.append(Denial(entry))
    return found


class _Judged:
    """Verdicts without a result yet. A refusal nearly always belongs to the newest one."""

    def __init__(self) -> None:
        self._newest: Entry | None = None
        self._earlier: dict[str, Entry] = {}

    def add(self, verdict: Entry) -> None:
        """Add a verdict; of several about the same action the newest counts."""
        if self._newest is not None:
            self._earlier[_name_of(self._newest.payload["action"])] = self._newest
        self._newest = verdict

    def take(self, action: object) -> Entry | None:
        """The newest verdict about an action, once."""
        newest = self._newest
        if newest is not None and newest.payload["action"] == action:
            self._newest = None
        earlier = self._earlier.pop(_name_of(action), None) if self._earlier else None
        return earlier if self._newest is newest else newest


def _name_of(action: object) -> str:
    """A key of an action: the ledger keeps the keys of an object in order."""
    return repr(action)


def category_of(entry: Entry | None) -> ErrorCategory | None:
    """The category that a record carries, of a run or of a result."""
    if entry is None:
        return None
    result = entry.payload.get("result") or {}
    word = entry.payload.get("category") or (result.get("data") or {}).get("error_category")
    return ErrorCategory(str(word)) if is_valid_error_category(word) else None


def obstacle_of(facts: RunFacts) -> Entry | None:
    """The newest entry that shows the failure: of its category, else the last failed one."""
    category, newest = facts.category, None
    for entry in reversed(facts.entries):
        result = entry.payload.get("result") or {}
        if entry.kind not in (Kind.TOOL_RESULT, Kind.REFUSED) or (
            result.get("outcome") == "ran" and result.get("exit_code") in (0, None)
        ):
            continue
        if category_of(entry) is category:
            return entry
        newest = newest or entry
    return newest


def attempt_of(entries: Sequence[Entry], outcome: Entry) -> Entry | None:
    """The entry with which a command began; a refusal is its own."""
    if outcome.kind is Kind.REFUSED:
        return outcome
    permit = outcome.payload.get("permit")
    calls = (entry for entry in reversed(entries) if entry.kind is Kind.TOOL_CALL)
    return next((call for call in calls if call.payload.get("permit") == permit), None)


class NotFailedError(UsageError):
    """A run that did not fail has no failure to explain."""

    exit_code = 1

    def __init__(self, facts: RunFacts) -> None:
        run, status = facts.run, facts.status
        how = {
            RunStatus.COMPLETED: f"it completed. {run.summary}",
            RunStatus.STOPPED: "it was stopped before it finished.",
        }
        message = f"Run {run.id!r} did not fail: {how.get(status, 'it has not ended.')}".strip()
        answer = next_of(facts)
        super().__init__(message, next_step=f"Next: {answer.next_action}. {answer.rationale}")
        self.next_action = answer.next_action
        if status is not RunStatus.RUNNING:
            self.control = ControlCategory.RUN_TERMINAL


def idle_of(
    run: RunRecord,
    ticket: Ticket | None,
    entries: Sequence[Entry],
    *,
    lease_ends: datetime | None,
    now: datetime,
) -> Idle | None:
    """Why no agent works on the run now; None while one does, or when the run is simply over."""
    if ticket is None or ticket.run != run.id:
        if run.finished_at is not None:
            return None
        later = "was removed" if ticket is None else f"went on with run {ticket.run or 'none'}"
        why = f"The run never recorded its end, and its ticket {later}. Nothing will resume it."
        return Idle(why, NextAction.EXPORT_AUDIT)
    if ticket.pause is not None and ticket.is_paused(now) and ticket.state is not CLAIMED:
        until = ticket.pause.until
        when = f"until {_clock(until)}" if until else "until a person resumes it"
        resume = evidence.of_command(f"operator tickets unhold {ticket.id}", "resume the ticket")
        why = f"{ticket.pause.by} paused ticket {ticket.id} {when}. {ticket.pause.reason}".strip()
        return Idle(why, NextAction.ASK_USER, (resume,))
    if run.finished_at is not None:
        return None
    start = evidence.of_command("operator agent start", "start an agent, which resumes the run")
    if ticket.state is CLAIMED:
        if lease_ends is not None and lease_ends > now:
            return None
        since = f" since {_clock(lease_ends)}" if lease_ends else ""
        why = (
            f"Orphaned: worker {ticket.worker or 'unknown'} has not renewed its lease{since}. The"
            " next agent that starts or polls resumes the run."
        )
        return Idle(why, NextAction.RERUN, (start,))
    kinds = (Kind.TICKET_RELEASED, Kind.TICKET_CLAIMED)
    last = next((entry for entry in reversed(entries) if entry.kind in kinds), None)
    if last is None or last.kind is not Kind.TICKET_RELEASED:
        return Idle("Parked: no agent works on the run.", NextAction.RERUN, (start,))
    reason = str(last.payload.get("reason") or "")
    not_before = datetime.fromtimestamp(float(last.payload.get("not_before") or 0), UTC)
    refs = (evidence.of_entry(last, "the release of the ticket"), start)
    if not_before > now and "category" in last.payload:
        why = f"The last attempt failed. {reason} Operator tries again at {_clock(not_before)}."
        return Idle(why, NextAction.RERUN, refs)
    decided = " The request is decided." if reason.startswith("Pending approval") else ""
    why = f"Parked: no agent works on the run. {reason}{decided} The next agent resumes it."
    return Idle(why, NextAction.RERUN, refs)


def _clock(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def summary_of(facts: RunFacts) -> SummarizeRunResponse:
    """The result of a run, in figures and a sentence."""
    run, denials = facts.run, denials_of(facts.entries)
    status = facts.status
    finished = run.finished_at if status is not RunStatus.RUNNING else None
    took = (finished - run.started_at).total_seconds() if finished else 0.0
    about = f"the run of {run.model} on ticket {run.ticket}"
    if facts.halted and status is RunStatus.STOPPED and run.finished_at is None:
        summary = f"Stopped: {about} is held by the kill switch. {facts.halted}".strip()
    elif facts.waiting is not None and status is RunStatus.RUNNING:
        summary = f"Running: {about} waits. {facts.waiting.sentence}"
    elif facts.idle is not None and status is RunStatus.RUNNING:
        summary = f"Not finished: {about}. {facts.idle.sentence}"
    elif status is RunStatus.RUNNING:
        summary = f"Running: {about} has not ended."
    else:
        ended = f" and the ticket is {facts.ticket_state}" if facts.ticket_state else ""
        summary = f"{status.capitalize()}: {about} has ended{ended}. {run.summary}".strip()
    # The entries to read first: diagnosis, denials, proof and end.
    kinds = (Kind.RUN_STARTED, Kind.DIAGNOSIS, Kind.PROOF, Kind.RUN_FINISHED)
    refs = [evidence.of_run(run.id)]
    refs += [evidence.of_entry(entry) for entry in map(facts.last, kinds) if entry is not None]
    refs += [evidence.of_entry(denial.entry, "denied") for denial in denials[-EVIDENCE_MAX:]]
    refs += [facts.waiting.evidence] if facts.waiting else []
    return SummarizeRunResponse(
        run_id=run.id,
        status=status,
        exit_code=1 if status is RunStatus.FAILED else 0,
        started_at=run.started_at,
        finished_at=finished,
        duration_ms=max(0, round(took * 1000)),
        summary=summary,
        invocations=facts.count(Kind.REASONING),
        policy_denials=len(denials),
        error_category=facts.category,
        evidence_refs=tuple(refs),
    )


def failure_of(facts: RunFacts, rule_of: Callable[[Denial], EvidenceRef]) -> ExplainFailureResponse:
    """Why a run failed. NotFailedError when it did not."""
    category = facts.category
    if category is None:
        raise NotFailedError(facts)
    next_action, advice = ADVICE[category]
    denials = denials_of(facts.entries)
    shown, last = obstacle_of(facts), facts.last(Kind.RUN_FINISHED)
    refs = [evidence.of_run(facts.run.id)]
    refs += [evidence.of_entry(last, f"the run ended: {category}")] if last else []
    excerpts: list[RedactedExcerpt] = []
    if shown:
        refs.append(evidence.of_entry(shown, "failed step"))
        # The end of the failed step's output; the ledger has redacted it already.
        result = shown.payload.get("result") or {}
        if text := str(result.get("stderr") or result.get("stdout") or "").strip():
            end = "\n".join(text.splitlines()[-EXCERPT_LINES_MAX:])[-EXCERPT_CHARACTERS_MAX:]
            excerpts.append(RedactedExcerpt(source=f"audit:{shown.seq}", content=end))
            refs.append(evidence.of_excerpt(shown))
        attempt = attempt_of(facts.entries, shown)
        refs += [evidence.of_output(attempt)] if attempt else []
    if category.value == DENIED and denials:
        refs.append(rule_of(denials[-1]))
    refs.append(evidence.of_command(f"operator timeline {facts.run.id}", "every step, in order"))
    return ExplainFailureResponse(
        run_id=facts.run.id,
        error_category=category,
        root_cause=f"{facts.run.summary or 'The run ended without a summary.'} {advice}",
        redacted_excerpts=tuple(excerpts),
        evidence_refs=tuple(refs),
        next_action=next_action,
    )


def timeline_of(facts: RunFacts, tell: Callable[[Entry], str]) -> GetRunTimelineResponse:
    """The events of a run, oldest first; `tell` puts an entry into words."""
    denied = {denial.entry.seq for denial in denials_of(facts.entries)}
    events = []
    for entry in facts.entries:
        event = EVENTS.get(entry.kind, entry.kind.value)
        if entry.seq in denied:
            event = DENIED
        elif entry.kind is Kind.RUN_FINISHED:
            state = entry.payload.get("state")
            status = RunStatus(state) if state in tuple(RunStatus) else facts.status
            event = ENDS.get(status, "run_failed")
        refs = [evidence.of_entry(entry, "ledger entry")]
        if entry.kind in SPANNED:
            refs.append(evidence.of_span(entry, "trace span"))
            refs += [evidence.of_output(entry)] if entry.kind in ATTEMPTS else []
        events.append(
            TimelineEvent(
                timestamp=entry.at,
                event_type=event,
                audit_seq=entry.seq,
                detail=tell(entry) or entry.kind.replace("_", " "),
                evidence_refs=tuple(refs),
            )
        )
    events.sort(key=_ORDER)
    return GetRunTimelineResponse(run_id=facts.run.id, events=tuple(events))


def next_of(facts: RunFacts) -> NextActionResponse:
    """Exactly one next action, also after a run that did not fail."""
    run, waiting = facts.run, facts.waiting
    last = facts.last(Kind.RUN_FINISHED)
    refs = [evidence.of_entry(last, "end of the run")] if last else []
    # The last handoff, unless an agent of ours has claimed the ticket since.
    handed = facts.last(Kind.TICKET_HANDED_OFF, Kind.TICKET_REOPENED, Kind.TICKET_CLAIMED)
    is_left = facts.status is not RunStatus.RUNNING or facts.idle is not None
    if waiting is not None:
        action, why, refs = waiting.next_action, waiting.sentence, [waiting.evidence]
    elif handed is not None and handed.kind is Kind.TICKET_HANDED_OFF and is_left:
        action = NextAction.REVIEW_HANDOFF
        why = "The ticket was handed off. Review the handoff."
        refs = [evidence.of_entry(handed)]
    elif facts.idle is not None and not facts.halted:
        idle = facts.idle
        action, why, refs = idle.next_action, idle.sentence, [*refs, *idle.evidence]
    elif facts.status is RunStatus.RUNNING:
        action = NextAction.ASK_USER
        why = "The run is in progress. Nothing needs to be done until it ends."
        refs = [evidence.of_command(f"operator timeline {run.id}", "progress of the run")]
    elif facts.status is RunStatus.STOPPED:
        action = NextAction.RERUN
        why = "The run was stopped before it finished. Ask who stopped it, then run it again."
    elif facts.category is not None:
        action, advice = ADVICE[facts.category]
        why = f"{facts.category}: {advice}"
    elif facts.ticket_state == TicketState.WATCHED:
        action = NextAction.ASK_USER
        why = "The system recovered. Nothing needs to be done while Operator watches it."
    elif facts.ticket_state in (TicketState.OPEN, CLAIMED):
        action = NextAction.RERUN
        why = "The run ended, and its ticket is open again. The next agent starts a new run."
        refs.append(evidence.of_command(f"operator tickets show {run.ticket}", "the ticket"))
    elif facts.ticket_state != TicketState.ESCALATED:
        action = NextAction.EXPORT_AUDIT
        why = "The run ended normally. Export its audit record for review."
        export = f"operator audit export --format jsonl --run {run.id}"
        refs.append(evidence.of_command(export, "audit record"))
    elif denials := denials_of(facts.entries):
        action = NextAction.REVIEW_POLICY_PATCH
        why = f"An action was denied: {denials[-1].why or 'no reason was recorded.'}"
        refs = [*(evidence.of_entry(denial.entry, "denied") for denial in denials[-3:]), *refs]
    else:
        action = NextAction.ASK_USER
        why = f"The ticket was escalated. {run.summary}".strip()
    return NextActionResponse(
        run_id=run.id,
        next_action=action,
        rationale=why,
        evidence_refs=(evidence.of_run(run.id), *refs),
        confirmation=waiting.confirmation if waiting else None,
    )
