"""Tickets and their leases."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Any

import msgspec

from operator_protocols.domain.category import ErrorCategory
from operator_protocols.domain.entry import Draft, Entry, Kind
from operator_protocols.domain.health import Severity
from operator_protocols.domain.observation import Violation
from operator_protocols.domain.permit import ApprovalState
from operator_protocols.domain.ticket import Pause, Ticket, TicketState
from operator_protocols.errors import ConflictError
from operator_sre.codec import from_json, to_json
from operator_sre.store.approvals import load_approval, withdraw_requests
from operator_sre.store.database import plain
from operator_sre.store.reader import Reader
from operator_sre.store.transaction import Transaction
from operator_sre.store.writer import Writer

__all__ = [
    "StoredLeases",
    "StoredTickets",
    "claimable",
    "drop_lease",
    "find_ticket",
    "is_unfinished",
]

_COLUMNS = (
    "SELECT tickets.id, subject, target, severity, state, summary, opened_at, changed_at,"
    " attempts, tickets.epoch, worker, run, reason, flapping, assignee, pause FROM tickets"
)
_RANK = "(SELECT severity_rank FROM tickets AS last WHERE last.id = ?)"
_BEHIND = f"(severity_rank < {_RANK} OR (severity_rank = {_RANK} AND tickets.id > ?))"
Query = Callable[[str, Sequence[object]], list[Any]]
IN_MAX = 500
# What is said of every violation of a ticket.
_PROVEN = {Kind.TICKET_RESOLVED, Kind.TICKET_WATCHED}


class StoredTickets:
    """Tickets as the ledger tells them."""

    def __init__(self, reader: Reader, writer: Writer) -> None:
        self._reader = reader
        self._writer = writer

    def get(self, ticket: int) -> Ticket | None:
        """One ticket."""
        found = _tickets(self._reader.rows, f"{_COLUMNS} WHERE tickets.id = ?", (ticket,))
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
        return _tickets(self._reader.rows, f"{_COLUMNS} WHERE {where} {order}", values)

    async def open(self, violations: Sequence[Violation]) -> Ticket:
        """File violations as one ticket; the first is its root. ConflictError if one is filed."""
        return await self._writer.write(lambda transaction: _open(transaction, violations))

    async def grow(self, ticket: Ticket, violations: Sequence[Violation]) -> Ticket:
        """Add violations that belong to a live ticket. ConflictError if one is filed already."""
        return await self._writer.write(lambda transaction: _grow(transaction, ticket, violations))


class StoredLeases:
    """Who works on a ticket, for how long."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    async def claim(
        self,
        worker: str,
        *,
        run: str,
        lease_s: float,
        attempts_max: int,
        ticket: int = 0,
        subjects: Sequence[str] | None = None,
    ) -> Ticket | None:
        """Take that ticket, or the most urgent that nobody works on or whose worker is gone."""

        def change(transaction: Transaction) -> Ticket | None:
            now, query = transaction.now().timestamp(), _query(transaction)
            while found := claimable(query, now, limit=1, ticket=ticket, subjects=subjects):
                if found[0].attempts < attempts_max:
                    return _claim(transaction, found[0], worker, run, lease_s)
                _give_up(transaction, found[0])
            return None

        return await self._writer.write(change)

    async def renew(self, ticket: Ticket, *, lease_s: float) -> bool:
        """Keep it; False when somebody else has it by now."""

        def change(transaction: Transaction) -> bool:
            done = transaction.connection.execute(
                "UPDATE leases SET until = ? WHERE ticket = ? AND epoch = ?",
                (transaction.now().timestamp() + lease_s, ticket.id, ticket.epoch),
            )
            return done.rowcount == 1

        return await self._writer.write(change)

    async def release(
        self,
        ticket: Ticket,
        *,
        reason: str,
        wait_s: float,
        counts: bool = True,
        approval: str = "",
        category: str = "",
    ) -> None:
        """Give it back; another may claim it after `wait_s`, or when that request is answered.

        Parked work `counts` as no attempt. `category` says why it failed, where it did.
        """

        def change(transaction: Transaction) -> None:
            _must_stand(transaction, ticket)
            drop_lease(transaction, ticket)
            answered = approval and not _is_pending(transaction, approval)
            not_before = transaction.now().timestamp() + (0.0 if answered else wait_s)
            attempts = ticket.attempts - (0 if counts else 1)
            payload = {"reason": reason, "not_before": not_before, "attempts": attempts}
            if category:
                payload["category"] = category
            transaction.append(
                Draft(Kind.TICKET_RELEASED, payload, ticket=ticket.id, run=ticket.run)
            )

        await self._writer.write(change)

    async def end(self, ticket: Ticket, *drafts: Draft) -> Entry:
        """Record how it ended, if it still stands as the caller saw it; ConflictError if not.

        To say that it holds again, the caller has to have seen every violation of it.
        """

        def change(transaction: Transaction) -> Entry:
            _must_stand(transaction, ticket)
            if any(draft.kind in _PROVEN for draft in drafts):
                _must_be_whole(transaction, ticket)
            drop_lease(transaction, ticket)
            withdraw_requests(transaction, ticket.run, "the run is over")
            return [transaction.append(draft) for draft in drafts][-1]

        return await self._writer.write(change)


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


def _tickets(query: Query, sql: str, values: Sequence[object]) -> list[Ticket]:
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


def _query(transaction: Transaction) -> Query:
    return lambda sql, values: transaction.connection.execute(sql, values).fetchall()


