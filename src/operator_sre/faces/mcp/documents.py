"""What is told of each noun: no more than a mind needs, in JSON types."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from operator_sre.app.story import lines_of
from operator_sre.codec import to_json
from operator_sre.faces.mcp.outputs import COMMAND_FIELDS, HELD_BY

if TYPE_CHECKING:
    from operator_protocols.domain.command import Command
    from operator_protocols.domain.confirmation import Confirmation
    from operator_protocols.domain.entry import Entry
    from operator_protocols.domain.permit import Approval
    from operator_protocols.domain.ticket import Ticket
    from operator_sre.app.proposals import Proposed

__all__ = [
    "approval_document",
    "command_document",
    "confirmation_document",
    "result_document",
    "story_document",
    "ticket_document",
]

_WAITS = "A person has to answer first; you cannot. Ask again with action_result."
_PENDING = "Whoever runs an agent of this home (operator up) takes it up. Ask with action_result."


def ticket_document(ticket: Ticket) -> dict[str, Any]:
    """A ticket without who holds it at the moment."""
    document: dict[str, Any] = to_json(ticket)
    return {name: it for name, it in document.items() if name not in HELD_BY}


def story_document(entries: Iterable[Entry]) -> list[dict[str, Any]]:
    """Entries as the sentences that they tell; those that tell none are left out."""
    told = []
    for entry in entries:
        lines = [
            *(detail for line in lines_of(entry) for detail in (line.text, *line.details)),
        ]
        if lines:
            told.append(
                {
                    "seq": entry.seq,
                    "at": to_json(entry.at),
                    "kind": entry.kind.value,
                    "run": entry.run,
                    "by": entry.actor.id,
                    "told": "\n".join(lines),
                }
            )
    return told


def command_document(command: Command) -> dict[str, Any]:
    """A command, and the ends of what it said."""
    document: dict[str, Any] = to_json(command)
    return {name: document[name] for name in COMMAND_FIELDS}


def result_document(found: Proposed) -> dict[str, Any]:
    """Where an action stands, and its result once there is one."""
    action = found.action
    document: dict[str, Any] = {
        "action_id": action.action,
        "state": action.state.value,
        "reason": action.reason,
    }
    if action.result is not None:
        document["result"] = to_json(action.result)
    if found.approval:
        return {**document, "approval_id": found.approval, "note": _WAITS}
    return document if action.state.over else {**document, "note": _PENDING}


def approval_document(approval: Approval) -> dict[str, Any]:
    """A request to people, and how one of them answers it."""
    return {
        "id": approval.id,
        "state": approval.state.value,
        "risk": approval.risk.value,
        "level": approval.level.value,
        "ticket": approval.ticket,
        "run": approval.run,
        "subject": approval.subject,
        "requested_at": to_json(approval.requested_at),
        "expires_at": to_json(approval.expires_at),
        "command": approval.action.command,
        "target": approval.action.target,
        "reasoning": approval.action.reasoning,
        "explanation": approval.explanation,
        "requester": to_json(approval.requester),
        "next_step": f"A person answers with: operator approvals show {approval.id}",
    }


def confirmation_document(confirmation: Confirmation) -> dict[str, Any]:
    """A change that waits for a person's yes, and where that is given."""
    return {
        "id": confirmation.id,
        "boundary": confirmation.boundary.value,
        "state": confirmation.state.value,
        "risk": confirmation.risk.value,
        "rationale": confirmation.rationale,
        "change": to_json(dict(confirmation.change)),
        "requested_at": to_json(confirmation.requested_at),
        "expires_at": to_json(confirmation.expires_at),
        "requested_by": to_json(confirmation.requested_by),
        "next_step": f"A person answers with: operator confirmations show {confirmation.id}",
    }
