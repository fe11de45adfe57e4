"""Requests to people, their answers, and what they allowed for always."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeVar

from operator_protocols.domain.confirmation import Confirmation
from operator_protocols.domain.entry import Actor
from operator_protocols.domain.permit import Approval, ApprovalState
from operator_protocols.domain.standing_rule import Likeness, Scope, StandingRule
from operator_protocols.errors import AuthorityError, NotFoundError, OperatorError, UsageError
from operator_sre.app.outlook import Outlook, outlook_of_request
from operator_sre.app.persons import NoMore, must_be_a_person, signed_in
from operator_sre.app.wiring import App
from operator_sre.gate import escalation_of

__all__ = [
    "Always",
    "Answered",
    "ApprovalView",
    "approve",
    "escalate_requests",
    "list_approvals",
    "list_rules",
    "page_of_approvals",
    "reject",
    "revoke_rule",
    "show_approval",
    "show_rule",
    "withdraw",
]

E = TypeVar("E", bound=StrEnum)
POLL_S = 2.0
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Always:
    """The standing rule that a person asks for with an approval; empty for none."""

    likeness: str = ""
    scope: str = ""
    path: str = ""


@dataclass(frozen=True, slots=True)
class Answered:
    """A decided request, and its standing rule or the confirmation that the rule awaits."""

    approval: Approval
    rule: StandingRule | None = None
    confirmation: Confirmation | None = None


@dataclass(frozen=True, slots=True)
class ApprovalView:
    """A request with what a person wants to know before they answer."""

    approval: Approval
    binding: str
    left_s: float
    outlook: Outlook

    @property
    def state(self) -> str:
        """The state; a pending request after its deadline is expired."""
        late = self.approval.state is ApprovalState.PENDING and self.left_s <= 0
        return (ApprovalState.EXPIRED if late else self.approval.state).value


async def escalate_requests(app: App) -> None:
    """Ask the next approvers of pending requests when they are due, until cancelled.

    A parked run does not wait by itself, and its process may be gone.
    """
    while True:
        try:
            for pending in app.store.approvals.find(states=(ApprovalState.PENDING,)):
                draft = escalation_of(pending, app.terms, app.clock.now())
                if draft is not None:
                    await app.store.journal.append(draft)
        except OperatorError as error:  # the store may be back at the next poll
            log.error("cannot escalate pending approvals: %s", error)
        await app.clock.sleep(POLL_S)


def list_approvals(app: App, *, pending_only: bool) -> Sequence[Approval]:
    """Requests, oldest first: pending ones, or all."""
    if not pending_only:
        return app.store.approvals.find()
    now = app.clock.now()
    pending = app.store.approvals.find(states=(ApprovalState.PENDING,))
    return [approval for approval in pending if approval.expires_at > now]


def page_of_approvals(
    app: App, *, pending_only: bool, after: str = "", limit: int, newest: bool = False
) -> Sequence[Approval]:
    """So many behind one of an id, oldest or newest first. UsageError when there is none."""
    states = [ApprovalState.PENDING] if pending_only else []
    alive_at = app.clock.now() if pending_only else None
    return app.store.approvals.page(
        states=states, alive_at=alive_at, after=after, limit=limit, newest=newest
    )


def show_approval(app: App, approval: str) -> ApprovalView:
    """One request. NotFoundError when there is none of that id."""
    found = app.store.approvals.get(approval)
    if found is None:
        raise NotFoundError(
            f"There is no approval {approval!r}.",
            next_step="List pending approvals with: operator approvals list",
        )
    left_s = (found.expires_at - app.clock.now()).total_seconds()
    outlook = outlook_of_request(found, app.surroundings)
    return ApprovalView(found, found.binding.digest, max(0.0, left_s), outlook)


async def approve(
    app: App, approval: str, *, reason: str, always: Always | None = None, seen: int | None = None
) -> Answered:
    """Approve as the signed-in person, once or always.

    If the rule is invalid, nothing is approved; it is created with the last required approval.
    """
    must_be_a_person(app)
    known = _as_seen(app, approval, seen)
    # No token may both ask and answer, unless it is an admin's.
    permissions = app.permissions
    if isinstance(permissions, NoMore) and (
        why := permissions.may_approve_own(signed_in(), known.requester)
    ):
        raise AuthorityError(
            why, next_step="Approve the request in a terminal, or ask another approver."
        )
    rule = _rule(app, known, always or Always(), reason)
    state = ApprovalState.APPROVED
    decided = await app.answering.answer(known, state, by=signed_in(), reason=reason)
    if rule is None or decided.state is not ApprovalState.APPROVED:
        return Answered(decided)
    # --always counts as confirmation; without self-approval another person must confirm.
    from operator_sre.app.confirmations import cross
    from operator_sre.app.restraints import rule_asked

    confirmation = await cross(app, rule_asked(app, rule), sure=True)
    return Answered(decided, app.store.standing.get(rule.id), confirmation)


async def reject(app: App, approval: str, *, reason: str, seen: int | None = None) -> Approval:
    """Reject as the signed-in person; the agent receives the reason."""
    must_be_a_person(app)
    known = _as_seen(app, approval, seen)
    state = ApprovalState.REJECTED
    return await app.answering.answer(known, state, by=signed_in(), reason=reason)


async def withdraw(app: App, approval: str, *, reason: str) -> Approval:
    """Withdraw a request: for its requester and for approvers."""
    must_be_a_person(app)
    known, person = _as_seen(app, approval, None), signed_in()
    refusal = "" if person == known.requester.id else app.permissions.may_approve(person, known)
    if refusal:
        raise AuthorityError(refusal, next_step="Ask an approver.")
    state, by = ApprovalState.WITHDRAWN, Actor(person, "user")
    return await app.store.approvals.decide(
        approval, state, by=by, reason=reason, version=known.version
    )


def list_rules(app: App, *, revoked: bool) -> Sequence[StandingRule]:
    """What was allowed for always and stands, or all of it, oldest first."""
    return app.store.standing.find(revoked=revoked)


def show_rule(app: App, rule: str) -> StandingRule:
    """One rule. NotFoundError when there is none of that id."""
    found = app.store.standing.get(rule)
    if found is None:
        raise NotFoundError(
            f"There is no standing rule {rule!r}.",
            next_step="List them with: operator approvals rules",
        )
    return found


async def revoke_rule(app: App, rule: str, *, reason: str) -> StandingRule:
    """Revoke a standing rule: for its creator and for admins."""
    must_be_a_person(app)
    known, person = show_rule(app, rule), signed_in()
    mine = person == known.made_by
    refusal = "" if mine else app.permissions.may_administer(person, "revoke a rule")
    if refusal:
        raise AuthorityError(refusal, next_step="Ask an admin.")
    return await app.store.standing.revoke(rule, by=Actor(person, "user"), reason=reason)


def _as_seen(app: App, approval: str, seen: int | None) -> Approval:
    """The request at the version that the person saw, or as it is now."""
    known = show_approval(app, approval).approval
    return known if seen is None else replace(known, version=seen)


def _rule(app: App, approval: Approval, always: Always, reason: str) -> StandingRule | None:
    if not always.likeness:
        if always.scope or always.path:
            raise UsageError(
                "--scope and --path require --always.",
                next_step="Add: --always exact, flags or path",
            )
        return None
    likeness = _one_of(Likeness, always.likeness, "--always")
    scope = _one_of(Scope, always.scope or Scope.TICKET, "--scope")
    if bool(always.path) is not (likeness is Likeness.PATH):
        raise UsageError(
            "--path and --always path must be used together.",
            next_step="Use: --always path --path /srv/app",
        )
    return app.standing.rule_of(
        approval,
        likeness,
        scope,
        name=app.new_id()[:12],
        by=signed_in(),
        at=app.clock.now(),
        path=always.path,
        reason=reason,
    )


def _one_of(kind: type[E], text: str, option: str) -> E:
    if text not in set(kind):
        raise UsageError(
            f"{text!r} is not a valid value of {option}.", next_step=f"One of: {', '.join(kind)}."
        )
    return kind(text)
