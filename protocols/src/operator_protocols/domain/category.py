"""Why something failed, and what to do about it, in the words of the operator contract."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["ControlCategory", "ErrorCategory", "FailureCategory", "NextAction", "Recovery"]


class ErrorCategory(StrEnum):
    """Why a run, a request or the product itself failed."""

    DEPENDENCY_CONFLICT = "dependency_conflict"
    DOCKER_UNAVAILABLE = "docker_unavailable"
    POLICY_DENIED = "policy_denied"
    MISSING_SECRET_BINDING = "missing_secret_binding"
    BUDGET_EXCEEDED = "budget_exceeded"
    TRIGGER_AUTH_FAILED = "trigger_auth_failed"
    HARNESS_HEALTH_FAILED = "harness_health_failed"
    AGENT_RUNTIME_EXCEPTION = "agent_runtime_exception"
    POLICY_VALIDATION_FAILED = "policy_validation_failed"
    NETWORK_SANDBOX_FAILED = "network_sandbox_failed"
    SECRET_SCAN_FAILED = "secret_scan_failed"
    PACKAGE_VERIFICATION_FAILED = "package_verification_failed"
    DASHBOARD_UNAVAILABLE = "dashboard_unavailable"


class ControlCategory(StrEnum):
    """Why a request was not admitted: the categories that contract 1.1.0 adds.

    A reader of 1.0.0 gets the ErrorCategory beside it.
    """

    DEPLOYMENT_INACTIVE = "deployment_inactive"
    IDEMPOTENCY_CONFLICT = "idempotency_conflict"
    CONCURRENCY_UNAVAILABLE = "concurrency_unavailable"
    LIMIT_AMENDMENT_DENIED = "limit_amendment_denied"
    UNSAFE_PAUSE_BOUNDARY = "unsafe_pause_boundary"
    RUN_TERMINAL = "run_terminal"
    FEATURE_NOT_ENABLED = "feature_not_enabled"
    MISSING_SCOPE = "missing_scope"


class NextAction(StrEnum):
    """The one thing to do next."""

    FIX_CODE = "fix_code"
    INSTALL_DEPENDENCY = "install_dependency"
    START_DOCKER = "start_docker"
    SET_SECRET = "set_secret"
    REVIEW_POLICY_PATCH = "review_policy_patch"
    REVIEW_HANDOFF = "review_handoff"
    INCREASE_BUDGET = "increase_budget"
    RERUN = "rerun"
    EXPORT_AUDIT = "export_audit"
    ASK_USER = "ask_user"


class Recovery(StrEnum):
    """What helps a run: the next actions that contract 1.1.0 adds."""

    MORE_TIME = "more_time"
    CAPABILITY_UP = "capability_up"
    LARGER_CONTEXT = "larger_context"
    SPLIT_TASK = "split_task"
    STOP = "stop"


class FailureCategory(StrEnum):
    """Why one command failed."""

    TIMEOUT = "timeout"
    PERMISSION = "permission"
    NOT_FOUND = "not_found"
    SYNTAX = "syntax"
    RUNTIME = "runtime"
    RESOURCE = "resource"
    NETWORK = "network"
