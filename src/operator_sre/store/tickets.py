"""Tickets, and what is filed in them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Any

import msgspec

from operator_protocols.domain.entry import Draft, Kind
from operator_protocols.domain.health import Severity
from operator_protocols.domain.observation import Violation
from operator_protocols.domain.ticket import Pause, Ticket, TicketState
from operator_protocols.errors import ConflictError
from operator_sre.codec import from_json, to_json
from operator_sre.store.database import plain
from operator_sre.store.reader import Reader
from operator_sre.store.transaction import Transaction
from operator_sre.store.writer import Writer

__all__ = [
    "TICKETS",
    "Query",
    "StoredTickets",
    "asking",
    "find_ticket",
    "load_ticket",
    "read_tickets",
]

TICKETS = (
    "SELECT tickets.id, subject, target, severity, state, summary, opened_at, changed_at,"
    " attempts, tickets.epoch, worker, run, reason, flapping, assignee, pause FROM tickets"
)
_RANK = "(SELECT severity_rank FROM tickets AS last WHERE last.id = ?)"
_BEHIND = f"(severity_rank < {_RANK} OR (severity_rank = {_RANK} AND tickets.id > ?))"
Query = Callable[[str, Sequence[object]], list[Any]]
IN_MAX = 500


class StoredTickets:
    """Tickets as the ledger tells them."""

    def __init__(self, reader: Reader, writer: Writer) -> None:
        self._reader = reader
        self._writer = writer

    def get(self, ticket: int) -> Ticket | None:
        """One ticket."""
        found = read_tickets(self._reader.rows, f"{TICKETS} WHERE tickets.id = ?", (ticket,))
        return found[0] if found else None

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
        marks = ", ".join("?" * len(wanted))
        same = {"subject": subject, "severity": severity, "assignee": assignee}
        clauses = [f"state IN ({marks})", *(f"{name} = ?" for name, told in same.items() if told)]
        values: list[Any] = [*wanted, *(plain(told) for told in same.values() if told)]
        if text:
            clauses.append("(lower(summary) LIKE ? ESCAPE '!' OR lower(reason) LIKE ? ESCAPE '!')")
            values += [_anywhere(text)] * 2
        if after:
            clauses.append(_BEHIND)
            values += [after] * 3
        where = " AND ".join(clauses)
        order = "ORDER BY severity_rank DESC, tickets.id"
        if limit is not None:
            order += " LIMIT ?"
            values.append(limit)
        return read_tickets(self._reader.rows, f"{TICKETS} WHERE {where} {order}", values)

    async def open(self, violations: Sequence[Violation]) -> Ticket:
        """File violations as one ticket; the first is its root. ConflictError if one is filed."""
        return await self._writer.write(lambda transaction: _open(transaction, violations))

    async def grow(self, ticket: Ticket, violations: Sequence[Violation]) -> Ticket:
        """Add violations that belong to a live ticket. ConflictError if one is filed already."""
        return await self._writer.write(lambda transaction: _grow(transaction, ticket, violations))


def batched(items: Iterable[int], size: int) -> Iterator[tuple[int, ...]]:
    """The items in parts of at most this size."""
    rest = iter(items)
    while part := tuple(islice(rest, size)):
        yield part


def _anywhere(text: str) -> str:
    """A pattern for a text, whatever stands before and behind it."""
    plainly = plain(text.lower())
    for special in "!%_":
        plainly = plainly.replace(special, f"!{special}")
    return f"%{plainly}%"


def read_tickets(query: Query, sql: str, values: Sequence[object]) -> list[Ticket]:
    """What a statement that begins with TICKETS finds, with the violations of each."""
    rows = query(sql, values)
    violations: dict[int, list[Violation]] = {row[0]: [] for row in rows}
    for part in batched(violations, IN_MAX):
        marks = ", ".join("?" * len(part))
        sql = f"SELECT ticket, body FROM violations WHERE ticket IN ({marks})"  # noqa: S608
        found = query(f"{sql} ORDER BY place", part)
        known = _read([body for _, body in found])
        for ticket, body in found:
            violations[ticket].append(known[body])
    return [_ticket(row, violations[row[0]]) for row in rows]


# Violations by their text: the same thousands are asked for at every look, and never change.
_violations: dict[str, Violation] = {}
VIOLATIONS_KEPT = 20_000
_DECODER = msgspec.json.Decoder(list[Violation])


def _read(bodies: Sequence[str]) -> Mapping[str, Violation]:
    """What these texts say; others may read at the same time."""
    known = {body: found for body in bodies if (found := _violations.get(body)) is not None}
    new = [body for body in dict.fromkeys(bodies) if body not in known]
    if new:
        read = _decoded(f"[{','.join(new)}]")
        if len(_violations) > VIOLATIONS_KEPT:
            _violations.clear()
        added = dict(zip(new, read, strict=True))
        _violations.update(added)
        known |= added
    return known


def _decoded(text: str) -> list[Violation]:
    try:
        return _DECODER.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return from_json(list[Violation], json.loads(text))  # it knows lone surrogates


def _ticket(row: Sequence[Any], violations: Sequence[Violation]) -> Ticket:
    return Ticket(
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
        violations=tuple(violations),
    )


def asking(transaction: Transaction) -> Query:
    """How a transaction is asked."""
    return lambda sql, values: transaction.connection.execute(sql, values).fetchall()


def find_ticket(transaction: Transaction, ticket: int) -> Ticket | None:
    """One ticket as it stands inside a transaction."""
    found = read_tickets(asking(transaction), f"{TICKETS} WHERE tickets.id = ?", (ticket,))
    return found[0] if found else None


def load_ticket(transaction: Transaction, ticket: int) -> Ticket:
    """One ticket that is known to be there."""
    found = find_ticket(transaction, ticket)
    assert found is not None
    return found


def _open(transaction: Transaction, violations: Sequence[Violation]) -> Ticket:
    root = violations[0]
    payload = {
        "subject": root.subject,
        "target": root.target,
        "severity": max(violation.severity for violation in violations),
        "summary": _summary(violations),
        "violations": to_json(violations),
    }
    return _file(transaction, Draft(Kind.TICKET_OPENED, payload, ticket=_number(transaction)))


def _number(transaction: Transaction) -> int:
    """The next number. One that retention took away is in the ledger still, and not used again."""
    queries = (
        "SELECT id FROM tickets ORDER BY id DESC LIMIT 1",
        "SELECT ticket FROM entries WHERE ticket IS NOT NULL ORDER BY ticket DESC LIMIT 1",
    )
    rows = [transaction.connection.execute(sql).fetchone() for sql in queries]
    return max(int(row[0]) if row else 0 for row in rows) + 1


def _grow(transaction: Transaction, ticket: Ticket, violations: Sequence[Violation]) -> Ticket:
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
    return _file(transaction, Draft(Kind.TICKET_GREW, payload, ticket=ticket.id, run=ticket.run))


def _file(transaction: Transaction, draft: Draft) -> Ticket:
    filed = _filed(transaction, draft)
    if filed:
        raise ConflictError(f"A live ticket holds {filed!r} already.")
    transaction.append(draft)
    assert draft.ticket is not None
    return load_ticket(transaction, draft.ticket)


def _filed(transaction: Transaction, draft: Draft) -> str:
    """A violation of the draft that a live ticket holds; the unique index is the last guard."""
    for body in draft.payload["violations"]:
        key = from_json(Violation, body).key
        sql = "SELECT 1 FROM violations WHERE key = ? AND live = 1"
        if transaction.connection.execute(sql, (key,)).fetchone():
            return key
    return ""


def _summary(violations: Sequence[Violation]) -> str:
    root, others = violations[0], len(violations) - 1
    more = f" (and {others} more)" if others else ""
    return f"{root.target}: {root.invariant}: {root.detail}{more}"
