"""Moves of people on tickets, each in one transaction with its consequences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from operator_protocols.domain.entry import Draft, Kind
from operator_protocols.domain.ticket import Move, MoveKind, Ticket, TicketState, refusal_of
from operator_protocols.errors import ConflictError, NotFoundError
from operator_sre.chain import entry_from
from operator_sre.store.approvals import withdraw_requests
from operator_sre.store.leases import drop_lease, is_unfinished
from operator_sre.store.repository import Repository, in_transaction
from operator_sre.store.tickets import find_ticket, load_ticket

if TYPE_CHECKING:
    from operator_sre.store.transaction import Transaction

__all__ = ["StoredTicketMoves", "make_move"]

_KINDS = {
    MoveKind.HOLD: Kind.TICKET_HELD,
    MoveKind.UNHOLD: Kind.TICKET_UNHELD,
    MoveKind.SNOOZE: Kind.TICKET_SNOOZED,
    MoveKind.ASSIGN: Kind.TICKET_ASSIGNED,
    MoveKind.COMMENT: Kind.TICKET_COMMENTED,
    MoveKind.ESCALATE: Kind.TICKET_ESCALATED,
    MoveKind.HAND_OFF: Kind.TICKET_HANDED_OFF,
    MoveKind.CLOSE: Kind.TICKET_CLOSED,
    MoveKind.REOPEN: Kind.TICKET_REOPENED,
}


class StoredTicketMoves(Repository):
    """Moves of people on tickets."""

    @in_transaction
    def make(self, transaction: Transaction, ticket: int, move: Move) -> Ticket:
        """Make a move; a repeated one changes nothing. NotFoundError, ConflictError."""
        return make_move(transaction, ticket, move)


def make_move(transaction: Transaction, number: int, move: Move) -> Ticket:
    """Make a move inside a transaction."""
    ticket = find_ticket(transaction.rows, number)
    if ticket is None:
        raise NotFoundError(
            f"There is no ticket {number}.", next_step="See them with: operator tickets list"
        )
    if why := refusal_of(ticket, move.kind):
        raise ConflictError(why, next_step=f"Open it again with: operator tickets reopen {number}")
    if _is_made(transaction, ticket, move):
        return ticket
    payload: dict[str, Any] = {"reason": move.reason}
    match move.kind:
        case MoveKind.HOLD | MoveKind.SNOOZE:
            payload["until"] = move.until.isoformat() if move.until else None
        case MoveKind.ASSIGN | MoveKind.HAND_OFF:
            payload["assignee"] = move.assignee
        case MoveKind.COMMENT:
            payload = {"text": move.reason}
        case MoveKind.REOPEN:
            rows = transaction.rows(
                "SELECT others.ticket FROM violations JOIN violations AS others"
                " ON others.key = violations.key AND others.live = 1 AND others.ticket <> ?"
                " WHERE violations.ticket = ? LIMIT 1",
                (ticket.id, ticket.id),
            )
            for (other,) in rows:
                raise ConflictError(
                    f"Ticket {other} covers the same violation,"
                    f" so {ticket.id} stays {ticket.state}.",
                    next_step=f"See: operator tickets show {other}",
                )
            payload["attempts"] = 0
        case _:
            pass
    if move.takes:
        _take(transaction, ticket, move)
    kind = _KINDS[move.kind]
    transaction.append(Draft(kind, payload, ticket=number, run=ticket.run, actor=move.by))
    return load_ticket(transaction, number)


def _is_made(transaction: Transaction, ticket: Ticket, move: Move) -> bool:
    """Whether the move was made already, so that repeating it changes nothing."""
    pause = ticket.pause
    match move.kind:
        case MoveKind.HOLD | MoveKind.SNOOZE:
            wanted = (move.by.id, move.reason, move.until, move.kind is MoveKind.SNOOZE)
            known = pause and (pause.by, pause.reason, pause.until, pause.snoozed)
            return known == wanted and ticket.is_paused(transaction.now())
        case MoveKind.UNHOLD:
            return pause is None
        case MoveKind.ASSIGN:
            return ticket.assignee == move.assignee
        case MoveKind.COMMENT:
            last = transaction.rows(
                "SELECT seq, body, previous, hash FROM entries WHERE ticket = ? AND kind = ?"
                " ORDER BY seq DESC LIMIT 1",
                (ticket.id, Kind.TICKET_COMMENTED.value),
            )
            comments = [entry_from(*row) for row in last if row[1] is not None]
            texts = [(entry.actor.id, entry.payload["text"]) for entry in comments]
            return texts == [(move.by.id, move.reason)]
        case MoveKind.ESCALATE:
            is_held = move.by.type != "user" or ticket.is_paused(transaction.now())
            return ticket.state is TicketState.ESCALATED and is_held
        case MoveKind.HAND_OFF:
            stored = (ticket.state, ticket.assignee, ticket.reason)
            return stored == (TicketState.ESCALATED, move.assignee, move.reason)
        case MoveKind.CLOSE:
            return ticket.state is TicketState.CLOSED
        case MoveKind.REOPEN:
            return ticket.state in {TicketState.OPEN, TicketState.CLAIMED}


def _take(transaction: Transaction, ticket: Ticket, move: Move) -> None:
    """Take a ticket from its agent: its lease, run and requests end."""
    why = f"{move.by.id} did this: {move.kind}. {move.reason}".strip()
    number, run = ticket.id, ticket.run
    drop_lease(transaction, ticket)
    if run:
        withdraw_requests(transaction, run, why)
    if is_unfinished(transaction, ticket):
        end = {"state": "stopped", "summary": why, "category": None}
        transaction.append(Draft(Kind.RUN_FINISHED, end, ticket=number, run=run, actor=move.by))
    if ticket.state is TicketState.CLAIMED and move.kind in {MoveKind.HOLD, MoveKind.SNOOZE}:
        released = {
            "reason": why,
            "not_before": transaction.now().timestamp(),
            "attempts": max(0, ticket.attempts - 1),  # the agent did not fail
        }
        transaction.append(
            Draft(Kind.TICKET_RELEASED, released, ticket=number, run=run, actor=move.by)
        )
