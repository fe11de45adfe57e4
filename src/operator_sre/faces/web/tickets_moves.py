"""What people do with a ticket: say something, hold it, give it to somebody, end it."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Request, Response

from operator_protocols.domain.ticket import MoveKind, Ticket
from operator_protocols.domain.token import Role
from operator_protocols.errors import UsageError
from operator_sre.app.tickets import move_ticket, resolve_ticket
from operator_sre.faces.web.answering import done, home_of
from operator_sre.faces.web.doors import does, router_of
from operator_sre.faces.web.forms import form_of
from operator_sre.faces.web.paging import SEQ_MAX

__all__ = ["router"]

SPAN_MAX = 40
NAME_MAX = 100
# A hand-off crosses a boundary, and is asked for where such changes are confirmed.
MOVES = tuple(kind for kind in MoveKind if kind is not MoveKind.HAND_OFF)
router = router_of()
Number = Annotated[int, Path(ge=1, le=SEQ_MAX)]


@does(router, "/tickets/{number}/moves", role=Role.APPROVER)
async def move(request: Request, number: Number) -> Response:
    """One of the moves, in the name of whoever is signed in."""
    form = await form_of(request)
    kind = MoveKind(form.choice("move", MOVES))
    reason = form.text("reason")
    if kind is MoveKind.COMMENT and not reason:
        raise UsageError("A comment needs words.", next_step="Write some, and send it again.")
    ticket = await move_ticket(
        home_of(request),
        number,
        kind,
        reason=reason,
        for_=form.text("for", most=SPAN_MAX),
        assignee=form.text("assignee", most=NAME_MAX),
    )
    return done(request, _told(ticket, kind), to=f"/tickets/{number}")


@does(router, "/tickets/{number}/resolve", role=Role.APPROVER)
async def resolve(request: Request, number: Number) -> Response:
    """Look at it now: resolved with a proof when it holds, refused when it does not."""
    form = await form_of(request)
    ticket = await resolve_ticket(home_of(request), number, reason=form.text("reason"))
    return done(request, f"Ticket {number} is {ticket.state}.", to=f"/tickets/{number}")


def _told(ticket: Ticket, kind: MoveKind) -> str:
    match kind:
        case MoveKind.COMMENT:
            return f"Your comment stands in the story of ticket {ticket.id}."
        case MoveKind.HOLD | MoveKind.SNOOZE:
            until = ticket.pause.until if ticket.pause else None
            end = f" until {until:%Y-%m-%d %H:%M} UTC" if until else ""
            return f"No agent takes ticket {ticket.id} up{end}."
        case MoveKind.UNHOLD:
            return f"Agents may work on ticket {ticket.id} again."
        case MoveKind.ASSIGN:
            return f"Ticket {ticket.id} is {ticket.assignee or 'nobody'}'s."
        case _:
            return f"Ticket {ticket.id} is {ticket.state}."
