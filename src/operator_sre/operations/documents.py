"""What every command prints with --json: the types from which docs/schemas/cli is made.

The commands of other distributions have a module like this one. A test names each command that is
missing. After a change run: python -m tests.contract_messages.schemas
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal

from operator_protocols.domain.action import Action, Left, Outcome, Usage
from operator_protocols.domain.alert import Alert
from operator_protocols.domain.category import ErrorCategory, FailureCategory, NextAction
from operator_protocols.domain.command import Command
from operator_protocols.domain.confinement import Confinement
from operator_protocols.domain.confirmation import Confirmation
from operator_protocols.domain.entry import Actor, Entry
from operator_protocols.domain.health import Health
from operator_protocols.domain.observation import CheckResult, Observation, Value
from operator_protocols.domain.pattern import Pattern
from operator_protocols.domain.permit import Approval
from operator_protocols.domain.run import Diagnose, Escalate, Finish, Misuse, Spent
from operator_protocols.domain.run_record import RunRecord
from operator_protocols.domain.ticket import Ticket
from operator_protocols.domain.tool import ToolSpec, ToolState
from operator_protocols.domain.verdict import Level, Mode, Risk, Rule
from operator_protocols.domain.workflow import WorkflowRecord
from operator_sre.app import (
    description,
    discovery,
    health,
    listeners,
    models,
    notices,
    porter,
    redaction,
    release_files,
    reports,
    subjects,
    system,
    telemetry,
    workflows,
)
from operator_sre.contract import messages
from operator_sre.contract.schemas import Maybe, OneOf, Shape, fields_of
from operator_sre.gate import Way
from operator_sre.gate.policy.rule import Decision
from operator_sre.ledger.verify import Report
from operator_sre.operations import all_operations
from operator_sre.operations.operation import Local
from operator_sre.telemetry.spans import Span

__all__ = ["ALIKE", "DOCUMENTS", "LOCAL_COMMANDS", "all_documents"]

# Distributions with commands of their own.
_OTHERS = ("operator_lab.cli.documents", "operator_evals.cli.documents")
_ENTRY = {"entry": Entry}
_LISTENING = {"listening": list[str]}
_TICKET = {"ticket": Ticket}
_ERROR = {"error": {"category": ErrorCategory, "message": str, "next_action": NextAction}}
_PURGE = {"would_purge": Maybe({"entries": int, "tickets": int, "size_bytes": int})}
# What any command may print instead: an error, or a confirmation that is required.
ALIKE: dict[str, Shape] = {
    "error": _ERROR,
    "confirmation": (messages.ConfirmationRequirement, _PURGE),
}
_VERDICT = {
    "command": str,
    "level": Level,
    "risk_score": int,
    "risk_level": Risk,
    "rules": list[Rule],
    "explanation": str,
    "reads": list[str],
    "writes": list[str],
    "network": list[str],
    "sensitive": list[str],
    "reversible": bool | None,
    "confinement": Confinement | None,
    "unenforced": str,
    "policy_digest": str,
}
_OUTLOOK = {
    **_VERDICT,
    "host": str,
    "cwd": str,
    "subject": str,
    "target": str,
    "identity": str,
    "user": str,
    "uid": int | None,
    "requester": Actor,
    "environment": Mapping[str, str],
    "timeout_s": float,
    "output_bytes_max": int,
    "mode": Mode | None,
    "way": Way | None,
    "why": str,
    "may_change": str,
}
_FORESEEN = {**_OUTLOOK, "ran": bool, "warnings": list[str]}
_EXECUTED = {
    "command": str,
    "level": Level,
    "risk_level": Risk,
    "ran": bool,
    "exit_code": int | None,
    "outcome": Outcome,
    "error_category": FailureCategory | None,
    "timed_out": bool,
    "stdout": str,
    "stderr": str,
    "truncated": bool,
    "stdout_bytes": int,
    "stderr_bytes": int,
    "duration_s": float,
    "duration_ms": float,
    "usage": Usage | None,
    "left": list[Left],
    "blocked": list[str],
    "seq": int,
    "explanation": str,
}
_CALLED = {
    **_EXECUTED,
    "tool": str,
    "arguments": Mapping[str, Value],
    "inferred": list[str],
    "state": ToolState,
    "data": Mapping[str, Value],
    "undo": Action | None,
}
_SCHEDULED = {"workflow": WorkflowRecord, "steps": list[workflows.StepOutlook]}
_TOOL = {**fields_of(ToolSpec), "approval": Decision}
_PATTERN = {"pattern": Pattern}

_CALLS = (
    {"call": Literal["act"], "with": Action},
    {"call": Literal["diagnose"], "with": Diagnose},
    {"call": Literal["finish"], "with": Finish},
    {"call": Literal["escalate"], "with": Escalate},
    {"call": Literal["misuse"], "with": Misuse},
)
_ANSWER = {
    "reasoning": str,
    "calls": [OneOf(_CALLS)],
    "spent": Spent,
    "by": Maybe(str),
    "note": Maybe(str),
    "stopped": Maybe(str),
}

DOCUMENTS: dict[str, Shape] = {
    **{
        operation.name: OneOf(operation.printed) if operation.others else operation.printed[0]
        for operation in all_operations()
        if operation.is_command
    },
    "validate": messages.ValidateAgentProjectResponse,
    "summarize": messages.SummarizeRunResponse,
    "explain-failure": messages.ExplainFailureResponse,
    "explain-denial": messages.ExplainPolicyDenialResponse,
    "porter test": {"porter": porter.Behind},
    "recommend-patch": messages.RecommendPolicyPatchResponse,
    "timeline": messages.GetRunTimelineResponse,
    "next-action": messages.NextActionResponse,
    **dict.fromkeys(("agent start", "monitor run", "notify run", "up", "workers run"), _ENTRY),
    **dict.fromkeys(("alerts serve", "mcp", "porter serve", "serve", "web"), _LISTENING),
    "alerts list": {"alerts": list[Alert]},
    "approvals show": {"approval": Approval, "binding": str, "left_s": float, "outlook": _OUTLOOK},
    "audit anchor": {"anchor": {"seq": int, "hash": str, "at": datetime, "key": str}},
    "audit export": {"file": str, "format": str, "count": int},
    "audit show": OneOf((_ENTRY, {"run": RunRecord, "entries": list[Entry]})),
    "audit tail": _ENTRY,
    "audit verify": {"whole": bool, "report": Report},
    "completion": {"shell": str, "script": str},
    "config show": {
        "settings": [{"name": str, "value": bool | int | float | str | None, "source": str}],
        "subjects": Mapping[str, list[str]],
    },
    "config trust": {"trusted": {"file": str, "sha256": str, "reasons": list[str]}},
    "confirmations show": {
        "confirmation": Confirmation,
        "requirement": messages.ConfirmationRequirement,
    },
    "docs": OneOf(
        (
            {"topics": [{"topic": str, "title": str}]},
            {"topic": str, "text": str},
            {"command": str, "schema": Mapping[str, Any]},
        )
    ),
    "discover": {"discovery": discovery.Discovery, "written": discovery.WrittenSubjects | None},
    "exec": OneOf(({**_EXECUTED, "warnings": list[str]}, _FORESEEN, _SCHEDULED)),
    "gate check": OneOf((_VERDICT, {"error": str, "line": int})),
    "health": {"health": health.HealthView},
    "history patterns create": _PATTERN,
    "history patterns delete": {"deleted": str},
    "history patterns list": {"patterns": list[Pattern]},
    "history patterns show": _PATTERN,
    "history patterns use": {
        "pattern": str,
        "level": Level,
        "lines": [
            {
                "command": str,
                "level": Level,
                "risk_level": Risk,
                "rules": list[Rule],
                "explanation": str,
            }
        ],
    },
    "history show": {
        "command": Command,
        "stdout_file": str | None,
        "stderr_file": str | None,
    },
    "models list": {"models": list[models.ModelView]},
    "models test": {"tried": models.Tried},
    "models transcript": OneOf(({"answers": [_ANSWER]}, {"file": str, "count": int})),
    "notify status": {"channels": list[notices.ChannelStatus]},
    "notify test": {"channels": list[notices.Tried]},
    "redact": fields_of(redaction.Tally),
    "release verify": {"release": release_files.VerifiedRelease},
    "report": {"report": reports.Report},
    "secrets lease": _EXECUTED,
    "service install": {"unit": {"file": str | None, "text": str}},
    "service run": {"parts": Mapping[str, str]},
    "store backup": {
        "backup": {
            "file": str,
            "entries": int,
            "head": str,
            "size_bytes": int,
            "keys": tuple[str, ...],
        }
    },
    "store purge": {"purged": int, "recorded": int | None, "gone": bool},
    "store restore": {
        "restored": {
            "entries": int,
            "head": str,
            "saved": str | None,
            "keys": tuple[str, ...],
            "missing": tuple[str, ...],
        }
    },
    "subjects check": {"health": Health, "sightings": list[CheckResult]},
    "subjects history": OneOf(({"history": subjects.HistoryView}, {"replay": subjects.Replayed})),
    "subjects init": {"written": description.Written},
    "subjects observe": {"observations": list[Observation]},
    "subjects show": {"subject": subjects.SubjectView},
    "subjects test": {"trial": description.Trial},
    "system state": fields_of(system.SystemState),
    "telemetry show": {"spans": list[Span]},
    "telemetry status": {"telemetry": telemetry.TelemetryStatus},
    "telemetry test": {"trace": str},
    "tools list": {"tools": [_TOOL]},
    "tools run": OneOf((_CALLED, _FORESEEN)),
    "tools show": {"tool": _TOOL},
    # It is for people only, and tells programs so.
    "tui": _ERROR,
    "workers list": {"workers": list[listeners.WorkerView]},
}

# Commands of nouns with operations that are written by hand, and why no other face serves them.
LOCAL_COMMANDS = {
    "secrets lease": Local.TERMINAL,
    **dict.fromkeys(("store backup", "store restore", "store purge"), Local.STORE),
}


def all_documents() -> dict[str, Shape]:
    """What every installed command prints, by its noun and verb."""
    found = dict(DOCUMENTS)
    for name in _OTHERS:
        if find_spec(name.partition(".")[0]) is not None:
            found |= import_module(name).DOCUMENTS
    return found
