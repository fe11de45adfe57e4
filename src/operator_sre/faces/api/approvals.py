"""Approvals: requests to people, and the answers of those who say what they have seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import msgspec
from fastapi import APIRouter, Header, Path, Query, Request, Response

from operator_protocols.domain.permit import Approval
from operator_protocols.domain.token import Role
from operator_sre.app.approvals import (
    ApprovalView,
    approve,
    page_of_approvals,
    reject,
    show_approval,
)
from operator_sre.app.outlook import Outlook
from operator_sre.contract.messages import SCHEMA_VERSION
from operator_sre.faces.api.answering import Refused, answer, etag_of, refused
from operator_sre.faces.api.doors import Door, ask, home_of, opens, told
from operator_sre.faces.api.paging import LIMIT, Cursor, Limit, page_of, place_of

__all__ = ["AnswerRequest", "ApprovalDocument", "ApprovalPage", "router"]

router = APIRouter(route_class=Door, prefix="/v1/approvals")
Id = Annotated[str, Path(min_length=1, max_length=100, description="The id of a request.")]
IfMatch = Annotated[
    str, Header(max_length=100, description="The ETag of what was shown; has to be there.")
]


@dataclass(frozen=True, slots=True)
class ApprovalPage:
    """Requests, oldest first."""

    approvals: tuple[Approval, ...]
    next_cursor: str = ""
    schema_version: str = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class ApprovalDocument:
    """One request; what a person wants to know before they answer, when it is shown."""

    approval: Approval
    left_s: float = 0.0
    outlook: Outlook | None = None
    schema_version: str = SCHEMA_VERSION


class AnswerRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why."""

    reason: Annotated[str, msgspec.Meta(max_length=4000)] = ""


@opens(router, "GET", "", role=Role.VIEWER, answers=ApprovalPage)
async def list_all_approvals(
    request: Request,
    every: Annotated[bool, Query(description="Those that are over, too.")] = False,
    limit: Limit = LIMIT,
    cursor: Cursor = "",
) -> Response:
    """Requests that can still be answered, or all."""
    asked, pending_only = ("approvals", every), not every
    after, most = place_of(cursor, *asked), limit + 1
    home = home_of(request)
    found = await ask(home, page_of_approvals, pending_only=pending_only, after=after, limit=most)
    page, rest = page_of(found, lambda one: one.id, limit, *asked)
    return answer(ApprovalPage(page, rest))


@opens(
    router,
    "GET",
    "/{approval}",
    role=Role.VIEWER,
    answers=ApprovalDocument,
    errors=[404],
    etag=True,
)
async def show_one_approval(request: Request, approval: Id) -> Response:
    """One request, with the ETag that an answer has to name."""
    view = await ask(home_of(request), show_approval, approval)
    document = ApprovalDocument(view.approval, view.left_s, view.outlook)
    return answer(document, headers={"etag": etag_of(view.approval)})


@opens(
    router,
    "POST",
    "/{approval}/approve",
    role=Role.APPROVER,
    asks=AnswerRequest,
    answers=ApprovalDocument,
    errors=[404, 409, 412, 428],
    etag=True,
)
async def approve_one(request: Request, approval: Id, if_match: IfMatch = "") -> Response:
    """Say yes to exactly what was seen, in the name of whoever created the token."""
    asked = await told(request, AnswerRequest)
    view = await _seen(request, approval, if_match)
    decided = await approve(
        home_of(request), approval, reason=asked.reason, seen=view.approval.version
    )
    return _told(decided.approval)


@opens(
    router,
    "POST",
    "/{approval}/reject",
    role=Role.APPROVER,
    asks=AnswerRequest,
    answers=ApprovalDocument,
    errors=[404, 409, 412, 428],
    etag=True,
)
async def reject_one(request: Request, approval: Id, if_match: IfMatch = "") -> Response:
    """Say no, and why; the mind is told."""
    asked = await told(request, AnswerRequest)
    view = await _seen(request, approval, if_match)
    version = view.approval.version
    decided = await reject(home_of(request), approval, reason=asked.reason, seen=version)
    return _told(decided)


async def _seen(request: Request, approval: str, if_match: str) -> ApprovalView:
    """The request as it is, when that is what the caller has seen."""
    view = await ask(home_of(request), show_approval, approval)
    if not if_match or if_match.strip() == "*":
        words = "Say with If-Match what you have seen: the ETag that came with it."
        raise Refused(refused(428, words))
    if if_match.strip() != etag_of(view.approval):
        words = f"Approval {approval!r} is not what you have seen; look again."
        raise Refused(refused(412, words))
    return view


def _told(decided: Approval) -> Response:
    return answer(ApprovalDocument(decided), headers={"etag": etag_of(decided)})
