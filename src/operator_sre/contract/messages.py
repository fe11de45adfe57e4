"""Requests and responses of the contract. Fields with a default are left out when they hold it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from operator_protocols.domain.category import ErrorCategory, NextAction
from operator_sre.contract import SCHEMA_VERSION

__all__ = [
    "SCHEMA_VERSION",
    "ConfirmationRequirement",
    "EvidenceRef",
    "EvidenceType",
    "ExplainFailureRequest",
    "ExplainFailureResponse",
    "ExplainPolicyDenialRequest",
    "ExplainPolicyDenialResponse",
    "GetRunTimelineRequest",
    "GetRunTimelineResponse",
    "Message",
    "NextActionRequest",
    "NextActionResponse",
    "RecommendPolicyPatchRequest",
    "RecommendPolicyPatchResponse",
    "RedactedExcerpt",
    "RiskLevel",
    "RunStatus",
    "SummarizeRunRequest",
    "SummarizeRunResponse",
    "TimelineEvent",
    "ValidateAgentProjectRequest",
    "ValidateAgentProjectResponse",
    "ValidationIssue",
]

# One for all: a timeline is thousands of messages, and hardly any of them knows more.
_NOTHING: Mapping[str, Any] = MappingProxyType({})


class RiskLevel(StrEnum):
    """What a change could cost: little; reach or credentials; leases, listeners, loss."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class EvidenceType(StrEnum):
    """Where evidence lies."""

    AUDIT_SEQ = "audit_seq"
    RUN_ID = "run_id"
    POLICY_RULE = "policy_rule"
    SPAN = "span"
    LOG = "log"
    REDACTED_EXCERPT = "redacted_excerpt"
    VERIFICATION = "verification"


class RunStatus(StrEnum):
    """How a run stands."""

    COMPLETED = "completed"
    FAILED = "failed"
    RUNNING = "running"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """What all of them have: fields that only a later version knows, kept as they came."""

    unknown: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceRef(Message):
    """What supports a statement, and how to find it."""

    type: EvidenceType
    ref: str
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RedactedExcerpt(Message):
    """A piece of a file, log or trace; every secret in it reads `[REDACTED]`."""

    source: str
    content: str
    start_line: int = 0
    end_line: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmationRequirement(Message):
    """Whether a person must confirm first. The id is empty exactly when none must."""

    requires_confirmation: bool
    confirmation_id: str = ""
    risk_level: RiskLevel | None = None
    rationale: str = ""
    affected_destinations: tuple[str, ...] = ()
    credential_ids: tuple[str, ...] = ()
    evidence_refs: tuple[EvidenceRef, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationIssue(Message):
    """One reason why a project is not ready."""

    category: ErrorCategory
    message: str
    next_action: NextAction
    evidence_refs: tuple[EvidenceRef, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidateAgentProjectRequest(Message):
    """Is the project in this folder ready?"""

    project_dir: str
    schema_version: str = SCHEMA_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidateAgentProjectResponse(Message):
    """Whether a project is ready, and every reason why it is not."""

    ready: bool
    project_dir: str
    runtime: str = ""
    issues: tuple[ValidationIssue, ...] = ()
    schema_version: str = SCHEMA_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class SummarizeRunRequest(Message):
    """How did this run go?"""

    run_id: str
    schema_version: str = SCHEMA_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class SummarizeRunResponse(Message):
    """How a run went, in figures and a sentence."""

    run_id: str
    status: RunStatus
    started_at: datetime
    summary: str
    exit_code: int = 0
    finished_at: datetime | None = None
    duration_ms: int = 0
    invocations: int = 0
    policy_denials: int = 0
    error_category: ErrorCategory | None = None
    evidence_refs: tuple[EvidenceRef, ...] = ()
    schema_version: str = SCHEMA_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainFailureRequest(Message):
    """Why did this run fail?"""

    run_id: str
    schema_version: str = SCHEMA_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainFailureResponse(Message):
    """Why a run failed, what shows it, and the one thing to do next."""

    run_id: str
    error_category: ErrorCategory
    root_cause: str
    next_action: NextAction
    redacted_excerpts: tuple[RedactedExcerpt, ...] = ()
    evidence_refs: tuple[EvidenceRef, ...] = ()
    schema_version: str = SCHEMA_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainPolicyDenialRequest(Message):
    """Why was this refused, or would it be?"""

    run_id: str = ""
    action: str = ""
    schema_version: str = SCHEMA_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainPolicyDenialResponse(Message):
    """The rule that stood in the way."""

    denied_action: str
    blocking_rule_id: str
    rationale: str
    next_action: NextAction
    run_id: str = ""
    policy_digest: str = ""
    evidence_refs: tuple[EvidenceRef, ...] = ()
    schema_version: str = SCHEMA_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class RecommendPolicyPatchRequest(Message):
    """Which change of the policy would allow this? What is wide or private needs a `high` risk."""

    request: str
    risk_level: RiskLevel | None = None
    schema_version: str = SCHEMA_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class RecommendPolicyPatchResponse(Message):
    """A proposed change of the policy. Proposing applies nothing."""

    proposed_patch: str
    risk_level: RiskLevel
    rationale: str
    confirmation: ConfirmationRequirement
    next_action: NextAction
    affected_destinations: tuple[str, ...] = ()
    credential_ids: tuple[str, ...] = ()
    evidence_refs: tuple[EvidenceRef, ...] = ()
    schema_version: str = SCHEMA_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class GetRunTimelineRequest(Message):
    """What happened in this run, in order?"""

    run_id: str
    schema_version: str = SCHEMA_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineEvent(Message):
    """One thing that happened."""

    timestamp: datetime
    event_type: str
    detail: str
    audit_seq: int = 0
    evidence_refs: tuple[EvidenceRef, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GetRunTimelineResponse(Message):
    """All that happened in a run, oldest first."""

    run_id: str
    events: tuple[TimelineEvent, ...]
    schema_version: str = SCHEMA_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class NextActionRequest(Message):
    """What should be done next, in this run or at all?"""

    run_id: str = ""
    schema_version: str = SCHEMA_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class NextActionResponse(Message):
    """The one thing to do next, and why."""

    next_action: NextAction
    rationale: str
    run_id: str = ""
    evidence_refs: tuple[EvidenceRef, ...] = ()
    confirmation: ConfirmationRequirement | None = None
    schema_version: str = SCHEMA_VERSION
