"""What 1.0.0 promised, written down by hand: a name that is missing here breaks somebody."""

from __future__ import annotations

__all__ = ["ENUMS", "FIELDS"]

# Message -> its fields; those that are always there end with `!`.
FIELDS: dict[str, str] = {
    "EvidenceRef": "type! ref! detail",
    "RedactedExcerpt": "source! start_line end_line content!",
    "ConfirmationRequirement": (
        "requires_confirmation! confirmation_id risk_level rationale affected_destinations"
        " credential_ids evidence_refs"
    ),
    "ValidationIssue": "category! message! evidence_refs next_action!",
    "ValidateAgentProjectRequest": "schema_version! project_dir!",
    "ValidateAgentProjectResponse": "schema_version! ready! project_dir! runtime issues",
    "SummarizeRunRequest": "schema_version! run_id!",
    "SummarizeRunResponse": (
        "schema_version! run_id! status! exit_code started_at! finished_at duration_ms summary!"
        " invocations policy_denials error_category evidence_refs"
    ),
    "ExplainFailureRequest": "schema_version! run_id!",
    "ExplainFailureResponse": (
        "schema_version! run_id! error_category! root_cause! redacted_excerpts evidence_refs"
        " next_action!"
    ),
    "ExplainPolicyDenialRequest": "schema_version! run_id action",
    "ExplainPolicyDenialResponse": (
        "schema_version! run_id denied_action! blocking_rule_id! policy_digest rationale!"
        " evidence_refs next_action!"
    ),
    "RecommendPolicyPatchRequest": "schema_version! request! risk_level",
    "RecommendPolicyPatchResponse": (
        "schema_version! proposed_patch! risk_level! rationale! affected_destinations"
        " credential_ids evidence_refs confirmation! next_action!"
    ),
    "TimelineEvent": "timestamp! event_type! audit_seq detail! evidence_refs",
    "GetRunTimelineRequest": "schema_version! run_id!",
    "GetRunTimelineResponse": "schema_version! run_id! events!",
    "NextActionRequest": "schema_version! run_id",
    "NextActionResponse": (
        "schema_version! run_id next_action! rationale! evidence_refs confirmation"
    ),
}
ENUMS: dict[str, str] = {
    "ErrorCategory": (
        "dependency_conflict docker_unavailable policy_denied missing_secret_binding"
        " budget_exceeded trigger_auth_failed harness_health_failed agent_runtime_exception"
        " policy_validation_failed network_sandbox_failed secret_scan_failed"
        " package_verification_failed dashboard_unavailable"
    ),
    "NextAction": (
        "fix_code install_dependency start_docker set_secret review_policy_patch review_handoff"
        " increase_budget rerun export_audit ask_user"
    ),
    "RiskLevel": "low medium high",
    "EvidenceType": "audit_seq run_id policy_rule span log redacted_excerpt verification",
    "RunStatus": "completed failed running stopped",
}
