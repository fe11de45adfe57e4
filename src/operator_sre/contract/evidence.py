"""Evidence: what supports a statement; and the meaning and next action of each category."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import assert_never

from operator_protocols.domain.category import ErrorCategory, NextAction
from operator_protocols.domain.confirmation import Boundary
from operator_protocols.domain.entry import Entry
from operator_protocols.domain.trace import span_id, traced_run
from operator_protocols.domain.verdict import Risk
from operator_sre.contract.messages import EvidenceRef, EvidenceType, RiskLevel

__all__ = [
    "ADVICE",
    "after_decline",
    "command_for",
    "next_after",
    "of_command",
    "of_entry",
    "of_excerpt",
    "of_output",
    "of_rule",
    "of_run",
    "of_span",
    "risk_level",
]

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


DETAIL_CHARACTERS_MAX = 300
_RULE = re.compile(r"(?:safe|review|blocked)\[\d+\]")
_ENTRY = re.compile(r"audit:(\d+)")
_OUTPUT = re.compile(r"command:(\d+)")


def of_entry(entry: Entry, detail: str = "") -> EvidenceRef:
    """One record of the ledger."""
    detail = detail or f"{entry.kind} at {entry.at.isoformat(' ', 'seconds')[:19]} UTC"
    return _refer(EvidenceType.AUDIT_SEQ, str(entry.seq), detail)


def of_run(run: str, detail: str = "the whole run") -> EvidenceRef:
    """A run with all its entries."""
    return _refer(EvidenceType.RUN_ID, run, detail)


def of_rule(place: str, detail: str) -> EvidenceRef:
    """A rule of the policy, as `section[index]` or `default_deny`."""
    return _refer(EvidenceType.POLICY_RULE, place, detail)


def of_span(entry: Entry, detail: str = "") -> EvidenceRef:
    """The span of a trace that a record of the ledger began."""
    span = span_id(traced_run(entry.run, entry.seq), entry.seq)
    return _refer(EvidenceType.SPAN, span, detail or f"the span of {entry.kind}")


def of_output(attempt: Entry, detail: str = "output of the command") -> EvidenceRef:
    """The log of one command, by the record with which it began or was refused."""
    return _refer(EvidenceType.LOG, f"command:{attempt.seq}", detail)


def of_excerpt(entry: Entry, detail: str = "the record that the excerpt is from") -> EvidenceRef:
    """Where an excerpt of an answer was taken from."""
    return _refer(EvidenceType.REDACTED_EXCERPT, f"audit:{entry.seq}", detail)


def of_command(command: str, detail: str) -> EvidenceRef:
    """A command that shows the evidence again."""
    return EvidenceRef(type=EvidenceType.VERIFICATION, ref=command, detail=detail)


def command_for(type: EvidenceType, ref: str) -> str:
    """The command that follows a reference; empty where none does."""
    match type:
        case EvidenceType.AUDIT_SEQ:
            return f"operator audit show --seq {ref}"
        case EvidenceType.RUN_ID:
            return f"operator audit show {shlex.quote(ref)}"
        case EvidenceType.POLICY_RULE:
            is_rule = _RULE.fullmatch(ref)
            return f"operator policy explain '{ref}'" if is_rule else "operator policy show"
        case EvidenceType.SPAN:
            return f"operator audit show --span {ref}"
        case EvidenceType.LOG:
            output = _OUTPUT.fullmatch(ref)
            return f"operator history show {output[1]}" if output else ""
        case EvidenceType.REDACTED_EXCERPT:
            entry = _ENTRY.fullmatch(ref)
            return f"operator audit show --seq {entry[1]}" if entry else ""
        case EvidenceType.VERIFICATION:
            return ref
        case _:
            assert_never(type)


def _refer(type: EvidenceType, ref: str, detail: str) -> EvidenceRef:
    """With the command that follows it, which is never cut off."""
    if len(detail) > DETAIL_CHARACTERS_MAX:
        detail = f"{detail[:DETAIL_CHARACTERS_MAX]}…"
    return EvidenceRef(type=type, ref=ref, detail=f"{detail} (see: {command_for(type, ref)})")
