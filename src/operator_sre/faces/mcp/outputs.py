"""What each tool answers, as a schema that clients check: of documents as they are told, marked."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from operator_protocols.domain.action import Result
from operator_protocols.domain.command import Command
from operator_protocols.domain.confirmation import Boundary, ConfirmationState
from operator_protocols.domain.entry import Actor, Kind
from operator_protocols.domain.health import Health
from operator_protocols.domain.permit import ApprovalState
from operator_protocols.domain.run_record import RunRecord
from operator_protocols.domain.ticket import Ticket
from operator_protocols.domain.verdict import Level, Risk
from operator_protocols.domain.workflow import WorkflowState
from operator_sre.app.health import SubjectHealth
from operator_sre.app.marking import FOREIGN, is_plain_name
from operator_sre.contract.schemas import Maybe, Shape, document_schema, fields_of

__all__ = [
    "ACTION",
    "APPROVALS",
    "COMMANDS",
    "COMMAND_FIELDS",
    "CONFIRMATIONS",
    "HEALTH",
    "HELD_BY",
    "RUNS",
    "TICKET",
    "TICKETS",
    "output_schema",
]

Schema = dict[str, Any]
# Who works on a ticket at the moment is of no use to a mind, and neither is all of a command.
HELD_BY = ("epoch", "worker")
COMMAND_FIELDS = (
    *("seq", "at", "command", "tool", "target", "cwd", "context", "level", "outcome"),
    *("exit_code", "duration_s", "category", "ticket", "run", "agent", "head", "tail"),
)
# What every answer has.
_TOLD = {"untrusted": str, "left_out": Maybe(bool)}
_TICKET = fields_of(Ticket, *HELD_BY)
_SENTENCE = {"seq": int, "at": datetime, "kind": Kind, "run": str, "by": str, "told": str}
_COMMAND = {name: it for name, it in fields_of(Command).items() if name in COMMAND_FIELDS}
_APPROVAL = {
    "id": str,
    "state": ApprovalState,
    "risk": Risk,
    "level": Level,
    "ticket": int | None,
    "run": str,
    "subject": str,
    "requested_at": datetime,
    "expires_at": datetime,
    "command": str,
    "target": str,
    "reasoning": str,
    "explanation": str,
    "requester": Actor,
    "next_step": str,
}
_CONFIRMATION = {
    "id": str,
    "boundary": Boundary,
    "state": ConfirmationState,
    "risk": Risk,
    "rationale": str,
    "change": Mapping[str, Any],
    "requested_at": datetime,
    "expires_at": datetime,
    "requested_by": Actor,
    "next_step": str,
}
TICKETS: Shape = {"tickets": [_TICKET]}
TICKET: Shape = {"ticket": _TICKET, "story": [_SENTENCE]}
RUNS: Shape = {"runs": list[RunRecord]}
HEALTH: Shape = {
    "at": datetime,
    "health": Health,
    "fine": bool,
    "subjects": [{**fields_of(SubjectHealth), "tickets": list[int]}],
}
COMMANDS: Shape = {"commands": [_COMMAND], "behind": int}
ACTION: Shape = {
    "action_id": str,
    "state": WorkflowState,
    "reason": str,
    "result": Maybe(Result),
    "approval_id": Maybe(str),
    "note": Maybe(str),
}
APPROVALS: Shape = {"approvals": [_APPROVAL]}
CONFIRMATIONS: Shape = {"confirmations": [_CONFIRMATION]}


def output_schema(title: str, shape: Shape) -> Schema:
    """The schema of an answer of this shape, once text from outside stands between its marks."""
    whole = document_schema(title, (shape, _TOLD))
    parts = whole.pop("$defs", {})
    kept = {name: part for name, part in parts.items() if "enum" not in part}
    told = {name: _marked(part, "", parts) for name, part in kept.items()}
    return {**_marked(whole, "", parts), **({"$defs": told} if told else {})}


def _marked(schema: Schema, name: str, parts: Mapping[str, Schema]) -> Schema:
    """What stands under this name: a word is one of ours only where words of ours stand."""
    part = parts.get(schema.get("$ref", "").rpartition("/")[2], schema)
    if "enum" in part or "format" in part:
        return part if is_plain_name(name) else {"type": "string"}
    found = dict(schema)
    if name in FOREIGN:
        return {"type": "object"}
    if "properties" in found:
        inside = found["properties"].items()
        found["properties"] = {field: _marked(one, field, parts) for field, one in inside}
    for key in ("items", "additionalProperties"):
        if isinstance(found.get(key), dict):
            found[key] = _marked(found[key], name, parts)
    if "anyOf" in found:
        found["anyOf"] = [_marked(one, name, parts) for one in found["anyOf"]]
    return found
