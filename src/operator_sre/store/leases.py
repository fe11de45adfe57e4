"""Leases: which worker holds a ticket, and until when."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from operator_protocols.domain.category import ErrorCategory
from operator_protocols.domain.entry import Draft, Entry, Kind
from operator_protocols.domain.permit import ApprovalState
from operator_protocols.domain.ticket import Ticket
from operator_protocols.errors import ConflictError
from operator_sre.store.approvals import load_approval, withdraw_requests
from operator_sre.store.database import Rows
from operator_sre.store.repository import Repository, in_transaction, marks, upsert_row
from operator_sre.store.tickets import TICKETS, load_ticket, read_tickets

if TYPE_CHECKING:
    from operator_protocols.ports import Clock
    from operator_sre.store.database import Reader
    from operator_sre.store.transaction import Transaction

__all__ = ["StoredBacklog", "StoredLeases", "drop_lease", "is_unfinished"]

# Entries that state a proof of every violation of a ticket.
_PROVEN = {Kind.TICKET_RESOLVED, Kind.TICKET_WATCHED}


class StoredLeases(Repository):
    """Leases of workers on tickets."""

    @in_transaction
    def claim(
        self,
        transaction: Transaction,
        worker: str,
        *,
        run: str,
        lease_s: float,
        attempts_max: int,
        ticket: int = 0,
        subjects: Sequence[str] | None = None,
    ) -> Ticket | None:
        """Claim this ticket, or the most urgent that is free or whose worker is gone."""
        rows, now = transaction.rows, transaction.now().timestamp()
        while claimable := _claimable(rows, now, limit=1, ticket=ticket, subjects=subjects):
            known = claimable[0]
            if known.attempts >= attempts_max:
                _give_up(transaction, known)
                continue
            resumed, epoch = is_unfinished(transaction, known), known.epoch + 1
            payload = {
                "worker": worker,
                "epoch": epoch,
                "attempts": known.attempts + 1,
                "resumed": resumed,
            }
            run = known.run if resumed else run
            transaction.append(Draft(Kind.TICKET_CLAIMED, payload, ticket=known.id, run=run))
            lease = {"ticket": known.id, "epoch": epoch, "until": now + lease_s}
            upsert_row(transaction.connection, "leases", "ticket", lease)
            return load_ticket(transaction, known.id)
        return None

    @in_transaction
    def renew(self, transaction: Transaction, ticket: Ticket, *, lease_s: float) -> bool:
        """Extend the lease; False when another worker has claimed the ticket."""
        done = transaction.connection.execute(
            "UPDATE leases SET until = ? WHERE ticket = ? AND epoch = ?",
            (transaction.now().timestamp() + lease_s, ticket.id, ticket.epoch),
        )
        return done.rowcount == 1

    @in_transaction
    def release(
        self,
        transaction: Transaction,
        ticket: Ticket,
        *,
        reason: str,
        wait_s: float,
        counts: bool = True,
        approval: str = "",
        category: str = "",
    ) -> None:
        """Release a ticket; others may claim it after `wait_s`, or once `approval` is decided.

        Work that was only parked does not count as an attempt: `counts` is then False. `category`
        is that of the failure, if there was one.
        """
        _must_stand(transaction, ticket)
        drop_lease(transaction, ticket)
        if approval:
            known = load_approval(transaction, approval)
            if known is None or known.state is not ApprovalState.PENDING:
                wait_s = 0.0  # it was decided
        payload = {
            "reason": reason,
            "not_before": transaction.now().timestamp() + wait_s,
            "attempts": ticket.attempts - (0 if counts else 1),
        }
        if category:
            payload["category"] = category
        transaction.append(Draft(Kind.TICKET_RELEASED, payload, ticket=ticket.id, run=ticket.run))

    @in_transaction
    def end(self, transaction: Transaction, ticket: Ticket, *drafts: Draft) -> Entry:
        """Record how work on a ticket ended; ConflictError when the claim was lost.

        A proof is refused when the ticket has violations that the caller has not seen.
        """
        _must_stand(transaction, ticket)
        if any(draft.kind in _PROVEN for draft in drafts):
            # A proof does not cover violations that were added later.
            now = load_ticket(transaction, ticket.id)
            if {violation.key for violation in now.violations} != {
                violation.key for violation in ticket.violations
            }:
                raise ConflictError(
                    f"Ticket {ticket.id} has new violations; nothing was written.",
                    next_step="Check the subject again: the new violations must hold too.",
                )
        drop_lease(transaction, ticket)
        withdraw_requests(transaction, ticket.run, "the run has ended")
        return [transaction.append(draft) for draft in drafts][-1]


class StoredBacklog:
    """The tickets that an engine can hand out."""

    def __init__(self, reader: Reader, clock: Clock) -> None:
        self._reader = reader
        self._clock = clock

    def waiting(self, *, limit: int) -> Sequence[Ticket]:
        """Claimable tickets, the most urgent and oldest first."""
        return _claimable(self._reader.rows, self._clock.now().timestamp(), limit=limit)

    def lease_end(self, ticket: int) -> datetime | None:
        """When the lease on a ticket ends or ended; None if no worker has one."""
        rows = self._reader.rows("SELECT until FROM leases WHERE ticket = ?", (ticket,))
        return datetime.fromtimestamp(float(rows[0][0]), UTC) if rows else None


def _claimable(
    rows: Rows, now: float, *, limit: int, ticket: int = 0, subjects: Sequence[str] | None = None
) -> list[Ticket]:
    """Tickets that are free or whose worker is gone, most urgent first; or the one given.

    Only those of `subjects`, unless it is None.
    """
    clauses = " AND tickets.id = ?" if ticket else ""
    values: list[object] = [ticket] if ticket else []
    if subjects is not None:
        clauses += f" AND subject IN ({marks(subjects) or 'NULL'})"
        values += subjects
    order = f"{clauses} ORDER BY severity_rank DESC, tickets.id LIMIT ?"
    # Each query follows the order of the index, so that it reads only the rows of its limit.
    free = read_tickets(
        rows,
        f"{TICKETS} WHERE state = 'open' AND not_before <= ? AND paused_until <= ?{order}",
        (now, now, *values, limit),
    )
    left = read_tickets(
        rows,
        f"{TICKETS} LEFT JOIN leases ON leases.ticket = tickets.id"
        f" WHERE state = 'claimed' AND coalesce(leases.until, 0) <= ?{order}",
        (now, *values, limit),
    )
    return sorted([*free, *left], key=lambda found: (-found.severity.rank, found.id))[:limit]


def is_unfinished(transaction: Transaction, ticket: Ticket) -> bool:
    """True when the ticket's last run has not finished."""
    return bool(
        transaction.rows("SELECT 1 FROM runs WHERE id = ? AND state = 'running'", (ticket.run,))
    )


