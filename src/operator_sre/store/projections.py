"""What follows from an entry: the rows that answer questions quickly."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from datetime import datetime

from operator_protocols.domain.entry import Entry, Kind
from operator_protocols.domain.health import Severity
from operator_protocols.domain.observation import Violation
from operator_protocols.domain.permit import ApprovalState
from operator_protocols.domain.ticket import TicketState
from operator_sre.codec import from_json

__all__ = ["project"]


def project(connection: sqlite3.Connection, entry: Entry) -> None:
    """Bring the projections up to an entry. Reads nothing but the entry and the rows before it."""
    follow = _FOLLOWS.get(entry.kind)
    if follow is not None:
        follow(connection, entry)


def _plain(text: str) -> str:
    """Free text as a column can hold it; a lone surrogate, which the ledger keeps, becomes `?`."""
    return text.encode("utf-8", "replace").decode()


def _ticket_opened(connection: sqlite3.Connection, entry: Entry) -> None:
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
            TicketState.OPEN,
            _plain(payload["summary"]),
            at,
            at,
        ),
    )
    _add_violations(connection, entry)


def _ticket_grew(connection: sqlite3.Connection, entry: Entry) -> None:
    _add_violations(connection, entry)
    severity = Severity(entry.payload["severity"])
    connection.execute(
        "UPDATE tickets SET severity = ?, severity_rank = ?, summary = ?, changed_at = ?"
        " WHERE id = ?",
        (
            severity,
            severity.rank,
            _plain(entry.payload["summary"]),
            entry.at.isoformat(),
            entry.ticket,
        ),
    )


def _add_violations(connection: sqlite3.Connection, entry: Entry) -> None:
    connection.executemany(
        "INSERT INTO violations (ticket, key, live, body) VALUES (?, ?, 1, ?)",
        [
            (entry.ticket, from_json(Violation, body).key, json.dumps(body))
            for body in entry.payload["violations"]
        ],
    )


def _ticket_claimed(connection: sqlite3.Connection, entry: Entry) -> None:
    payload = entry.payload
    connection.execute(
        "UPDATE tickets SET state = ?, worker = ?, run = ?, epoch = ?, attempts = ?,"
        " changed_at = ? WHERE id = ?",
        (
            TicketState.CLAIMED,
            payload["worker"],
            entry.run,
            payload["epoch"],
            payload["attempts"],
            entry.at.isoformat(),
            entry.ticket,
        ),
    )


def _ticket_released(connection: sqlite3.Connection, entry: Entry) -> None:
    connection.execute(
        "UPDATE tickets SET state = ?, worker = '', reason = ?, not_before = ?, changed_at = ?"
        " WHERE id = ?",
        (
            TicketState.OPEN,
            _plain(entry.payload["reason"]),
            entry.payload["not_before"],
            entry.at.isoformat(),
            entry.ticket,
        ),
    )


def _ticket_ended(connection: sqlite3.Connection, entry: Entry) -> None:
    resolved = entry.kind is Kind.TICKET_RESOLVED
    state = TicketState.RESOLVED if resolved else TicketState.ESCALATED
    connection.execute(
        "UPDATE tickets SET state = ?, worker = '', reason = ?, changed_at = ? WHERE id = ?",
        (state, _plain(entry.payload["reason"]), entry.at.isoformat(), entry.ticket),
    )
    if resolved:
        connection.execute("UPDATE violations SET live = 0 WHERE ticket = ?", (entry.ticket,))


def _run_started(connection: sqlite3.Connection, entry: Entry) -> None:
    connection.execute(
        "INSERT INTO runs (id, ticket, model, state, started_at) VALUES (?, ?, ?, 'running', ?)",
        (entry.run, entry.ticket, entry.payload["model"], entry.at.isoformat()),
    )


def _run_finished(connection: sqlite3.Connection, entry: Entry) -> None:
    connection.execute(
        "UPDATE runs SET state = ?, summary = ?, finished_at = ? WHERE id = ?",
        (
            entry.payload["state"],
            _plain(entry.payload["summary"]),
            entry.at.isoformat(),
            entry.run,
        ),
    )


def _approval_requested(connection: sqlite3.Connection, entry: Entry) -> None:
    approval = entry.payload["approval"]
    connection.execute(
        "INSERT INTO approvals (id, state, expires_at, body) VALUES (?, ?, ?, ?)",
        (
            approval["id"],
            ApprovalState.PENDING,
            datetime.fromisoformat(approval["expires_at"]).timestamp(),
            json.dumps(approval),
        ),
    )


def _approval_decided(connection: sqlite3.Connection, entry: Entry) -> None:
    payload = entry.payload
    connection.execute(
        "UPDATE approvals SET state = ?, body = json_set(body, '$.state', ?, '$.decided_by', ?,"
        " '$.reason', ?) WHERE id = ?",
        (
            payload["state"],
            payload["state"],
            _plain(payload["decided_by"]),
            _plain(payload["reason"]),
            payload["id"],
        ),
    )


def _permit_minted(connection: sqlite3.Connection, entry: Entry) -> None:
    payload = entry.payload
    connection.execute(
        "INSERT INTO permits (id, digest, policy, ticket, epoch, expires_at)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        (
            payload["permit"],
            payload["digest"],
            payload["policy_digest"],
            entry.ticket,
            payload["epoch"],
            datetime.fromisoformat(payload["expires_at"]).timestamp(),
        ),
    )
    connection.execute(
        "UPDATE approvals SET body = json_set(body, '$.permit', ?) WHERE id = ?",
        (payload["permit"], payload.get("approval", "")),
    )


def _intent(connection: sqlite3.Connection, entry: Entry) -> None:
    connection.execute("UPDATE permits SET used = 1 WHERE id = ?", (entry.payload["permit"],))


def _outcome(connection: sqlite3.Connection, entry: Entry) -> None:
    connection.execute(
        "UPDATE permits SET outcome = ? WHERE id = ?",
        (entry.payload["result"]["outcome"], entry.payload["permit"]),
    )


_FOLLOWS: dict[Kind, Callable[[sqlite3.Connection, Entry], None]] = {
    Kind.TICKET_OPENED: _ticket_opened,
    Kind.TICKET_GREW: _ticket_grew,
    Kind.TICKET_CLAIMED: _ticket_claimed,
    Kind.TICKET_RELEASED: _ticket_released,
    Kind.TICKET_RESOLVED: _ticket_ended,
    Kind.TICKET_ESCALATED: _ticket_ended,
    Kind.RUN_STARTED: _run_started,
    Kind.RUN_FINISHED: _run_finished,
    Kind.APPROVAL_REQUESTED: _approval_requested,
    Kind.APPROVAL_DECIDED: _approval_decided,
    Kind.PERMIT_MINTED: _permit_minted,
    Kind.INTENT: _intent,
    Kind.OUTCOME: _outcome,
}
