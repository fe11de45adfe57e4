"""What each category means, and the one thing to do about it."""

from __future__ import annotations

from collections.abc import Mapping

from operator_protocols.domain.category import ErrorCategory, NextAction
from operator_protocols.domain.confirmation import Boundary
from operator_protocols.domain.verdict import Risk
from operator_sre.contract.messages import RiskLevel

__all__ = ["ADVICE", "after_decline", "next_after", "risk_level"]

# To each category what is to be done next, and the sentence that says so.
ADVICE: Mapping[ErrorCategory, tuple[NextAction, str]] = {
    ErrorCategory.DEPENDENCY_CONFLICT: (
        NextAction.INSTALL_DEPENDENCY,
        "Install what is missing, or the version that fits, and run it again.",
    ),
    ErrorCategory.DOCKER_UNAVAILABLE: (
        NextAction.START_DOCKER,
        "Docker does not answer; start it and run it again.",
    ),
    ErrorCategory.POLICY_DENIED: (
        NextAction.REVIEW_POLICY_PATCH,
        "The policy stood in the way; look at a patch of it, and confirm or decline it.",
    ),
    ErrorCategory.MISSING_SECRET_BINDING: (
        NextAction.SET_SECRET,
        "A secret that is needed is not bound; set it and run it again.",
    ),
    ErrorCategory.BUDGET_EXCEEDED: (
        NextAction.INCREASE_BUDGET,
        "The budget of the run was used up before anything was proven; raise it in the policy.",
    ),
    ErrorCategory.TRIGGER_AUTH_FAILED: (
        NextAction.SET_SECRET,
        "A trigger was told with a secret that is not ours; give both sides the same one.",
    ),
    ErrorCategory.HARNESS_HEALTH_FAILED: (
        NextAction.RERUN,
        "What carries the run was lost, not the run itself; let it be run again.",
    ),
    ErrorCategory.AGENT_RUNTIME_EXCEPTION: (
        NextAction.FIX_CODE,
        "The run broke with an exception; the code that raised it has to be mended.",
    ),
    ErrorCategory.POLICY_VALIDATION_FAILED: (
        NextAction.FIX_CODE,
        "A file of the project makes no sense; mend the line that is named.",
    ),
    ErrorCategory.NETWORK_SANDBOX_FAILED: (
        NextAction.REVIEW_POLICY_PATCH,
        "The sandbox let a script reach no such host; look at a patch that allows it.",
    ),
    ErrorCategory.SECRET_SCAN_FAILED: (
        NextAction.FIX_CODE,
        "Something holds a secret in plain text; take it out and bind it instead.",
    ),
    ErrorCategory.PACKAGE_VERIFICATION_FAILED: (
        NextAction.ASK_USER,
        "A package is not what was signed; ask whoever made it, and do not use it.",
    ),
    ErrorCategory.DASHBOARD_UNAVAILABLE: (
        NextAction.RERUN,
        "What is told to the dashboard does not arrive; bring it up and run it again.",
    ),
}
# Changes of the policy and of credentials; without them the code has to do with what it may.
_FIXED_BY_CODE = frozenset(
    {
        Boundary.POLICY_PATCH,
        Boundary.RULE_LOOSENED,
        Boundary.EGRESS,
        Boundary.CREDENTIAL_BINDING,
    }
)


def next_after(category: ErrorCategory) -> NextAction:
    """The one thing to do after a failure of this category."""
    return ADVICE[category][0]


def after_decline(boundary: Boundary) -> NextAction:
    """The one thing to do after a person has declined a change."""
    return NextAction.FIX_CODE if boundary in _FIXED_BY_CODE else NextAction.ASK_USER


def risk_level(risk: Risk) -> RiskLevel:
    """A risk on the scale of the contract: what is critical shows as high."""
    return RiskLevel.HIGH if risk is Risk.CRITICAL else RiskLevel(risk.value)
