"""Evidence: what supports a statement, and the command that shows it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping

from operator_protocols.domain.entry import Entry
from operator_protocols.domain.tracing import span_id, traced_run
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
    told = detail or f"{entry.kind} at {entry.at.isoformat(' ', 'seconds')[:19]} UTC"
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


def of_output(attempt: Entry, detail: str = "what the command said") -> EvidenceRef:
    """The log of one command, by the record with which it began or was refused."""
    return _shown(EvidenceType.LOG, f"command:{attempt.seq}", detail)


def of_excerpt(entry: Entry, detail: str = "the record that the excerpt is from") -> EvidenceRef:
    """Where an excerpt of an answer was taken from."""
    return _shown(EvidenceType.REDACTED_EXCERPT, f"audit:{entry.seq}", detail)


def of_command(command: str, detail: str) -> EvidenceRef:
    """A command that shows it again."""
    return EvidenceRef(type=EvidenceType.VERIFICATION, ref=command, detail=detail)


def command_for(type: EvidenceType, ref: str) -> str:
    """The command that follows a reference; empty where none does."""
    return _COMMANDS[type](ref)


def _rule_command(ref: str) -> str:
    return f"operator policy explain '{ref}'" if _RULE.fullmatch(ref) else "operator policy show"


def _excerpt_command(ref: str) -> str:
    found = _ENTRY.fullmatch(ref)
    return f"operator audit show --seq {found[1]}" if found else ""


def _log_command(ref: str) -> str:
    found = _OUTPUT.fullmatch(ref)
    return f"operator history show {found[1]}" if found else ""


_COMMANDS: Mapping[EvidenceType, Callable[[str], str]] = {
    EvidenceType.AUDIT_SEQ: "operator audit show --seq {}".format,
    EvidenceType.RUN_ID: lambda ref: f"operator audit show {shlex.quote(ref)}",
    EvidenceType.POLICY_RULE: _rule_command,
    EvidenceType.SPAN: "operator audit show --span {}".format,
    EvidenceType.LOG: _log_command,
    EvidenceType.REDACTED_EXCERPT: _excerpt_command,
    EvidenceType.VERIFICATION: lambda ref: ref,
}


def _shown(type: EvidenceType, ref: str, detail: str) -> EvidenceRef:
    """With the command that follows it, which is never cut off."""
    told = detail if len(detail) <= DETAIL_CHARACTERS_MAX else f"{detail[:DETAIL_CHARACTERS_MAX]}…"
    return EvidenceRef(type=type, ref=ref, detail=f"{told} (see: {_COMMANDS[type](ref)})")
