"""One whole message of every kind, and one failure of every category."""

from __future__ import annotations

from datetime import UTC, datetime

from operator_protocols.domain.category import ErrorCategory, NextAction
from operator_protocols.domain.entry import Actor, Entry, Kind
from operator_sre.contract import evidence
from operator_sre.contract.evidence import ADVICE
from operator_sre.contract.messages import (
    ConfirmationRequirement,
    ExplainFailureRequest,
    ExplainFailureResponse,
    ExplainPolicyDenialRequest,
    ExplainPolicyDenialResponse,
    GetRunTimelineRequest,
    GetRunTimelineResponse,
    Message,
    NextActionRequest,
    NextActionResponse,
    RecommendPolicyPatchRequest,
    RecommendPolicyPatchResponse,
    RedactedExcerpt,
    RiskLevel,
    RunStatus,
    SummarizeRunRequest,
    SummarizeRunResponse,
    TimelineEvent,
    ValidateAgentProjectRequest,
    ValidateAgentProjectResponse,
    ValidationIssue,
)

__all__ = ["DENIED_SEQ", "RUN", "failures", "requests", "responses"]

NOON = datetime(2026, 1, 2, 12, 0, 0, tzinfo=UTC)
RUN = "run-0123456789"
DENIED_SEQ = 42
DENIED = Entry(DENIED_SEQ, NOON, Kind.REFUSED, {}, 1, RUN, Actor(), "", "")
ENTRY = evidence.of_entry(DENIED, "the denial")
RULE = evidence.of_rule("blocked[0]", "delete_system: It deletes the root of the file system.")
ASKED = ConfirmationRequirement(
    requires_confirmation=True,
    confirmation_id="c0ffee",
    risk_level=RiskLevel.MEDIUM,
    rationale="It lets commands reach api.example.com.",
    affected_destinations=("api.example.com",),
    credential_ids=("api-token",),
    evidence_refs=(ENTRY,),
)


def failures() -> dict[str, ExplainFailureResponse]:
    """A failure of every category."""
    return {
        category.value: ExplainFailureResponse(
            run_id=RUN,
            error_category=category,
            root_cause=ADVICE[category][1],
            redacted_excerpts=(
                RedactedExcerpt(
                    source="audit:42", start_line=3, end_line=4, content="key=[REDACTED]\nfailed"
                ),
            ),
            evidence_refs=(
                evidence.of_run(RUN),
                ENTRY,
                evidence.of_excerpt(DENIED),
                evidence.of_output(DENIED),
                evidence.of_command(f"operator timeline {RUN}", "every step, in order"),
            ),
            next_action=ADVICE[category][0],
        )
        for category in ErrorCategory
    }


def requests() -> dict[str, Message]:
    """Every question."""
    return {
        "validate_agent_project": ValidateAgentProjectRequest(project_dir="/srv/project"),
        "summarize_run": SummarizeRunRequest(run_id=RUN),
        "explain_failure": ExplainFailureRequest(run_id=RUN),
        "explain_policy_denial": ExplainPolicyDenialRequest(run_id=RUN, action="rm -rf /"),
        "recommend_policy_patch": RecommendPolicyPatchRequest(
            request="allow host api.example.com", risk_level=RiskLevel.HIGH
        ),
        "get_run_timeline": GetRunTimelineRequest(run_id=RUN),
        "next_action": NextActionRequest(run_id=RUN),
    }


def responses() -> dict[str, Message]:
    """Every answer, with every field set."""
    issue = ValidationIssue(
        category=ErrorCategory.POLICY_VALIDATION_FAILED,
        message="policy.yaml:3:1: 'sfae' is unknown.",
        evidence_refs=(evidence.of_command("operator policy check policy.yaml", "again"),),
        next_action=NextAction.FIX_CODE,
    )
    event = TimelineEvent(
        timestamp=NOON,
        event_type="policy_denied",
        audit_seq=42,
        detail="not run: Blocked: it never runs.",
        evidence_refs=(ENTRY, evidence.of_span(DENIED), evidence.of_output(DENIED)),
    )
    return {
        "validate_agent_project": ValidateAgentProjectResponse(
            ready=False, project_dir="/srv/project", runtime="declarative", issues=(issue,)
        ),
        "summarize_run": SummarizeRunResponse(
            run_id=RUN,
            status=RunStatus.FAILED,
            exit_code=1,
            started_at=NOON,
            finished_at=NOON.replace(minute=1),
            duration_ms=60_000,
            summary="Failed: the budget is used up.",
            invocations=40,
            policy_denials=1,
            error_category=ErrorCategory.BUDGET_EXCEEDED,
            evidence_refs=(evidence.of_run(RUN), ENTRY),
        ),
        "explain_failure": failures()["policy_denied"],
        "explain_policy_denial": ExplainPolicyDenialResponse(
            run_id=RUN,
            denied_action="rm -rf /",
            blocking_rule_id="blocked[0]",
            policy_digest=f"sha256:{'0' * 64}",
            rationale="It never runs.",
            evidence_refs=(ENTRY, RULE),
            next_action=NextAction.REVIEW_POLICY_PATCH,
        ),
        "recommend_policy_patch": RecommendPolicyPatchResponse(
            proposed_patch="--- policy.yaml\n+++ policy.yaml\n@@ -1 +1 @@\n+egress: {}\n",
            risk_level=RiskLevel.MEDIUM,
            rationale="It lets commands reach api.example.com.",
            affected_destinations=("api.example.com",),
            credential_ids=("api-token",),
            evidence_refs=(ENTRY,),
            confirmation=ASKED,
            next_action=NextAction.REVIEW_POLICY_PATCH,
        ),
        "get_run_timeline": GetRunTimelineResponse(run_id=RUN, events=(event,)),
        "next_action": NextActionResponse(
            run_id=RUN,
            next_action=NextAction.REVIEW_POLICY_PATCH,
            rationale="A person has to confirm or decline c0ffee.",
            evidence_refs=(evidence.of_run(RUN),),
            confirmation=ASKED,
        ),
    }
