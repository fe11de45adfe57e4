"""Tickets: what is broken, its story, and what people do with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import msgspec
from fastapi import APIRouter, Path, Query, Request, Response

from operator_protocols.domain.entry import Entry
from operator_protocols.domain.health import Severity
from operator_protocols.domain.ticket import MoveKind, Ticket, TicketState
from operator_protocols.domain.token import Role
from operator_sre.app.pages import end_of_ticket
from operator_sre.app.ticket_moves import move_ticket, resolve_ticket
from operator_sre.app.tickets import list_tickets
from operator_sre.contract.messages import SCHEMA_VERSION
from operator_sre.faces.api.answering import answer
from operator_sre.faces.api.doors import Door, ask, home_of, opens, told
from operator_sre.faces.api.paging import LIMIT, Cursor, Limit, cursor_at, number_of, place_of

__all__ = ["MoveRequest", "ResolveRequest", "TicketDocument", "TicketPage", "router"]

NUMBER_MAX = 2**63 - 1
TEXT_MAX = 4000
STORY_MAX = 50
router = APIRouter(route_class=Door, prefix="/v1/tickets")
Number = Annotated[int, Path(ge=1, le=NUMBER_MAX, description="The number of a ticket.")]
Word = Annotated[str, Query(max_length=200)]
Reason = Annotated[str, msgspec.Meta(max_length=TEXT_MAX)]
Span = Annotated[str, msgspec.Meta(max_length=40, description="Such as 90s, 30m, 2h or 1d.")]
Moment = Annotated[str, msgspec.Meta(max_length=40, description="Such as 2030-01-31T06:00.")]


@dataclass(frozen=True, slots=True)
class TicketPage:
    """Tickets, the most urgent and oldest first."""

    tickets: tuple[Ticket, ...]
    next_cursor: str = ""
    schema_version: str = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class TicketDocument:
    """One ticket; with the end of its story when it is shown."""

    ticket: Ticket
    entries: tuple[Entry, ...] = ()
    schema_version: str = SCHEMA_VERSION


class MoveRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to do with a ticket, and why. A pause has an end by `for` or `until`, or none."""

    move: MoveKind
    reason: Reason = ""
    for_: Span = msgspec.field(name="for", default="")
    until: Moment = ""
    assignee: Annotated[str, msgspec.Meta(max_length=100)] = ""


class ResolveRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why it is thought to hold again; only our own look resolves."""

    reason: Reason = ""


@opens(router, "GET", "", role=Role.VIEWER, answers=TicketPage)
async def list_all_tickets(
    request: Request,
    state: Annotated[list[TicketState] | None, Query(max_length=len(TicketState))] = None,
    subject: Word = "",
    severity: Annotated[Severity | None, Query()] = None,
    assignee: Word = "",
    text: Annotated[str, Query(max_length=200, description="In summary or reason.")] = "",
    limit: Limit = LIMIT,
    cursor: Cursor = "",
) -> Response:
    """Tickets in these states, or all."""
    asked = ("tickets", state, subject, severity, assignee, text)
    place = place_of(cursor, *asked)
    found = await ask(
        home_of(request),
        list_tickets,
        states=state or [],
        subject=subject,
        severity=severity or "",
        assignee=assignee,
        text=text,
        limit=limit + 1,
        after=number_of(place),
    )
    rest = cursor_at(found[limit - 1].id, *asked) if len(found) > limit else ""
    return answer(TicketPage(tuple(found[:limit]), rest))


@opens(router, "GET", "/{number}", role=Role.VIEWER, answers=TicketDocument, errors=[404])
async def show_one_ticket(request: Request, number: Number) -> Response:
    """One ticket, and the newest entries about it; all of them: /v1/audit?ticket=N."""
    view = await ask(home_of(request), end_of_ticket, number, limit=STORY_MAX)
    return answer(TicketDocument(view.ticket, view.entries))


@opens(
    router,
    "POST",
    "/{number}/moves",
    role=Role.APPROVER,
    asks=MoveRequest,
    answers=TicketDocument,
    errors=[404, 409],
)
async def move_one_ticket(request: Request, number: Number) -> Response:
    """Hold, unhold, snooze, assign, comment, escalate, close or reopen it."""
    asked = await told(request, MoveRequest)
    ticket = await move_ticket(
        home_of(request),
        number,
        asked.move,
        reason=asked.reason,
        for_=asked.for_,
        until=asked.until,
        assignee=asked.assignee,
    )
    return answer(TicketDocument(ticket))


@opens(
    router,
    "POST",
    "/{number}/resolve",
    role=Role.APPROVER,
    asks=ResolveRequest,
    answers=TicketDocument,
    errors=[404, 409],
)
async def resolve_one_ticket(request: Request, number: Number) -> Response:
    """Look at it now: resolved with a proof when it holds, refused when it does not."""
    asked = await told(request, ResolveRequest)
    ticket = await resolve_ticket(home_of(request), number, reason=asked.reason)
    return answer(TicketDocument(ticket))
