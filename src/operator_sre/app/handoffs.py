"""Giving a ticket to another agent or team, which has to be meant."""

from __future__ import annotations

from operator_protocols.domain.action import digest_of
from operator_protocols.domain.confirmation import Boundary, Confirmation
from operator_protocols.domain.entry import Actor
from operator_protocols.domain.ticket import Move, MoveKind, Ticket, refusal_of
from operator_protocols.domain.verdict import Risk
from operator_protocols.errors import ConflictError, UsageError
from operator_sre.app.crossing import Asked, Crossing, Effect
from operator_sre.app.tickets import show_ticket
from operator_sre.app.wiring import App

__all__ = ["CROSSING", "handoff_asked"]

NAME_CHARACTERS_MAX = 100
WHY_CHARACTERS_MAX = 4000


def handoff_asked(app: App, number: int, *, to: str, why: str) -> Asked:
    """What a person has to say yes to before others work on a ticket instead of our agents."""
    whom, reason = to.strip(), why.strip()
    if not whom or len(whom) > NAME_CHARACTERS_MAX or not whom.isprintable():
        raise UsageError(
            f"A ticket is handed off to somebody, by a name of up to {NAME_CHARACTERS_MAX}"
            " characters.",
            next_step="Name an agent or a team with --to.",
        )
    if not reason or len(reason) > WHY_CHARACTERS_MAX:
        raise UsageError("Whoever takes it over needs to know why.", next_step="Say it with --why.")
    ticket = show_ticket(app, number).ticket
    if refusal := refusal_of(ticket, MoveKind.HAND_OFF):
        raise ConflictError(
            refusal, next_step=f"Open it again with: operator tickets reopen {number}"
        )
    return Asked(
        Boundary.HANDOFF,
        {"ticket": number, "to": whom, "why": reason, "subject": ticket.subject},
        Risk.MEDIUM,
        f"Ticket {number} is worked on by {whom!r} from then on, and no more by our agents:"
        f" {reason}",
        {"ticket": _identity(ticket)},
        destinations=(whom,),
        run=ticket.run,
        ticket=number,
    )


def _identity(ticket: Ticket) -> str:
    opened = ticket.opened_at.isoformat()
    return digest_of({"id": ticket.id, "subject": ticket.subject, "opened_at": opened})


def _changed(app: App, confirmation: Confirmation) -> str:
    ticket = app.store.tickets.get(int(confirmation.change["ticket"]))
    if ticket is None or _identity(ticket) != confirmation.bound.get("ticket"):
        return "the ticket is another by now"
    return ""


def _effect(app: App, confirmation: Confirmation, by: Actor) -> Effect:
    change = confirmation.change
    reason = f"handed off to {change['to']}: {change['why']}"
    move = Move(MoveKind.HAND_OFF, by, reason, assignee=str(change["to"]))
    return Effect(move=(int(change["ticket"]), move))


CROSSING = Crossing(changed=_changed, effect=_effect)
