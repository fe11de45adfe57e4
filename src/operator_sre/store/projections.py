"""Updates the projections: the rows that follow from each kind of entry."""

from __future__ import annotations

from collections.abc import Callable

from operator_protocols.domain.entry import Draft, Entry, Kind
from operator_sre.store import (
    alerts,
    approvals,
    commands,
    confirmations,
    intents,
    restraints,
    tickets,
    tokens,
    workflows,
)
from operator_sre.store.database import Connection

__all__ = ["PROJECTED", "project", "rows_follow"]

_FOLLOWS: dict[Kind, Callable[[Connection, Entry], None]] = {
    Kind.TICKET_OPENED: tickets.open_ticket,
    Kind.TICKET_GREW: tickets.grow_ticket,
    Kind.TICKET_CLAIMED: tickets.claim_ticket,
    Kind.TICKET_RELEASED: tickets.release_ticket,
    Kind.TICKET_RESOLVED: tickets.end_ticket,
    Kind.TICKET_ESCALATED: tickets.end_ticket,
    Kind.TICKET_FLAPPING: tickets.mark_flapping,
    Kind.TICKET_HELD: tickets.pause_ticket,
    Kind.TICKET_SNOOZED: tickets.pause_ticket,
    Kind.TICKET_UNHELD: tickets.resume_ticket,
    Kind.TICKET_ASSIGNED: tickets.assign_ticket,
    Kind.TICKET_CLOSED: tickets.close_ticket,
    Kind.TICKET_REOPENED: tickets.reopen_ticket,
    Kind.TICKET_WATCHED: tickets.watch_ticket,
    Kind.TICKET_HANDED_OFF: tickets.hand_off_ticket,
    Kind.DIAGNOSIS: tickets.diagnose_ticket,
    Kind.RUN_STARTED: intents.start_run,
    Kind.RUN_FINISHED: intents.finish_run,
    Kind.REASONING: intents.add_spending,
    Kind.SUMMARY: intents.add_spending,
    Kind.APPROVAL_REQUESTED: approvals.request_approval,
    Kind.APPROVAL_ESCALATED: approvals.escalate_approval,
    Kind.APPROVAL_DECIDED: approvals.decide_approval,
    Kind.RULE_ADDED: approvals.add_rule,
    Kind.RULE_REVOKED: approvals.revoke_rule,
    Kind.PERMIT_MINTED: intents.mint_permit,
    Kind.TOOL_CALL: intents.begin_intent,
    Kind.TOOL_RESULT: intents.end_intent,
    Kind.REFUSED: commands.refuse_command,
    Kind.PATTERN_CREATED: commands.create_pattern,
    Kind.PATTERN_USED: commands.use_pattern,
    Kind.PATTERN_DELETED: commands.hide_pattern,
    Kind.KILL_SWITCH_ON: restraints.turn_switch,
    Kind.KILL_SWITCH_OFF: restraints.turn_switch,
    Kind.MODE_SET: restraints.set_mode,
    Kind.MODE_RESET: restraints.reset_mode,
    Kind.SESSION_HELD: restraints.hold_session,
    Kind.SESSION_RESET: restraints.reset_session,
    Kind.LIMITS_RESET: restraints.reset_limits,
    Kind.WORKFLOW_REQUESTED: workflows.request_workflow,
    Kind.WORKFLOW_CLAIMED: workflows.claim_workflow,
    Kind.WORKFLOW_STEP: workflows.change_step,
    Kind.WORKFLOW_UNDO: workflows.undo_step,
    Kind.WORKFLOW_CANCELLED: workflows.cancel_workflow,
    Kind.WORKFLOW_ENDED: workflows.end_workflow,
    Kind.SILENCE_ADDED: alerts.add_silence,
    Kind.SILENCE_ENDED: alerts.end_silence,
    Kind.ALERT_FIRED: alerts.fire_alert,
    Kind.ALERT_CLEARED: alerts.clear_alert,
    Kind.CONFIRMATION_REQUESTED: confirmations.request_confirmation,
    Kind.CONFIRMATION_DECIDED: confirmations.decide_confirmation,
    Kind.CONFIRMATION_SETTLED: confirmations.settle_confirmation,
    Kind.TOKEN_CREATED: tokens.create_token,
    Kind.TOKEN_REVOKED: tokens.revoke_token,
}
PROJECTED = frozenset(_FOLLOWS)
# Only paid answers and summaries have a row, but these kinds are most of a ledger.
_PAID = frozenset({Kind.REASONING, Kind.SUMMARY})


def project(connection: Connection, entry: Entry) -> None:
    """Apply an entry to the projections. It depends only on the entry and the rows before it."""
    follow = _FOLLOWS.get(entry.kind)
    if follow is not None:
        follow(connection, entry)


def rows_follow(draft: Draft) -> bool:
    """False when no row of a table can follow from the entry. Pure."""
    kind = draft.kind
    if kind not in _PAID:
        return kind in PROJECTED
    spent = draft.payload.get("spent")
    return any(spent.values()) if isinstance(spent, dict) else bool(spent)
