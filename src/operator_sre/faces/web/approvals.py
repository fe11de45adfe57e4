"""Approvals: what waits for a person, everything one needs to know, and the answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Path, Query, Request, Response

from operator_protocols.domain.standing import Likeness, Scope
from operator_protocols.domain.token import Role
from operator_protocols.errors import ConflictError
from operator_sre.app.approvals import (
    Always,
    Answered,
    ApprovalView,
    approve,
    page_of_approvals,
    reject,
    show_approval,
)
from operator_sre.app.outlook import foresee_request
from operator_sre.faces.web.admission import path_within
from operator_sre.faces.web.answering import done, home_of, page, part, session_of
from operator_sre.faces.web.approvals_showing import exact
from operator_sre.faces.web.doors import does, router_of, shows
from operator_sre.faces.web.forms import Form, form_of
from operator_sre.faces.web.paging import address

if TYPE_CHECKING:
    from operator_protocols.domain.permit import Approval
    from operator_sre.app.wiring import App

__all__ = ["facts_of_request", "router", "waiting_for"]

PLACE = "/approvals"
PAGE_MAX = 50
# So many requests are looked through for those of one ticket.
WAITING_MAX = 500
INLINE_MAX = 5
COMMAND_CHARACTERS_MAX = 80
PATH_MAX = 1000
# How an answer to what was not so any more is called in the ledger.
STALE = "stale approval"
_UNDO = {True: "It can be taken back.", False: "It cannot be taken back.", None: ""}
router = router_of()
Id = Annotated[str, Path(min_length=1, max_length=100)]


@shows(router, PLACE)
async def approvals(
    request: Request,
    every: Annotated[bool, Query()] = False,
    after: Annotated[str, Query(max_length=100)] = "",
) -> Response:
    """The queue."""

    def facts(home: App) -> Mapping[str, Any]:
        return {**_queue(home, every=every, after=after), "every": every}

    return await page(request, "approvals.html", facts, title="Approvals")


@shows(router, "/parts/approvals")
async def queue(request: Request) -> Response:
    """Those that can still be answered."""
    return await part(
        request, "parts/approvals_queue.html", lambda home: _queue(home, every=False, after="")
    )


@shows(router, PLACE + "/{approval}")
async def one_approval(request: Request, approval: Id) -> Response:
    """One request."""

    def facts(home: App) -> Mapping[str, Any]:
        return {**_shown(home, approval), "back": f"{PLACE}/{approval}"}

    return await page(request, "approval.html", facts, title="Approval")


@shows(router, "/parts/approvals/{approval}")
async def one_part(request: Request, approval: Id) -> Response:
    """The same, as it is now."""

    def facts(home: App) -> Mapping[str, Any]:
        return {**_shown(home, approval), "back": f"{PLACE}/{approval}"}

    return await part(request, "parts/approval.html", facts)


@does(router, PLACE + "/{approval}/approve", role=Role.APPROVER)
async def approve_one(request: Request, approval: Id) -> Response:
    """Say yes to exactly what was seen: once, or also to whatever is like it."""
    home, form = home_of(request), await form_of(request)
    likeness = form.choice("always", Likeness, default="")
    scope = form.choice("scope", Scope, default=Scope.TICKET) if likeness else ""
    path = form.text("path", most=PATH_MAX) if likeness == Likeness.PATH else ""
    seen, reason = form.number("seen", least=1), form.text("reason")
    always = Always(likeness, scope, path)
    try:
        answered = await approve(home, approval, reason=reason, always=always, seen=seen)
    except ConflictError as error:
        raise await _too_late(request, approval, error) from error
    return done(request, _answered(answered), to=_back(form, approval))


@does(router, PLACE + "/{approval}/reject", role=Role.APPROVER)
async def reject_one(request: Request, approval: Id) -> Response:
    """Say no, and why; the mind is told."""
    home, form = home_of(request), await form_of(request)
    reason = form.text("reason", needed=True)
    try:
        decided = await reject(home, approval, reason=reason, seen=form.number("seen", least=1))
    except ConflictError as error:
        raise await _too_late(request, approval, error) from error
    return done(request, f"{_named(decided)} is rejected.", to=_back(form, approval))


def waiting_for(home: App, ticket: int) -> list[Mapping[str, Any]]:
    """What people are asked because of a ticket, each with all that one needs to know."""
    found = page_of_approvals(home, pending_only=True, limit=WAITING_MAX)
    mine = [one for one in found if one.ticket == ticket][:INLINE_MAX]
    return [facts_of_request(home, show_approval(home, one.id)) for one in mine]


def facts_of_request(home: App, view: ApprovalView) -> Mapping[str, Any]:
    """One request as the templates tell it."""
    approval = view.approval
    return {
        "view": view,
        "one": approval,
        "outlook": view.outlook,
        "now": foresee_request(home, approval) if view.state == "pending" else None,
        "missing": approval.needed - len(approval.approvers),
        "undo": _UNDO[approval.reversible],
    }


def _shown(home: App, approval: str) -> Mapping[str, Any]:
    return {
        **facts_of_request(home, show_approval(home, approval)),
        "exact": exact,
        "likenesses": Likeness,
        "scopes": Scope,
    }


def _queue(home: App, *, every: bool, after: str) -> Mapping[str, Any]:
    found = page_of_approvals(
        home, pending_only=not every, after=after, limit=PAGE_MAX + 1, newest=every
    )
    shown = found[:PAGE_MAX]
    more = {"every": "true" if every else "", "after": shown[-1].id if shown else ""}
    following = address(PLACE, more) if len(found) > PAGE_MAX else ""
    return {"waiting": shown, "following": following, "exact": exact, "at": home.clock.now()}


async def _too_late(request: Request, approval: str, error: ConflictError) -> ConflictError:
    """The same, with who was faster: whoever comes second wants to know whom to ask."""
    token = session_of(request).token.id
    await request.app.state.refusals.refused(request.scope["source"], STALE, token=token)
    one = show_approval(home_of(request), approval).approval
    words = ""
    if one.decided_by and one.decided_at is not None:
        reason = f": {one.reason}" if one.reason else ""
        words = f" {one.decided_by} answered at {one.decided_at:%H:%M:%S} UTC{reason}."
    elif one.approvers:
        words = f" {', '.join(one.approvers)} said yes meanwhile."
    return ConflictError(
        f"{error.message}{words}", next_step="Nothing was done by you. Look again."
    )


def _answered(answered: Answered) -> str:
    one, waiting = answered.approval, answered.confirmation
    words = f"{_named(one)} is {one.state}."
    if one.state == "pending":
        missing = one.needed - len(one.approvers)
        return f"You said yes to {_named(one)}. {missing} more has to say so: somebody else."
    if answered.rule is not None:
        return f"{words} Rule {answered.rule.id} stands from now on."
    if waiting is not None:
        return f"{words} Somebody else has to confirm the rule: {waiting.id}."
    return words


def _named(one: Approval) -> str:
    return repr(one.action.command[:COMMAND_CHARACTERS_MAX])


def _back(form: Form, approval: str) -> str:
    wanted = form.text("back", most=PATH_MAX)
    return path_within(wanted) if wanted else f"{PLACE}/{approval}"
