"""Evidence: what supports a statement, and the command that shows it."""

from __future__ import annotations

import re
import shlex

from operator_protocols.domain.entry import Entry
from operator_protocols.domain.tracing import span_id, traced_run
from operator_sre.contract.messages import EvidenceRef, EvidenceType

__all__ = ["command_for", "of_command", "of_entry", "of_rule", "of_run", "of_span"]

DETAIL_CHARACTERS_MAX = 300
_RULE = re.compile(r"(?:safe|review|blocked)\[\d+\]")
_ENTRY = re.compile(r"audit:(\d+)")


def of_entry(entry: Entry, detail: str = "") -> EvidenceRef:
    """One record of the ledger."""
    told = detail or f"{entry.kind} at {entry.at:%Y-%m-%d %H:%M:%S} UTC"
    return _shown(EvidenceType.AUDIT_SEQ, str(entry.seq), told)


def of_run(run: str, detail: str = "the whole run") -> EvidenceRef:
    """A run with all that happened in it."""
    return _shown(EvidenceType.RUN_ID, run, detail)


def of_rule(place: str, detail: str) -> EvidenceRef:
    """A rule of the policy, as `section[index]` or `default_deny`."""
    return _shown(EvidenceType.POLICY_RULE, place, detail)


def of_span(entry: Entry, detail: str = "") -> EvidenceRef:
    """The span of a trace that a record of the ledger began."""
    told = detail or f"the span of {entry.kind}"
    return _shown(EvidenceType.SPAN, span_id(traced_run(entry.run, entry.seq), entry.seq), told)


def of_command(command: str, detail: str) -> EvidenceRef:
    """A command that shows it again."""
    return EvidenceRef(type=EvidenceType.VERIFICATION, ref=command, detail=detail)


def command_for(type: EvidenceType, ref: str) -> str:
    """The command that follows a reference; empty where none does."""
    match type:
        case EvidenceType.AUDIT_SEQ:
            return f"operator audit show --seq {ref}"
        case EvidenceType.RUN_ID:
            return f"operator audit show {shlex.quote(ref)}"
        case EvidenceType.POLICY_RULE:
            known = _RULE.fullmatch(ref)
            return f"operator policy explain '{ref}'" if known else "operator policy show"
        case EvidenceType.SPAN:
            return f"operator audit show --span {ref}"
        case EvidenceType.VERIFICATION:
            return ref
        case EvidenceType.REDACTED_EXCERPT if found := _ENTRY.fullmatch(ref):
            return f"operator audit show --seq {found[1]}"
    return ""


def _shown(type: EvidenceType, ref: str, detail: str) -> EvidenceRef:
    """With the command that follows it, which is never cut off."""
    told = detail if len(detail) <= DETAIL_CHARACTERS_MAX else f"{detail[:DETAIL_CHARACTERS_MAX]}…"
    return EvidenceRef(type=type, ref=ref, detail=f"{told} (see: {command_for(type, ref)})")
