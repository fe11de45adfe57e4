"""Evidence: what supports a statement, and the command that shows it."""

from __future__ import annotations

import re
import shlex
from typing import assert_never

from operator_protocols.domain.entry import Entry
from operator_protocols.domain.trace import span_id, traced_run
from operator_sre.contract.messages import EvidenceRef, EvidenceType

__all__ = [
    "command_for",
    "of_command",
    "of_entry",
    "of_excerpt",
    "of_output",
    "of_rule",
    "of_run",
    "of_span",
]

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
