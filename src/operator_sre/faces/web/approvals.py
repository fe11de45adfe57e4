"""Approvals: the queue, the details of a request, and the answers to it."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Path, Query, Request, Response
from markupsafe import Markup, escape

from operator_protocols.domain.standing_rule import Likeness, Scope
from operator_protocols.domain.token import Role
from operator_protocols.errors import ConflictError
from operator_sre.app.approvals import (
    Always,
    ApprovalView,
    approve,
    page_of_approvals,
    reject,
    show_approval,
)
from operator_sre.app.outlook import foresee_request
from operator_sre.drawing import plural
from operator_sre.faces.web.admission import path_within
from operator_sre.faces.web.forms import Form, form_of
from operator_sre.faces.web.responses import home_of, page, part, redirect, session_of
from operator_sre.faces.web.routes import address, does, router_of, shows

if TYPE_CHECKING:
    from operator_protocols.domain.permit import Approval
    from operator_sre.app.wiring import App

__all__ = ["exact", "facts_of_request", "router", "waiting_for"]

PLACE = "/approvals"
PAGE_MAX = 50
# How many pending requests are searched for those of one ticket.
WAITING_MAX = 500
INLINE_MAX = 5
COMMAND_CHARACTERS_MAX = 80
PATH_MAX = 1000
# The name in the ledger of an answer to a request that had changed meanwhile.
STALE = "stale approval"
_UNDO = {True: "Reversible.", False: "Not reversible.", None: ""}
# Invisible characters that count as printable.
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
router = router_of()
Id = Annotated[str, Path(min_length=1, max_length=100)]


def exact(text: str) -> Markup:
    """A text in which all characters can be distinguished, to read before approving it.

    Characters that are invisible, change the direction of writing or control a terminal are shown
    as their code and marked, as is space at the end of a line. Letters beyond ASCII are marked,
    because some look like others.
    """
    return Markup("\n").join(_exact_line(line) for line in text.split("\n"))


def _exact_line(text: str) -> Markup:
    def kind_of(character: str) -> str:
        if " " <= character <= "~" or character == "\t":
            return ""
        invisible = not character.isprintable() or character in _BLANK
        combines = unicodedata.category(character) in ("Mn", "Me")
        return "odd" if invisible or combines else "foreign"

    mark = Markup('<mark class="{}" title="{}">{}</mark>')
    body = text.rstrip(" \t")
    shown = Markup("")
    for kind, characters in groupby(body, key=kind_of):
        run = "".join(characters)
        if not kind:
            shown += escape(run)
            continue
        names = dict.fromkeys(f"U+{ord(c):04X} {unicodedata.name(c, '')}".strip() for c in run[:8])
        title = f"{'hidden' if kind == 'odd' else 'not ASCII'}: {', '.join(names)}"
        code = run.encode("unicode_escape").decode() if kind == "odd" else run
        shown += mark.format(kind, title, code)
    if tail := text[len(body) :]:
        spaces = "".join("␠" if space == " " else "␉" for space in tail)
        shown += mark.format("odd", "space", spaces)
    return shown


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
    """The pending requests."""
    return await part(
        request, "parts/approvals_queue.html", lambda home: _queue(home, every=False, after="")
    )


@shows(router, PLACE + "/{approval}")
async def one_approval(request: Request, approval: Id) -> Response:
    """One request."""

    def facts(home: App) -> Mapping[str, Any]:
        return {**_facts_of(home, approval), "back": f"{PLACE}/{approval}"}

    return await page(request, "approval.html", facts, title="Approval")


@shows(router, "/parts/approvals/{approval}")
async def one_part(request: Request, approval: Id) -> Response:
    """One request, refreshed."""

    def facts(home: App) -> Mapping[str, Any]:
        return {**_facts_of(home, approval), "back": f"{PLACE}/{approval}"}

    return await part(request, "parts/approval.html", facts)


@does(router, PLACE + "/{approval}/approve", role=Role.APPROVER)
async def approve_one(request: Request, approval: Id) -> Response:
    """Approve exactly what was shown: once, or also every similar action."""
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
    decided = answered.approval
    text = f"{_quote(decided)} is {decided.state}."
    if decided.state == "pending":
        missing = plural(decided.needed - len(decided.approvers), "more approval")
        text = f"You approved {_quote(decided)}. It needs {missing} from another person."
    elif answered.rule is not None:
        text += f" Rule {answered.rule.id} applies from now on."
    elif answered.confirmation is not None:
        text += f" Another person must confirm the rule: {answered.confirmation.id}."
    return redirect(request, text, to=_back(form, approval))


@does(router, PLACE + "/{approval}/reject", role=Role.APPROVER)
async def reject_one(request: Request, approval: Id) -> Response:
    """Reject a request; the agent gets the reason."""
    home, form = home_of(request), await form_of(request)
    reason = form.text("reason", needed=True)
    try:
        decided = await reject(home, approval, reason=reason, seen=form.number("seen", least=1))
    except ConflictError as error:
        raise await _too_late(request, approval, error) from error
    return redirect(request, f"{_quote(decided)} is rejected.", to=_back(form, approval))


def waiting_for(home: App, ticket: int) -> list[Mapping[str, Any]]:
    """The pending requests of a ticket, each with its details."""
    pending = page_of_approvals(home, pending_only=True, limit=WAITING_MAX)
    mine = [approval for approval in pending if approval.ticket == ticket][:INLINE_MAX]
    return [facts_of_request(home, show_approval(home, approval.id)) for approval in mine]


def facts_of_request(home: App, view: ApprovalView) -> Mapping[str, Any]:
    """The details of a request, for templates."""
    approval = view.approval
    return {
        "view": view,
        "one": approval,
        "outlook": view.outlook,
        "now": foresee_request(home, approval) if view.state == "pending" else None,
        "missing": approval.needed - len(approval.approvers),
        "undo": _UNDO[approval.reversible],
    }


def _facts_of(home: App, approval: str) -> Mapping[str, Any]:
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
    """The same error with who answered first, so that the second person knows whom to ask."""
    token = session_of(request).token.id
    await request.app.state.refusals.record_refusal(request.scope["source"], STALE, token=token)
    decided = show_approval(home_of(request), approval).approval
    who = ""
    if decided.decided_by and decided.decided_at is not None:
        reason = f": {decided.reason}" if decided.reason else ""
        who = f" {decided.decided_by} answered at {decided.decided_at:%H:%M:%S} UTC{reason}."
    elif decided.approvers:
        who = f" {', '.join(decided.approvers)} approved it meanwhile."
    step = "Your answer was not recorded. Reload the page to see the current state."
    return ConflictError(f"{error.message}{who}", next_step=step)


def _quote(approval: Approval) -> str:
    return repr(approval.action.command[:COMMAND_CHARACTERS_MAX])


def _back(form: Form, approval: str) -> str:
    wanted = form.text("back", most=PATH_MAX)
    return path_within(wanted) if wanted else f"{PLACE}/{approval}"
