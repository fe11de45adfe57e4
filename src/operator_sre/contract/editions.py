"""What contract 1.1.0 adds to the answers of 1.0.0, for callers that name it. Pure.

Every answer is made as 1.0.0 defines it. A caller that names a later minor version gets the same
document with more fields, more precise categories and more precise next actions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from operator_protocols.domain.category import ControlCategory, ErrorCategory, NextAction, Recovery
from operator_protocols.domain.entry import Entry, Kind
from operator_protocols.errors import OperatorError, UsageError
from operator_sre.contract import SCHEMA_VERSION
from operator_sre.contract.accounts import RunFacts, next_of
from operator_sre.contract.documents import as_document
from operator_sre.contract.messages import Message, RunStatus

__all__ = [
    "EDITIONS",
    "LATEST",
    "AttemptReport",
    "BudgetSummary",
    "Progress",
    "TimeSummary",
    "amend_document",
    "attempt_report",
    "edition_of",
    "error_document",
    "problem_document",
    "recovery_of",
]

LATEST = "1.1.0"
EDITIONS = (SCHEMA_VERSION, LATEST)
# What helps when a limit of the budget was reached. Only money has no better name than 1.0.0 has.
_RECOVERIES: Mapping[str, Recovery] = {
    "turns": Recovery.SPLIT_TASK,
    "commands": Recovery.SPLIT_TASK,
    "tokens": Recovery.LARGER_CONTEXT,
    "seconds": Recovery.MORE_TIME,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress(Message):
    """How far an attempt came."""

    model_calls_completed: int = 0
    tool_calls_completed: int = 0
    actions_without_progress: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeSummary(Message):
    """How long an attempt took, in milliseconds."""

    attempt_duration_ms: int = 0
    run_active_time_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetSummary(Message):
    """What the model used; the cost is a decimal number in dollars."""

    total_tokens: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    total_cost_decimal: str = ""
    model_calls: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptReport(Message):
    """The newest attempt of a run. A run has one attempt for each time that a worker claimed it."""

    run_id: str
    attempt_id: str
    status: RunStatus
    reason: str = ""
    failure_scope: str = ""
    recovery_disposition: str = ""
    resume_capability: str = ""
    progress: Progress | None = None
    time: TimeSummary | None = None
    llm_budget: BudgetSummary | None = None
    recommended_actions: tuple[str, ...] = ()
    evidence_refs: tuple[str, ...] = ()
    created_at: datetime | None = None
    schema_version: str = LATEST


def edition_of(version: str) -> str:
    """The newest edition that a caller of this version can read. UsageError for another major."""
    parts = version.split(".")
    if len(parts) == 3 and all(part.isascii() and part.isdigit() for part in parts):
        wanted = tuple(int(part[:9]) for part in parts)
        known = [name for name in EDITIONS if tuple(map(int, name.split("."))) <= wanted]
        if known and wanted[0] == int(EDITIONS[0].split(".")[0]):
            return known[-1]
    raise UsageError(
        f"Contract {version[:40]!r} is not spoken here.",
        next_step=f"Ask for one of: {', '.join(EDITIONS)}.",
    )


def recovery_of(facts: RunFacts) -> Recovery | None:
    """The next action where 1.1.0 has a more precise one; None where it is that of 1.0.0."""
    if facts.halted:
        return Recovery.STOP
    end = facts.last(Kind.RUN_FINISHED)
    if facts.category is ErrorCategory.BUDGET_EXCEEDED and end is not None:
        return _RECOVERIES.get(str(end.payload.get("limit", "")))
    if (
        facts.status is RunStatus.COMPLETED
        and facts.ticket_state == "escalated"
        and facts.last(Kind.DIAGNOSIS, Kind.TICKET_HANDED_OFF) is None
    ):
        return Recovery.CAPABILITY_UP  # this agent found no cause
    return None


def attempt_report(facts: RunFacts) -> AttemptReport:
    """The newest attempt of a run in figures."""
    run, status = facts.run, facts.status
    claims = [at for at, entry in enumerate(facts.entries) if entry.kind is Kind.TICKET_CLAIMED]
    attempt: list[Entry] = list(facts.entries[claims[-1] if claims else 0 :])
    turns = [entry for entry in attempt if entry.kind is Kind.REASONING]
    spent = [entry.payload.get("spent") or {} for entry in turns]
    tokens_in = sum(int(part.get("tokens_in") or 0) for part in spent)
    tokens_out = sum(int(part.get("tokens_out") or 0) for part in spent)
    cost = sum(float(part.get("usd") or 0) for part in spent)
    results = [entry for entry in attempt if entry.kind is Kind.TOOL_RESULT]
    proofs = [at for at, entry in enumerate(attempt) if entry.kind is Kind.PROOF]
    since = [entry for entry in attempt[proofs[-1] + 1 if proofs else 0 :] if entry in results]
    started = attempt[0].at if attempt else run.started_at
    ended = run.finished_at or (attempt[-1].at if attempt else started)
    over = run.finished_at is not None
    recovery = recovery_of(facts)
    return AttemptReport(
        run_id=run.id,
        attempt_id=f"{run.id}/{max(1, len(claims))}",
        status=status,
        reason=facts.idle.sentence if facts.idle else run.summary,
        failure_scope=_scope(facts.category),
        recovery_disposition="ended" if over else "resumable",
        resume_capability="none" if over else "ledger",
        progress=Progress(
            model_calls_completed=len(turns),
            tool_calls_completed=len(results),
            actions_without_progress=len(since),
        ),
        time=TimeSummary(
            attempt_duration_ms=_milliseconds(started, ended),
            run_active_time_ms=_milliseconds(run.started_at, ended),
        ),
        llm_budget=BudgetSummary(
            total_tokens=tokens_in + tokens_out,
            input_tokens=tokens_in,
            output_tokens=tokens_out,
            total_cost_decimal=f"{cost:.6f}" if cost else "",
            model_calls=len(turns),
        ),
        recommended_actions=((recovery or next_of(facts).next_action).value,),
        evidence_refs=tuple(f"audit_seq:{entry.seq}" for entry in attempt[-1:]),
        created_at=started,
    )


def amend_document(message: Message, facts: RunFacts | None, *, edition: str) -> dict[str, Any]:
    """The document of an answer in this edition; `facts` are those of its run, if it has one."""
    document = as_document(message)
    if edition == SCHEMA_VERSION:
        return document
    document["schema_version"] = edition
    if facts is None:
        return document
    recovery = recovery_of(facts)
    match type(message).__name__:
        case "SummarizeRunResponse":
            document["attempt_report"] = as_document(attempt_report(facts))
        case "ExplainFailureResponse" | "NextActionResponse":
            if recovery is not None:
                document["next_action"] = recovery.value
            reason = facts.idle.sentence if facts.idle else facts.run.summary
            if reason:
                document["latest_reason"] = reason
            if "error_category" in document:
                document["latest_action"] = document["next_action"]
        case _:
            pass
    return document


def error_document(
    category: ErrorCategory,
    message: str,
    action: NextAction,
    *,
    control: ControlCategory | None = None,
) -> dict[str, str]:
    """An error as 1.1.0 writes it: flat, with the more precise category where there is one."""
    return {
        "schema_version": LATEST,
        "category": (control or category).value,
        "message": message,
        "next_action": action.value,
    }


def problem_document(error: OperatorError) -> dict[str, str]:
    """An error of ours as 1.1.0 writes it."""
    return error_document(error.category, str(error), error.next_action, control=error.control)


def _scope(category: ErrorCategory | None) -> str:
    """Where a failure lies: in the worker, the rules, what the run needs, or the run itself."""
    if category is None:
        return ""
    scopes = {
        ErrorCategory.HARNESS_HEALTH_FAILED: "worker",
        ErrorCategory.POLICY_DENIED: "policy",
        ErrorCategory.DEPENDENCY_CONFLICT: "environment",
        ErrorCategory.DOCKER_UNAVAILABLE: "environment",
        ErrorCategory.MISSING_SECRET_BINDING: "environment",
    }
    return scopes.get(category, "run")


def _milliseconds(start: datetime, end: datetime) -> int:
    return max(0, round((end - start).total_seconds() * 1000))
