"""Tickets and the violations filed in them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from operator_protocols.domain.entry import Draft, Entry, Kind
from operator_protocols.domain.health import Severity
from operator_protocols.domain.observation import Violation
from operator_protocols.domain.ticket import Pause, Ticket, TicketState
from operator_protocols.errors import ConflictError
from operator_sre.codec import from_json, to_json
from operator_sre.store.database import Connection, Rows, plain
from operator_sre.store.repository import Repository, in_transaction, insert_row, marks, update_row
from operator_sre.store.schema import diagnosis_in

if TYPE_CHECKING:
    from operator_sre.store.transaction import Transaction

__all__ = [
    "TICKETS",
    "StoredTickets",
    "assign_ticket",
    "claim_ticket",
    "close_ticket",
    "diagnose_ticket",
    "end_ticket",
    "find_ticket",
    "grow_ticket",
    "hand_off_ticket",
    "load_ticket",
    "mark_flapping",
    "open_ticket",
    "pause_ticket",
    "read_tickets",
    "release_ticket",
    "reopen_ticket",
    "resume_ticket",
    "watch_ticket",
]

TICKETS = (
    "SELECT tickets.id, subject, target, severity, state, summary, opened_at, changed_at,"
    " attempts, tickets.epoch, worker, run, reason, flapping, assignee, pause, diagnosis"
    " FROM tickets"
)
_RANK = "(SELECT severity_rank FROM tickets AS last WHERE last.id = ?)"
_BEHIND = f"(severity_rank < {_RANK} OR (severity_rank = {_RANK} AND tickets.id > ?))"
IN_MAX = 500
# Later than any time of a clock.
FOR_EVER = 1e12


class StoredTickets(Repository):
    """All tickets."""

    def get(self, ticket: int) -> Ticket | None:
        """One ticket."""
        return find_ticket(self._reader.rows, ticket)

    def find(
        self,
        *,
        states: Iterable[TicketState] = (),
        subject: str = "",
        severity: str = "",
        assignee: str = "",
        text: str = "",
        limit: int | None = None,
        after: int = 0,
    ) -> Sequence[Ticket]:
        """Tickets in these states (default: all), most urgent and oldest first."""
        wanted = [state.value for state in (states or TicketState)]
        same = {"subject": subject, "severity": severity, "assignee": assignee}
        clauses = [f"state IN ({marks(wanted)})"]
        clauses += [f"{name} = ?" for name, value in same.items() if value]
        values: list[Any] = [*wanted, *(plain(value) for value in same.values() if value)]
        if text:
            part = plain(text.lower())
            for special in "!%_":
                part = part.replace(special, f"!{special}")
            texts = ("summary", "diagnosis", "reason")
            matches = " OR ".join(f"lower({name}) LIKE ? ESCAPE '!'" for name in texts)
            clauses.append(f"({matches})")
            values += [f"%{part}%"] * len(texts)
        if after:
            clauses.append(_BEHIND)
            values += [after] * 3
        where = " AND ".join(clauses)
        order = "ORDER BY severity_rank DESC, tickets.id"
        if limit is not None:
            order += " LIMIT ?"
            values.append(limit)
        return read_tickets(self._reader.rows, f"{TICKETS} WHERE {where} {order}", values)

    @in_transaction
    def open(
        self,
        transaction: Transaction,
        violations: Sequence[Violation],
        *,
        began: datetime | None = None,
    ) -> Ticket:
        """File violations as one ticket, root first. ConflictError if one is filed already, or if
        its ticket ended after the check of this moment `began`.
        """
        # The number of a purged ticket is still in the ledger, and not used again.
        queries = (
            "SELECT id FROM tickets ORDER BY id DESC LIMIT 1",
            "SELECT ticket FROM entries WHERE ticket IS NOT NULL ORDER BY ticket DESC LIMIT 1",
        )
        numbers = [int(row[0]) for sql in queries for row in transaction.rows(sql)]
        root = violations[0]
        payload = {
            "subject": root.subject,
            "target": root.target,
            "severity": max(violation.severity for violation in violations),
            "summary": _summary(violations),
            "violations": to_json(violations),
        }
        number = max(numbers, default=0) + 1
        draft = Draft(Kind.TICKET_OPENED, payload, ticket=number)
        return _file(transaction, draft, violations, began)

    @in_transaction
    def grow(
        self,
        transaction: Transaction,
        ticket: Ticket,
        violations: Sequence[Violation],
        *,
        began: datetime | None = None,
    ) -> Ticket:
        """Add violations that belong to a live ticket. ConflictError as for `open`."""
        now = load_ticket(transaction, ticket.id)
        if now.state not in {TicketState.OPEN, TicketState.CLAIMED}:
            # No agent would work on a violation in it, and it could not be filed again.
            raise ConflictError(f"Ticket {ticket.id} is now {now.state}; nothing was added.")
        everything = (*now.violations, *violations)
        payload = {
            "severity": max(violation.severity for violation in everything),
            "summary": _summary(everything),
            "violations": to_json(violations),
        }
        draft = Draft(Kind.TICKET_GREW, payload, ticket=ticket.id, run=ticket.run)
        return _file(transaction, draft, violations, began)


def _summary(violations: Sequence[Violation]) -> str:
    root, others = violations[0], len(violations) - 1
    more = f" (and {others} more)" if others else ""
    return f"{root.target}: {root.invariant}: {root.detail}{more}"


def _file(
    transaction: Transaction,
    draft: Draft,
    violations: Sequence[Violation],
    began: datetime | None,
) -> Ticket:
    """Append a draft unless a live ticket has a violation; the unique index is the last guard."""
    sql = "SELECT 1 FROM violations WHERE key = ? AND live = 1"
    ended = (
        "SELECT 1 FROM violations JOIN tickets ON tickets.id = violations.ticket"
        " WHERE key = ? AND live = 0 AND changed_at > ? AND changed_at <= ?"
    )
    for violation in violations:
        if transaction.rows(sql, (violation.key,)):
            raise ConflictError(f"A live ticket already covers {violation.key!r}.")
        # What a long check saw may have been repaired and proven since; the next check knows. An
        # end in the future is that of a clock ahead of ours, and says nothing.
        within = began and (violation.key, began.isoformat(), transaction.now().isoformat())
        if within and transaction.rows(ended, within):
            raise ConflictError(f"The ticket about {violation.key!r} ended after it was seen.")
    transaction.append(draft)
    assert draft.ticket is not None
    return load_ticket(transaction, draft.ticket)


def find_ticket(rows: Rows, ticket: int) -> Ticket | None:
    """The ticket of this number, or None."""
    tickets = read_tickets(rows, f"{TICKETS} WHERE tickets.id = ?", (ticket,))
    return tickets[0] if tickets else None


def load_ticket(transaction: Transaction, ticket: int) -> Ticket:
    """An existing ticket, inside a transaction."""
    known = find_ticket(transaction.rows, ticket)
    assert known is not None
    return known


def read_tickets(query: Rows, sql: str, values: Sequence[object]) -> list[Ticket]:
    """The tickets of a statement that begins with TICKETS, with their violations."""
    rows = query(sql, values)
    violations: dict[int, list[Violation]] = {row[0]: [] for row in rows}
    numbers = list(violations)
    for start in range(0, len(numbers), IN_MAX):
        part = numbers[start : start + IN_MAX]
        sql = f"SELECT ticket, body FROM violations WHERE ticket IN ({marks(part)})"  # noqa: S608
        stored = query(f"{sql} ORDER BY place", part)
        known = _read_violations([body for _, body in stored])
        for ticket, body in stored:
            violations[ticket].append(known[body])
    return [
        Ticket(
            id=row[0],
            subject=row[1],
            target=row[2],
            severity=Severity(row[3]),
            state=TicketState(row[4]),
            summary=row[5],
            opened_at=datetime.fromisoformat(row[6]),
            changed_at=datetime.fromisoformat(row[7]),
            attempts=row[8],
            epoch=row[9],
            worker=row[10],
            run=row[11],
            reason=row[12],
            flapping=bool(row[13]),
            assignee=row[14],
            pause=from_json(Pause, json.loads(row[15])) if row[15] else None,
            diagnosis=row[16],
            violations=tuple(violations[row[0]]),
        )
        for row in rows
    ]


# A cache of violations by their text: every check reads the same thousands, which never change.
_violations: dict[str, Violation] = {}
VIOLATIONS_KEPT = 20_000
_DECODER = msgspec.json.Decoder(list[Violation])


def _read_violations(bodies: Sequence[str]) -> Mapping[str, Violation]:
    """Decode violations; several threads may do it at the same time."""
    known = {body: hit for body in bodies if (hit := _violations.get(body)) is not None}
    new = [body for body in dict.fromkeys(bodies) if body not in known]
    if new:
        text = f"[{','.join(new)}]"
        try:
            violations = _DECODER.decode(text)
        except (msgspec.DecodeError, UnicodeEncodeError):
            violations = from_json(list[Violation], json.loads(text))  # accepts lone surrogates
        if len(_violations) > VIOLATIONS_KEPT:
            _violations.clear()
        added = dict(zip(new, violations, strict=True))
        _violations.update(added)
        known |= added
    return known


def open_ticket(connection: Connection, entry: Entry) -> None:
    """Store a ticket with its first violations."""
    payload, at = entry.payload, entry.at.isoformat()
    row = {
        "id": entry.ticket,
        "subject": payload["subject"],
        "target": payload["target"],
        "severity": payload["severity"],
        "severity_rank": Severity(payload["severity"]).rank,
        "state": TicketState.OPEN.value,
        "summary": plain(payload["summary"]),
        "opened_at": at,
        "changed_at": at,
    }
    insert_row(connection, "tickets", row)
    _add_violations(connection, entry)


def grow_ticket(connection: Connection, entry: Entry) -> None:
    """Store more violations of a ticket."""
    _add_violations(connection, entry)
    severity = Severity(entry.payload["severity"])
    columns = {
        "severity": severity.value,
        "severity_rank": severity.rank,
        "summary": plain(entry.payload["summary"]),
    }
    _change(connection, entry, columns)


def _add_violations(connection: Connection, entry: Entry) -> None:
    connection.executemany(
        "INSERT INTO violations (ticket, place, key, live, body) VALUES (?, ?, ?, 1, ?)",
        [
            (
                entry.ticket,
                entry.seq * 1000 + place,
                plain(from_json(Violation, body).key),
                json.dumps(body),
            )
            for place, body in enumerate(entry.payload["violations"])
        ],
    )


def _change(connection: Connection, entry: Entry, columns: Mapping[str, object]) -> None:
    changes = {**columns, "changed_at": entry.at.isoformat()}
    update_row(connection, "tickets", entry.ticket, changes)


def _set_state(connection: Connection, entry: Entry, state: TicketState) -> None:
    """Set the state and reason of a ticket that no worker has any more."""
    reason = plain(entry.payload["reason"])
    _change(connection, entry, {"state": state.value, "worker": "", "reason": reason})


def diagnose_ticket(connection: Connection, entry: Entry) -> None:
    """Store the diagnosis of a ticket in a sentence; none where it names no cause."""
    update_row(connection, "tickets", entry.ticket, {"diagnosis": plain(diagnosis_in(entry))})


def claim_ticket(connection: Connection, entry: Entry) -> None:
    """Store the worker and run of a claimed ticket."""
    columns = {name: entry.payload[name] for name in ("worker", "epoch", "attempts")}
    state = TicketState.CLAIMED.value
    _change(connection, entry, {"state": state, "run": entry.run, **columns})


def release_ticket(connection: Connection, entry: Entry) -> None:
    """Reopen a ticket that its worker released."""
    _set_state(connection, entry, TicketState.OPEN)
    columns = {name: entry.payload[name] for name in ("not_before", "attempts")}
    _change(connection, entry, columns)


def end_ticket(connection: Connection, entry: Entry) -> None:
    """Mark a ticket as resolved, or escalated to a person."""
    if entry.kind is Kind.TICKET_RESOLVED:
        _set_state(connection, entry, TicketState.RESOLVED)
        resume_ticket(connection, entry)
        connection.execute("UPDATE violations SET live = 0 WHERE ticket = ?", (entry.ticket,))
        return
    _set_state(connection, entry, TicketState.ESCALATED)
    # What has a cause of its own is filed again, in a ticket of its own, while it is broken.
    connection.executemany(
        "DELETE FROM violations WHERE ticket = ? AND key = ?",
        [(entry.ticket, plain(key)) for key in entry.payload.get("leaves", ())],
    )
    if entry.actor.type == "user":
        pause_ticket(connection, entry)  # agents leave it to that person


def mark_flapping(connection: Connection, entry: Entry) -> None:
    """Mark a ticket as flapping."""
    _change(connection, entry, {"flapping": 1})


def pause_ticket(connection: Connection, entry: Entry) -> None:
    """Keep agents off a ticket until a time, or until a person resumes it."""
    until = entry.payload.get("until")
    pause = {
        "by": entry.actor.id,
        "reason": entry.payload["reason"],
        "until": until,
        "snoozed": entry.kind is Kind.TICKET_SNOOZED,
    }
    paused_until = FOR_EVER if until is None else datetime.fromisoformat(until).timestamp()
    _change(connection, entry, {"pause": json.dumps(pause), "paused_until": paused_until})


def resume_ticket(connection: Connection, entry: Entry) -> None:
    """End the pause of a ticket."""
    _change(connection, entry, {"pause": "", "paused_until": 0})


def assign_ticket(connection: Connection, entry: Entry) -> None:
    """Assign a ticket."""
    _change(connection, entry, {"assignee": plain(entry.payload["assignee"])})


def close_ticket(connection: Connection, entry: Entry) -> None:
    """Close a ticket; a violation that is still broken opens a new one."""
    _set_state(connection, entry, TicketState.CLOSED)
    resume_ticket(connection, entry)
    connection.execute("UPDATE violations SET live = 0 WHERE ticket = ?", (entry.ticket,))


def hand_off_ticket(connection: Connection, entry: Entry) -> None:
    """Hand a ticket to another team; it stays live, so that no second one opens."""
    assign_ticket(connection, entry)
    _set_state(connection, entry, TicketState.ESCALATED)
    pause_ticket(connection, entry)  # agents leave it to that team


def watch_ticket(connection: Connection, entry: Entry) -> None:
    """Watch a ticket for longer before it is resolved."""
    _set_state(connection, entry, TicketState.WATCHED)


def reopen_ticket(connection: Connection, entry: Entry) -> None:
    """Reopen a ticket; only a person ends the pause of a person."""
    _set_state(connection, entry, TicketState.OPEN)
    if entry.actor.type == "user":
        resume_ticket(connection, entry)
    # What is broken now may have another cause.
    columns = {"attempts": entry.payload["attempts"], "not_before": 0, "diagnosis": ""}
    _change(connection, entry, columns)
    connection.execute("UPDATE violations SET live = 1 WHERE ticket = ?", (entry.ticket,))
