"""What follows from an entry: the rows that answer questions quickly."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from typing import Any

from operator_protocols.domain.entry import Draft, Entry, Kind
from operator_protocols.domain.health import Severity
from operator_protocols.domain.observation import Violation
from operator_protocols.domain.permit import ApprovalState
from operator_protocols.domain.ticket import TicketState
from operator_sre.codec import from_json
from operator_sre.store.alert_rows import alert_cleared, alert_fired
from operator_sre.store.approval_rows import answer_of
from operator_sre.store.attempts import command_began, command_ended, command_refused
from operator_sre.store.confirmation_rows import (
    confirmation_decided,
    confirmation_requested,
    confirmation_settled,
)
from operator_sre.store.database import Connection, plain
from operator_sre.store.restraints import (
    limits_reset,
    mode_reset,
    mode_set,
    session_held,
    session_reset,
    switched,
)
from operator_sre.store.silence_rows import silence_added, silence_ended
from operator_sre.store.spending import thought
from operator_sre.store.ticket_rows import (
    ticket_assigned,
    ticket_closed,
    ticket_handed_off,
    ticket_paused,
    ticket_reopened,
    ticket_unheld,
    ticket_watched,
)
from operator_sre.store.token_rows import token_created, token_revoked
from operator_sre.store.workflow_rows import (
    workflow_cancelled,
    workflow_claimed,
    workflow_ended,
    workflow_requested,
    workflow_step,
    workflow_undo,
)

__all__ = ["PROJECTED", "project", "rows_follow"]


def project(connection: Connection, entry: Entry) -> None:
    """Bring the projections up to an entry. Reads nothing but the entry and the rows before it."""
    follow = _FOLLOWS.get(entry.kind)
    if follow is not None:
        follow(connection, entry)


def _ticket_opened(connection: Connection, entry: Entry) -> None:
    payload = entry.payload
    at = entry.at.isoformat()
    connection.execute(
        "INSERT INTO tickets (id, subject, target, severity, severity_rank, state, summary,"
        " opened_at, changed_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            entry.ticket,
            payload["subject"],
            payload["target"],
            payload["severity"],
            Severity(payload["severity"]).rank,
            TicketState.OPEN.value,
            plain(payload["summary"]),
            at,
            at,
        ),
    )
    _add_violations(connection, entry)


def _ticket_grew(connection: Connection, entry: Entry) -> None:
    _add_violations(connection, entry)
    severity = Severity(entry.payload["severity"])
    connection.execute(
        "UPDATE tickets SET severity = ?, severity_rank = ?, summary = ?, changed_at = ?"
        " WHERE id = ?",
        (
            severity.value,
            severity.rank,
            plain(entry.payload["summary"]),
            entry.at.isoformat(),
            entry.ticket,
        ),
    )


def _add_violations(connection: Connection, entry: Entry) -> None:
    connection.executemany(
        "INSERT INTO violations (ticket, place, key, live, body) VALUES (?, ?, ?, 1, ?)",
        [
            (entry.ticket, entry.seq * 1000 + place, _key(body), _text(body))
            for place, body in enumerate(entry.payload["violations"])
        ],
    )


def _key(body: object) -> str:
    return plain(from_json(Violation, body).key)


def _text(body: object) -> str:
    return json.dumps(body)


def _ticket_claimed(connection: Connection, entry: Entry) -> None:
    payload = entry.payload
    connection.execute(
        "UPDATE tickets SET state = ?, worker = ?, run = ?, epoch = ?, attempts = ?,"
        " changed_at = ? WHERE id = ?",
        (
            TicketState.CLAIMED.value,
            payload["worker"],
            entry.run,
            payload["epoch"],
            payload["attempts"],
            entry.at.isoformat(),
            entry.ticket,
        ),
    )


def _ticket_released(connection: Connection, entry: Entry) -> None:
    connection.execute(
        "UPDATE tickets SET state = ?, worker = '', reason = ?, not_before = ?, attempts = ?,"
        " changed_at = ? WHERE id = ?",
        (
            TicketState.OPEN.value,
            plain(entry.payload["reason"]),
            entry.payload["not_before"],
            entry.payload["attempts"],
            entry.at.isoformat(),
            entry.ticket,
        ),
    )


def _ticket_ended(connection: Connection, entry: Entry) -> None:
    resolved = entry.kind is Kind.TICKET_RESOLVED
    state = TicketState.RESOLVED if resolved else TicketState.ESCALATED
    connection.execute(
        "UPDATE tickets SET state = ?, worker = '', reason = ?, changed_at = ? WHERE id = ?",
        (state.value, plain(entry.payload["reason"]), entry.at.isoformat(), entry.ticket),
    )
    if entry.actor.type == "user" and not resolved:
        ticket_paused(connection, entry)  # whoever takes it over has the last word
    if resolved:
        ticket_unheld(connection, entry)
        connection.execute("UPDATE violations SET live = 0 WHERE ticket = ?", (entry.ticket,))


def _ticket_flapping(connection: Connection, entry: Entry) -> None:
    connection.execute(
        "UPDATE tickets SET flapping = 1, changed_at = ? WHERE id = ?",
        (entry.at.isoformat(), entry.ticket),
    )


def _run_started(connection: Connection, entry: Entry) -> None:
    connection.execute(
        "INSERT INTO runs (id, seq, ticket, model, state, started_at)"
        " VALUES (?, ?, ?, ?, 'running', ?)",
        (entry.run, entry.seq, entry.ticket, entry.payload["model"], entry.at.isoformat()),
    )


def _run_finished(connection: Connection, entry: Entry) -> None:
    connection.execute(
        "UPDATE runs SET state = ?, summary = ?, finished_at = ? WHERE id = ?",
        (entry.payload["state"], plain(entry.payload["summary"]), entry.at.isoformat(), entry.run),
    )


def _approval_requested(connection: Connection, entry: Entry) -> None:
    approval = entry.payload["approval"]
    connection.execute(
        "INSERT INTO approvals (id, seq, state, expires_at, run, body) VALUES (?, ?, ?, ?, ?, ?)",
        (
            approval["id"],
            entry.seq,
            ApprovalState.PENDING.value,
            datetime.fromisoformat(approval["expires_at"]).timestamp(),
            plain(entry.run),
            _text(approval),
        ),
    )


def _approval_escalated(connection: Connection, entry: Entry) -> None:
    _add_to_approval(connection, entry.payload["id"], {"escalated_at": entry.at.isoformat()})


def _approval_decided(connection: Connection, entry: Entry) -> None:
    _add_to_approval(connection, entry.payload["id"], answer_of(entry), answers=1)
    connection.execute(
        "UPDATE approvals SET state = ? WHERE id = ?",
        (entry.payload["state"], entry.payload["id"]),
    )
    # A run that is parked until people answer need not wait any longer.
    if entry.run and entry.payload["state"] != ApprovalState.PENDING:
        connection.execute(
            "UPDATE tickets SET not_before = 0 WHERE run = ? AND state = ?",
            (entry.run, TicketState.OPEN.value),
        )


def _add_to_approval(
    connection: Connection, approval: str, more: dict[str, Any], *, answers: int = 0
) -> None:
    row = connection.execute("SELECT body FROM approvals WHERE id = ?", (approval,)).fetchone()
    body = json.loads(row[0])
    body |= more | {"version": body.get("version", 1) + answers}
    connection.execute("UPDATE approvals SET body = ? WHERE id = ?", (_text(body), approval))


def _rule_added(connection: Connection, entry: Entry) -> None:
    rule = entry.payload["rule"]
    connection.execute(
        "INSERT INTO standing_rules (id, seq, revoked, body) VALUES (?, ?, 0, ?)",
        (rule["id"], entry.seq, _text(rule)),
    )


def _rule_revoked(connection: Connection, entry: Entry) -> None:
    revoked = {
        "revoked_at": entry.at.isoformat(),
        "revoked_by": entry.actor.id,
        "revoked_because": entry.payload["reason"],
    }
    _add_to_rule(connection, entry.payload["id"], revoked)
    connection.execute("UPDATE standing_rules SET revoked = 1 WHERE id = ?", (entry.payload["id"],))


def _add_to_rule(connection: Connection, rule: str, more: dict[str, Any], *, uses: int = 0) -> None:
    row = connection.execute("SELECT body FROM standing_rules WHERE id = ?", (rule,)).fetchone()
    body = json.loads(row[0])
    body |= more | {"uses": body["uses"] + uses}
    connection.execute("UPDATE standing_rules SET body = ? WHERE id = ?", (_text(body), rule))


def _permit_minted(connection: Connection, entry: Entry) -> None:
    payload = entry.payload
    connection.execute(
        "INSERT INTO permits (id, digest, policy, ticket, epoch, expires_at, level, risk, approval,"
        " touches, version, rule, binding, subject, generation)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,"
        " (SELECT coalesce(max(generation), 0) FROM kill_switch))",
        (
            payload["permit"],
            payload["digest"],
            payload["policy_digest"],
            entry.ticket,
            payload["epoch"],
            datetime.fromisoformat(payload["expires_at"]).timestamp(),
            payload.get("level", ""),
            payload.get("risk", ""),
            payload.get("approval", ""),
            payload.get("touches", ""),
            payload.get("version", 0),
            payload.get("rule", ""),
            payload.get("binding", ""),
            plain(payload.get("subject", "")),
        ),
    )
    if payload.get("rule"):
        _add_to_rule(connection, payload["rule"], {}, uses=1)
    if payload.get("approval"):
        _add_to_approval(connection, payload["approval"], {"permit": payload["permit"]})


def _intent(connection: Connection, entry: Entry) -> None:
    connection.execute("UPDATE permits SET used = 1 WHERE id = ?", (entry.payload["permit"],))
    command_began(connection, entry)


def _outcome(connection: Connection, entry: Entry) -> None:
    connection.execute(
        "UPDATE permits SET outcome = ? WHERE id = ?",
        (entry.payload["result"]["outcome"], entry.payload["permit"]),
    )
    command_ended(connection, entry)


def _pattern_created(connection: Connection, entry: Entry) -> None:
    body = _text(entry.payload["pattern"])
    connection.execute(
        "INSERT INTO patterns (name, body, hidden, uses) VALUES (?, ?, 0, 0)"
        " ON CONFLICT (name) DO UPDATE SET body = excluded.body, hidden = 0, uses = 0",
        (plain(entry.payload["pattern"]["name"]), body),
    )


def _pattern_used(connection: Connection, entry: Entry) -> None:
    connection.execute(
        "INSERT INTO patterns (name, body, hidden, uses) VALUES (?, '', 0, 1)"
        " ON CONFLICT (name) DO UPDATE SET uses = patterns.uses + 1",
        (plain(entry.payload["name"]),),
    )


def _pattern_deleted(connection: Connection, entry: Entry) -> None:
    connection.execute(
        "INSERT INTO patterns (name, body, hidden, uses) VALUES (?, '', 1, 0)"
        " ON CONFLICT (name) DO UPDATE SET hidden = 1",
        (plain(entry.payload["name"]),),
    )


_FOLLOWS: dict[Kind, Callable[[Connection, Entry], None]] = {
    Kind.TICKET_OPENED: _ticket_opened,
    Kind.TICKET_GREW: _ticket_grew,
    Kind.TICKET_CLAIMED: _ticket_claimed,
    Kind.TICKET_RELEASED: _ticket_released,
    Kind.TICKET_RESOLVED: _ticket_ended,
    Kind.TICKET_ESCALATED: _ticket_ended,
    Kind.TICKET_FLAPPING: _ticket_flapping,
    Kind.TICKET_HELD: ticket_paused,
    Kind.TICKET_SNOOZED: ticket_paused,
    Kind.TICKET_UNHELD: ticket_unheld,
    Kind.TICKET_ASSIGNED: ticket_assigned,
    Kind.TICKET_CLOSED: ticket_closed,
    Kind.TICKET_REOPENED: ticket_reopened,
    Kind.TICKET_WATCHED: ticket_watched,
    Kind.TICKET_HANDED_OFF: ticket_handed_off,
    Kind.RUN_STARTED: _run_started,
    Kind.RUN_FINISHED: _run_finished,
    Kind.REASONING: thought,
    Kind.SUMMARY: thought,
    Kind.APPROVAL_REQUESTED: _approval_requested,
    Kind.APPROVAL_ESCALATED: _approval_escalated,
    Kind.APPROVAL_DECIDED: _approval_decided,
    Kind.RULE_ADDED: _rule_added,
    Kind.RULE_REVOKED: _rule_revoked,
    Kind.PERMIT_MINTED: _permit_minted,
    Kind.TOOL_CALL: _intent,
    Kind.TOOL_RESULT: _outcome,
    Kind.REFUSED: command_refused,
    Kind.PATTERN_CREATED: _pattern_created,
    Kind.PATTERN_USED: _pattern_used,
    Kind.PATTERN_DELETED: _pattern_deleted,
    Kind.KILL_SWITCH_ON: switched,
    Kind.KILL_SWITCH_OFF: switched,
    Kind.MODE_SET: mode_set,
    Kind.MODE_RESET: mode_reset,
    Kind.SESSION_HELD: session_held,
    Kind.SESSION_RESET: session_reset,
    Kind.LIMITS_RESET: limits_reset,
    Kind.WORKFLOW_REQUESTED: workflow_requested,
    Kind.WORKFLOW_CLAIMED: workflow_claimed,
    Kind.WORKFLOW_STEP: workflow_step,
    Kind.WORKFLOW_UNDO: workflow_undo,
    Kind.WORKFLOW_CANCELLED: workflow_cancelled,
    Kind.WORKFLOW_ENDED: workflow_ended,
    Kind.SILENCE_ADDED: silence_added,
    Kind.SILENCE_ENDED: silence_ended,
    Kind.ALERT_FIRED: alert_fired,
    Kind.ALERT_CLEARED: alert_cleared,
    Kind.CONFIRMATION_REQUESTED: confirmation_requested,
    Kind.CONFIRMATION_DECIDED: confirmation_decided,
    Kind.CONFIRMATION_SETTLED: confirmation_settled,
    Kind.TOKEN_CREATED: token_created,
    Kind.TOKEN_REVOKED: token_revoked,
}

PROJECTED = frozenset(_FOLLOWS)
# From these only what was paid for follows, and they are most of what a ledger holds.
_PAID = frozenset({Kind.REASONING, Kind.SUMMARY})


def rows_follow(draft: Draft) -> bool:
    """False when no row of a table can follow from the entry. Pure."""
    kind = draft.kind
    if kind not in _PAID:
        return kind in PROJECTED
    spent = draft.payload.get("spent")
    return any(spent.values()) if isinstance(spent, dict) else bool(spent)
