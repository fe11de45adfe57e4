"""Who works on a ticket, and for how long."""

from __future__ import annotations

import json
from collections.abc import Sequence

from operator_protocols.domain.category import ErrorCategory
from operator_protocols.domain.entry import Draft, Entry, Kind
from operator_protocols.domain.permit import ApprovalState
from operator_protocols.domain.ticket import Ticket
from operator_protocols.errors import ConflictError
from operator_sre.store.approvals import load_approval, withdraw_requests
from operator_sre.store.tickets import TICKETS, Query, asking, load_ticket, read_tickets
from operator_sre.store.transaction import Transaction
from operator_sre.store.writer import Writer

__all__ = ["StoredLeases", "claimable", "drop_lease", "is_unfinished"]

# What is said of every violation of a ticket.
_PROVEN = {Kind.TICKET_RESOLVED, Kind.TICKET_WATCHED}


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
            now, query = transaction.now().timestamp(), asking(transaction)
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
    free = read_tickets(
        query,
        f"{TICKETS} WHERE state = 'open' AND not_before <= ? AND paused_until <= ?{order}",
        (now, now, *values, limit),
    )
    left = read_tickets(
        query,
        f"{TICKETS} LEFT JOIN leases ON leases.ticket = tickets.id"
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
    return load_ticket(transaction, ticket.id)


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
    if {one.key for one in load_ticket(transaction, ticket.id).violations} != seen:
        raise ConflictError(
            f"Ticket {ticket.id} has grown since it was looked at; nothing was written.",
            next_step="Look at it again: what was added has to hold as well.",
        )


def drop_lease(transaction: Transaction, ticket: Ticket) -> None:
    """Nobody works on it by its lease any more."""
    transaction.connection.execute("DELETE FROM leases WHERE ticket = ?", (ticket.id,))
