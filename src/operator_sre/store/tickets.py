"""Tickets, what is filed in them, and how each stands as its entries say."""

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

if TYPE_CHECKING:
    from operator_sre.store.transaction import Transaction

__all__ = [
    "TICKETS",
    "StoredTickets",
    "assign_ticket",
    "claim_ticket",
    "close_ticket",
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
    " attempts, tickets.epoch, worker, run, reason, flapping, assignee, pause FROM tickets"
)
_RANK = "(SELECT severity_rank FROM tickets AS last WHERE last.id = ?)"
_BEHIND = f"(severity_rank < {_RANK} OR (severity_rank = {_RANK} AND tickets.id > ?))"
IN_MAX = 500
# Later than any clock of ours will say.
FOR_EVER = 1e12


class StoredTickets(Repository):
    """Tickets as the ledger tells them."""

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
        """Tickets in these states (all when none is named), most urgent and oldest first."""
        wanted = [state.value for state in (states or TicketState)]
        same = {"subject": subject, "severity": severity, "assignee": assignee}
        clauses = [f"state IN ({marks(wanted)})"]
        clauses += [f"{name} = ?" for name, value in same.items() if value]
        values: list[Any] = [*wanted, *(plain(value) for value in same.values() if value)]
        if text:
            part = plain(text.lower())
            for special in "!%_":
                part = part.replace(special, f"!{special}")
            clauses.append("(lower(summary) LIKE ? ESCAPE '!' OR lower(reason) LIKE ? ESCAPE '!')")
            values += [f"%{part}%"] * 2
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
    def open(self, transaction: Transaction, violations: Sequence[Violation]) -> Ticket:
        """File violations as one ticket; the first is its root. ConflictError if one is filed."""
        # A number that retention took away is in the ledger still, and not used again.
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
        return _file(transaction, Draft(Kind.TICKET_OPENED, payload, ticket=number), violations)

    @in_transaction
    def grow(
        self, transaction: Transaction, ticket: Ticket, violations: Sequence[Violation]
    ) -> Ticket:
        """Add violations that belong to a live ticket. ConflictError if one is filed already."""
        now = load_ticket(transaction, ticket.id)
        if now.state not in {TicketState.OPEN, TicketState.CLAIMED}:
            # Nobody would work on a violation that is hidden in it, and nobody could file it again.
            raise ConflictError(f"Ticket {ticket.id} is {now.state} by now; nothing was added.")
        everything = (*now.violations, *violations)
        payload = {
            "severity": max(violation.severity for violation in everything),
            "summary": _summary(everything),
            "violations": to_json(violations),
        }
        draft = Draft(Kind.TICKET_GREW, payload, ticket=ticket.id, run=ticket.run)
        return _file(transaction, draft, violations)


def _summary(violations: Sequence[Violation]) -> str:
    root, others = violations[0], len(violations) - 1
    more = f" (and {others} more)" if others else ""
    return f"{root.target}: {root.invariant}: {root.detail}{more}"


def _file(transaction: Transaction, draft: Draft, violations: Sequence[Violation]) -> Ticket:
    """Append it, unless a live ticket holds one of them; the unique index is the last guard."""
    sql = "SELECT 1 FROM violations WHERE key = ? AND live = 1"
    for violation in violations:
        if transaction.rows(sql, (violation.key,)):
            raise ConflictError(f"A live ticket holds {violation.key!r} already.")
    transaction.append(draft)
    assert draft.ticket is not None
    return load_ticket(transaction, draft.ticket)


def find_ticket(rows: Rows, ticket: int) -> Ticket | None:
    """One ticket as it stands, None when there is none of that number."""
    tickets = read_tickets(rows, f"{TICKETS} WHERE tickets.id = ?", (ticket,))
    return tickets[0] if tickets else None


def load_ticket(transaction: Transaction, ticket: int) -> Ticket:
    """One ticket that is known to be there, as it stands inside a transaction."""
    known = find_ticket(transaction.rows, ticket)
    assert known is not None
    return known


def read_tickets(query: Rows, sql: str, values: Sequence[object]) -> list[Ticket]:
    """What a statement that begins with TICKETS finds, with the violations of each."""
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
            violations=tuple(violations[row[0]]),
        )
        for row in rows
    ]