def _give_up(transaction: Transaction, ticket: Ticket) -> None:
    """Escalate a ticket without attempts left, and finish its run as failed."""
    drop_lease(transaction, ticket)
    withdraw_requests(transaction, ticket.run, "the ticket was escalated")
    reason = f"{ticket.attempts} attempts ended without a proof. An engineer must take over."
    if is_unfinished(transaction, ticket):
        rows = transaction.rows(
            "SELECT body FROM entries WHERE run = ? AND run <> '' AND kind IN (?, ?)"
            " ORDER BY seq DESC LIMIT 1",
            (ticket.run, Kind.TICKET_CLAIMED.value, Kind.TICKET_RELEASED.value),
        )
        last = json.loads(bytes(rows[0][0])) if rows and rows[0][0] is not None else {}
        payload = last.get("payload", {})
        end = {
            "state": "failed",
            "summary": f"{reason} {payload.get('reason', '')}".strip(),
            "category": str(payload.get("category") or ErrorCategory.HARNESS_HEALTH_FAILED.value),
        }
        transaction.append(Draft(Kind.RUN_FINISHED, end, ticket=ticket.id, run=ticket.run))
    transaction.append(
        Draft(Kind.TICKET_ESCALATED, {"reason": reason}, ticket=ticket.id, run=ticket.run)
    )


def _must_stand(transaction: Transaction, ticket: Ticket) -> None:
    rows = transaction.rows("SELECT state, epoch FROM tickets WHERE id = ?", (ticket.id,))
    if [tuple(row) for row in rows] != [(ticket.state.value, ticket.epoch)]:
        raise ConflictError(
            f"Ticket {ticket.id} was claimed by another worker; nothing was written."
        )


def drop_lease(transaction: Transaction, ticket: Ticket) -> None:
    """Delete the lease on a ticket."""
    transaction.connection.execute("DELETE FROM leases WHERE ticket = ?", (ticket.id,))
