"""The meaning of each category, and the next action."""

from __future__ import annotations

from collections.abc import Mapping

from operator_protocols.domain.category import ErrorCategory, NextAction
from operator_protocols.domain.confirmation import Boundary
from operator_protocols.domain.verdict import Risk
from operator_sre.contract.messages import RiskLevel

__all__ = ["ADVICE", "after_decline", "next_after", "risk_level"]

# The next action of each category, and the sentence that explains it.
ADVICE: Mapping[ErrorCategory, tuple[NextAction, str]] = {
    ErrorCategory.DEPENDENCY_CONFLICT: (
        NextAction.INSTALL_DEPENDENCY,
        "A dependency is missing or has the wrong version. Install it and run again.",
    ),
    ErrorCategory.DOCKER_UNAVAILABLE: (
        NextAction.START_DOCKER,
        "Docker does not answer. Start it and run again.",
    ),
    ErrorCategory.POLICY_DENIED: (
        NextAction.REVIEW_POLICY_PATCH,
        "The policy denied an action. Review the policy patch, and confirm or decline it.",
    ),
    ErrorCategory.MISSING_SECRET_BINDING: (
        NextAction.SET_SECRET,
        "A required secret is not bound. Set it and run again.",
    ),
    ErrorCategory.BUDGET_EXCEEDED: (
        NextAction.INCREASE_BUDGET,
        "The run used up its budget before anything was proven. Raise the budget in the policy.",
    ),
    ErrorCategory.TRIGGER_AUTH_FAILED: (
        NextAction.SET_SECRET,
        "A trigger received a wrong secret. Configure the same secret on both sides.",
    ),
    ErrorCategory.HARNESS_HEALTH_FAILED: (
        NextAction.RERUN,
        "The worker of the run was lost, not the run itself. Run it again.",
    ),
    ErrorCategory.AGENT_RUNTIME_EXCEPTION: (
        NextAction.FIX_CODE,
        "The run failed with an exception. Fix the code that raised it.",
    ),
    ErrorCategory.POLICY_VALIDATION_FAILED: (
        NextAction.FIX_CODE,
        "A file of the project is invalid. Fix the line that the error names.",
    ),
    ErrorCategory.NETWORK_SANDBOX_FAILED: (
        NextAction.REVIEW_POLICY_PATCH,
        "The sandbox blocked a host that a script connects to. Review a patch that allows it.",
    ),
    ErrorCategory.SECRET_SCAN_FAILED: (
        NextAction.FIX_CODE,
        "A file contains a secret in plain text. Remove it and bind the secret instead.",
    ),
    ErrorCategory.PACKAGE_VERIFICATION_FAILED: (
        NextAction.ASK_USER,
        "The signature of a package does not match. Do not use the package, and ask its author.",
    ),
    ErrorCategory.DASHBOARD_UNAVAILABLE: (
        NextAction.RERUN,
        "The dashboard does not receive events. Start it and run again.",
    ),
}
# Changes of the policy and of credentials; if one is declined, the code has to work without it.
_FIXED_BY_CODE = frozenset(
    {
        Boundary.POLICY_PATCH,
        Boundary.RULE_LOOSENED,
        Boundary.EGRESS,
        Boundary.CREDENTIAL_BINDING,
    }
)


def next_after(category: ErrorCategory) -> NextAction:
    """The next action after a failure of this category."""
    return ADVICE[category][0]


def after_decline(boundary: Boundary) -> NextAction:
    """The next action after a person has declined a change."""
    return NextAction.FIX_CODE if boundary in _FIXED_BY_CODE else NextAction.ASK_USER


def risk_level(risk: Risk) -> RiskLevel:
    """A risk on the scale of the contract, which shows critical as high."""
    return RiskLevel.HIGH if risk is Risk.CRITICAL else RiskLevel(risk.value)