# Violations by their text: the same thousands are asked for at every check, and never change.
_violations: dict[str, Violation] = {}
VIOLATIONS_KEPT = 20_000
_DECODER = msgspec.json.Decoder(list[Violation])


def _read_violations(bodies: Sequence[str]) -> Mapping[str, Violation]:
    """What these texts say; others may read at the same time."""
    known = {body: one for body in bodies if (one := _violations.get(body)) is not None}
    new = [body for body in dict.fromkeys(bodies) if body not in known]
    if new:
        text = f"[{','.join(new)}]"
        try:
            violations = _DECODER.decode(text)
        except (msgspec.DecodeError, UnicodeEncodeError):
            violations = from_json(list[Violation], json.loads(text))  # it knows lone surrogates
        if len(_violations) > VIOLATIONS_KEPT:
            _violations.clear()
        added = dict(zip(new, violations, strict=True))
        _violations.update(added)
        known |= added
    return known


def open_ticket(connection: Connection, entry: Entry) -> None:
    """A ticket with its first violations."""
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
    """More violations belong to it."""
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
    changed = {**columns, "changed_at": entry.at.isoformat()}
    update_row(connection, "tickets", entry.ticket, changed)


def _stand(connection: Connection, entry: Entry, state: TicketState) -> None:
    """Nobody works on it, and it stands as the entry says."""
    reason = plain(entry.payload["reason"])
    _change(connection, entry, {"state": state.value, "worker": "", "reason": reason})


def claim_ticket(connection: Connection, entry: Entry) -> None:
    """A worker has it."""
    payload = entry.payload
    columns = {"state": TicketState.CLAIMED.value, "worker": payload["worker"], "run": entry.run}
    counted = {"epoch": payload["epoch"], "attempts": payload["attempts"]}
    _change(connection, entry, columns | counted)


def release_ticket(connection: Connection, entry: Entry) -> None:
    """Its worker gave it back."""
    _stand(connection, entry, TicketState.OPEN)
    columns = {name: entry.payload[name] for name in ("not_before", "attempts")}
    _change(connection, entry, columns)


def end_ticket(connection: Connection, entry: Entry) -> None:
    """It is resolved, or escalated to a person."""
    if entry.kind is Kind.TICKET_RESOLVED:
        _stand(connection, entry, TicketState.RESOLVED)
        resume_ticket(connection, entry)
        connection.execute("UPDATE violations SET live = 0 WHERE ticket = ?", (entry.ticket,))
        return
    _stand(connection, entry, TicketState.ESCALATED)
    if entry.actor.type == "user":
        pause_ticket(connection, entry)  # whoever takes it over has the last word


def mark_flapping(connection: Connection, entry: Entry) -> None:
    """It breaks again and again."""
    _change(connection, entry, {"flapping": 1})


def pause_ticket(connection: Connection, entry: Entry) -> None:
    """Agents keep off it until then."""
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
    """Agents may take it up again."""
    _change(connection, entry, {"pause": "", "paused_until": 0})


def assign_ticket(connection: Connection, entry: Entry) -> None:
    """It is somebody's."""
    _change(connection, entry, {"assignee": plain(entry.payload["assignee"])})


def close_ticket(connection: Connection, entry: Entry) -> None:
    """A person says that it is over; what is broken still opens a new one."""
    _stand(connection, entry, TicketState.CLOSED)
    resume_ticket(connection, entry)
    connection.execute("UPDATE violations SET live = 0 WHERE ticket = ?", (entry.ticket,))


def hand_off_ticket(connection: Connection, entry: Entry) -> None:
    """Others look after it from here on; it stays live, so that it opens no second one."""
    assign_ticket(connection, entry)
    _stand(connection, entry, TicketState.ESCALATED)
    pause_ticket(connection, entry)  # it is theirs until a person says otherwise


def watch_ticket(connection: Connection, entry: Entry) -> None:
    """It holds again, and is checked for longer before that is believed."""
    _stand(connection, entry, TicketState.WATCHED)


def reopen_ticket(connection: Connection, entry: Entry) -> None:
    """It is to be worked on again; only people let go of what people hold."""
    _stand(connection, entry, TicketState.OPEN)
    if entry.actor.type == "user":
        resume_ticket(connection, entry)
    _change(connection, entry, {"attempts": entry.payload["attempts"], "not_before": 0})
    connection.execute("UPDATE violations SET live = 1 WHERE ticket = ?", (entry.ticket,))
