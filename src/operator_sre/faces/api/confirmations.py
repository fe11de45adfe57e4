"""Confirmations: changes that cross a trust boundary, and people's yes or no to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import msgspec
from fastapi import APIRouter, Path, Query, Request, Response

from operator_protocols.domain.confirmation import Confirmation
from operator_protocols.domain.token import Role
from operator_sre.app import confirmations
from operator_sre.app.tokens import role_in_force
from operator_sre.contract.messages import SCHEMA_VERSION
from operator_sre.faces.api.answering import answer
from operator_sre.faces.api.doors import Door, ask, ask_long, home_of, opens, told
from operator_sre.faces.api.paging import LIMIT, Cursor, Limit, page_of, place_of

if TYPE_CHECKING:
    from operator_sre.app.wiring import App

__all__ = [
    "ConfirmRequest",
    "ConfirmationDocument",
    "ConfirmationPage",
    "DeclineRequest",
    "Pending",
    "pending_on",
    "router",
]

router = APIRouter(route_class=Door, prefix="/v1/confirmations")
Id = Annotated[str, Path(min_length=1, max_length=80, description="The id of a confirmation.")]
Reason = Annotated[str, msgspec.Meta(max_length=4000)]


@dataclass(frozen=True, slots=True)
class ConfirmationPage:
    """Changes that were asked for, oldest first."""

    confirmations: tuple[Confirmation, ...]
    next_cursor: str = ""
    schema_version: str = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class ConfirmationDocument:
    """One of them: what approving does, in full; `left` is what of it is still to come."""

    confirmation: Confirmation
    left: str = ""
    schema_version: str = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class Pending:
    """Nothing was done yet: a person has to say yes to this first."""

    confirmation: Confirmation
    schema_version: str = SCHEMA_VERSION


def pending_on(confirmation: Confirmation) -> Response:
    """The answer to a change that somebody has to say yes to."""
    where = {"location": f"/v1/confirmations/{confirmation.id}"}
    return answer(Pending(confirmation), status=202, headers=where)


class ConfirmRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A yes to exactly the change with this digest, and why."""

    digest: Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
    reason: Reason = ""


class DeclineRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why not."""

    reason: Reason = ""


@opens(router, "GET", "", role=Role.VIEWER, answers=ConfirmationPage)
async def list_all_confirmations(
    request: Request,
    every: Annotated[bool, Query(description="Those that are over, too.")] = False,
    limit: Limit = LIMIT,
    cursor: Cursor = "",
) -> Response:
    """Changes that wait for a person, or all there were."""
    asked, pending_only = ("confirmations", every), not every
    after, most = place_of(cursor, *asked), limit + 1
    home = home_of(request)
    found = await ask(home, confirmations.page, pending_only=pending_only, after=after, limit=most)
    page, rest = page_of(found, lambda one: one.id, limit, *asked)
    return answer(ConfirmationPage(page, rest))


@opens(
    router, "GET", "/{confirmation}", role=Role.VIEWER, answers=ConfirmationDocument, errors=[404]
)
async def show_one_confirmation(request: Request, confirmation: Id) -> Response:
    """One of them, with the digest that a yes has to name."""
    found = await ask(home_of(request), confirmations.get, confirmation)
    return await _told(home_of(request), found)


@opens(
    router,
    "POST",
    "/{confirmation}/approve",
    role=Role.APPROVER,
    asks=ConfirmRequest,
    answers=ConfirmationDocument,
    errors=[404, 409],
)
async def approve_confirmation(request: Request, confirmation: Id) -> Response:
    """Say yes to exactly this change, once, and make it."""
    home, asked = home_of(request), await told(request, ConfirmRequest)
    role = await ask(home, role_in_force, request.scope["token"])
    decided = await confirmations.approve(
        home, confirmation, reason=asked.reason, digest=asked.digest, role=role.value
    )
    return await _told(home, decided)


@opens(
    router,
    "POST",
    "/{confirmation}/decline",
    role=Role.APPROVER,
    asks=DeclineRequest,
    answers=ConfirmationDocument,
    errors=[404, 409],
)
async def decline_confirmation(request: Request, confirmation: Id) -> Response:
    """Say no; nothing is changed, and nobody can say yes to it any more."""
    home, asked = home_of(request), await told(request, DeclineRequest)
    role = await ask(home, role_in_force, request.scope["token"])
    decided = await confirmations.decline(home, confirmation, reason=asked.reason, role=role.value)
    return await _told(home, decided)


async def _told(home: App, found: Confirmation) -> Response:
    left = await ask_long(home, confirmations.left_of, found) if found.applied else ""
    return answer(ConfirmationDocument(found, left))