def find_ticket(transaction: Transaction, ticket: int) -> Ticket | None:
    """One ticket as it stands inside a transaction."""
    found = _tickets(_query(transaction), f"{_COLUMNS} WHERE tickets.id = ?", (ticket,))
    return found[0] if found else None


def _load(transaction: Transaction, ticket: int) -> Ticket:
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
    now = _load(transaction, ticket.id)
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
    return _load(transaction, draft.ticket)


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


def claimable(
    query: Query,
    now: float,
    *,
    limit: int,
    ticket: int = 0,
    subjects: Sequence[str] | None = None,
) -> list[Ticket]:
    """Tickets that nobody works on or whose worker is gone, most urgent first; or that one.

    Of these subjects only, where any are given.
    """
    words, values = _only(ticket, subjects)
    order = f"{words} ORDER BY severity_rank DESC, tickets.id LIMIT ?"
    # Each in the order of the index, so that one of a thousand is found without the others.
    free = _tickets(
        query,
        f"{_COLUMNS} WHERE state = 'open' AND not_before <= ? AND paused_until <= ?{order}",
        (now, now, *values, limit),
    )
    left = _tickets(
        query,
        f"{_COLUMNS} LEFT JOIN leases ON leases.ticket = tickets.id"
        f" WHERE state = 'claimed' AND coalesce(leases.until, 0) <= ?{order}",
        (now, *values, limit),
    )
    return sorted([*free, *left], key=lambda one: (-one.severity.rank, one.id))[:limit]


def _only(ticket: int, subjects: Sequence[str] | None) -> tuple[str, tuple[object, ...]]:
    words, values = (" AND tickets.id = ?", (ticket,)) if ticket else ("", ())
    if subjects is None:
        return words, values
    marks = ", ".join("?" * len(subjects)) or "NULL"
    return f"{words} AND subject IN ({marks})", (*values, *subjects)


def _claim(
    transaction: Transaction, ticket: Ticket, worker: str, run: str, lease_s: float
) -> Ticket:
    unfinished = is_unfinished(transaction, ticket)
    payload = {
        "worker": worker,
        "epoch": ticket.epoch + 1,
        "attempts": ticket.attempts + 1,
        "resumed": unfinished,
    }
    run = ticket.run if unfinished else run
    transaction.append(Draft(Kind.TICKET_CLAIMED, payload, ticket=ticket.id, run=run))
    transaction.connection.execute(
        "INSERT INTO leases (ticket, epoch, until) VALUES (?, ?, ?)"
        " ON CONFLICT (ticket) DO UPDATE SET epoch = excluded.epoch, until = excluded.until",
        (ticket.id, ticket.epoch + 1, transaction.now().timestamp() + lease_s),
    )
    return _load(transaction, ticket.id)


def _is_pending(transaction: Transaction, approval: str) -> bool:
    known = load_approval(transaction, approval)
    return known is not None and known.state is ApprovalState.PENDING


def is_unfinished(transaction: Transaction, ticket: Ticket) -> bool:
    """True when the ticket's last run did not come to an end."""
    sql = "SELECT 1 FROM runs WHERE id = ? AND state = 'running'"
    return transaction.connection.execute(sql, (ticket.run,)).fetchone() is not None


def _give_up(transaction: Transaction, ticket: Ticket) -> None:
    drop_lease(transaction, ticket)
    withdraw_requests(transaction, ticket.run, "the ticket was given up")
    reason = f"{ticket.attempts} attempts ended without a proof; a person has to look."
    if is_unfinished(transaction, ticket):
        category, why = _last_failure(transaction, ticket)
        end = {"state": "failed", "summary": f"{reason} {why}".strip(), "category": category}
        transaction.append(Draft(Kind.RUN_FINISHED, end, ticket=ticket.id, run=ticket.run))
    transaction.append(
        Draft(Kind.TICKET_ESCALATED, {"reason": reason}, ticket=ticket.id, run=ticket.run)
    )


def _last_failure(transaction: Transaction, ticket: Ticket) -> tuple[str, str]:
    """How the last attempt ended: as its worker said, or with its worker."""
    row = transaction.connection.execute(
        "SELECT body FROM entries WHERE run = ? AND run <> '' AND kind IN (?, ?)"
        " ORDER BY seq DESC LIMIT 1",
        (ticket.run, Kind.TICKET_CLAIMED.value, Kind.TICKET_RELEASED.value),
    ).fetchone()
    body = json.loads(bytes(row[0])) if row is not None and row[0] is not None else {}
    told = body.get("payload", {})
    lost = ErrorCategory.HARNESS_HEALTH_FAILED.value
    return str(told.get("category") or lost), str(told.get("reason", ""))


def _must_stand(transaction: Transaction, ticket: Ticket) -> None:
    row = transaction.connection.execute(
        "SELECT state, epoch FROM tickets WHERE id = ?", (ticket.id,)
    ).fetchone()
    if row is None or (row[0], row[1]) != (ticket.state.value, ticket.epoch):
        raise ConflictError(f"Ticket {ticket.id} has changed hands; nothing was written.")


def _must_be_whole(transaction: Transaction, ticket: Ticket) -> None:
    """A proof covers what the ticket held then; what was added since was never proven."""
    seen = {one.key for one in ticket.violations}
    if {one.key for one in _load(transaction, ticket.id).violations} != seen:
        raise ConflictError(
            f"Ticket {ticket.id} has grown since it was looked at; nothing was written.",
            next_step="Look at it again: what was added has to hold as well.",
        )


def drop_lease(transaction: Transaction, ticket: Ticket) -> None:
    """Nobody works on it by its lease any more."""
    transaction.connection.execute("DELETE FROM leases WHERE ticket = ?", (ticket.id,))
