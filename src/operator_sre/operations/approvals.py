"""Approvals: pending requests, decisions, and standing rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta

from operator_protocols.domain.confirmation import Confirmation
from operator_protocols.domain.permit import Approval, Approver
from operator_protocols.domain.standing_rule import StandingRule
from operator_protocols.domain.token import Role
from operator_sre.app import approvals
from operator_sre.app.outlook import Outlook, document_of, facts_of
from operator_sre.contract import SCHEMA_VERSION
from operator_sre.drawing import plural
from operator_sre.operations.operation import (
    TEXT_MAX,
    After,
    Effect,
    Most,
    Operation,
    Page,
    Reason,
    Request,
    Route,
    Table,
    Tool,
    View,
    answer_of,
    decision,
    facts,
    id_of,
)

if TYPE_CHECKING:
    from operator_sre.app.wiring import App

__all__ = ["OPERATIONS", "SUMMARY", "ApprovalDocument", "ApprovalPage"]

SUMMARY = "Decide on actions that need approval."
PENDING_MAX = 100
Id = Annotated[str, id_of("The request id.", most=100)]
Seen = Annotated[
    int | None,
    Meta(
        ge=1,
        le=1_000_000,
        description="Refuse if the request is no longer at this version.",
        extra={"api": False},
    ),
]
RuleId = Annotated[str, Meta(max_length=TEXT_MAX, description="The rule id.")]


class ListApprovals(Request, frozen=True):
    """Which requests."""

    every: Annotated[
        bool,
        Meta(
            description="Include decided and expired requests.",
            extra={"option": "--all", "mcp": False},
        ),
    ] = False
    after: After = ""
    limit: Most = None


class ShowApproval(Request, frozen=True):
    """Which request."""

    approval: Id


class AnswerApproval(Request, frozen=True):
    """Why."""

    approval: Id
    reason: Reason = ""
    seen: Seen = None


class Approve(Request, frozen=True):
    """Which request, why, and what else is allowed from now on."""

    approval: Id
    reason: Reason = ""
    always: Annotated[
        str,
        Meta(
            max_length=TEXT_MAX,
            description="Also approve similar actions from now on: exact, flags or path.",
        ),
    ] = ""
    scope: Annotated[
        str,
        Meta(
            max_length=TEXT_MAX,
            description="With --always: ticket (default), subject or everywhere.",
        ),
    ] = ""
    path: Annotated[
        str,
        Meta(
            max_length=TEXT_MAX, description="With --always path: allow files below this directory."
        ),
    ] = ""
    seen: Seen = None


class WithdrawApproval(Request, frozen=True):
    """Which request, and why."""

    approval: Id
    reason: Reason = ""


class ListRules(Request, frozen=True):
    """Which rules."""

    rule: Annotated[str, Meta(max_length=TEXT_MAX, description="Show this rule in full.")] = ""
    every: Annotated[
        bool,
        Meta(description="Include revoked rules.", extra={"option": "--all", "mcp": False}),
    ] = False


class RevokeRule(Request, frozen=True):
    """Which rule, and why."""

    rule: RuleId
    reason: Reason = ""


@dataclass(frozen=True, slots=True)
class ApprovalPage:
    """Requests, oldest first."""

    approvals: tuple[Approval, ...]
    next_cursor: str = ""
    schema_version: str = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class ApprovalDocument:
    """One request; with its outlook when it is shown."""

    approval: Approval
    left_s: float = 0.0
    outlook: Outlook | None = None
    schema_version: str = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class ApprovalDetails:
    """One request, what its approval is bound to, and what approving does."""

    approval: Approval
    binding: str
    left_s: float
    outlook: Mapping[str, Any]
    view: approvals.ApprovalView


@dataclass(frozen=True, slots=True)
class AnswerDocument:
    """A decided request, and its standing rule, or the confirmation that the rule still needs."""

    approval: Approval
    rule: StandingRule | None
    confirmation: Confirmation | None


@dataclass(frozen=True, slots=True)
class RuleList:
    """Standing rules; `is_one` where the request names one of them."""

    rules: tuple[StandingRule, ...]
    is_one: bool = False


@dataclass(frozen=True, slots=True)
class RuleDocument:
    """One standing rule."""

    rule: StandingRule


def list_requests(
    app: App, *, every: bool, after: str = "", limit: int | None = None
) -> Sequence[Approval]:
    """Requests, oldest first: pending ones, or all."""
    if limit is None:
        return approvals.list_approvals(app, pending_only=not every)
    return approvals.page_of_approvals(app, pending_only=not every, after=after, limit=limit)


def show_details(app: App, approval: str) -> ApprovalDetails:
    """One request with everything that a decision needs."""
    view = approvals.show_approval(app, approval)
    outlook = document_of(view.outlook)
    return ApprovalDetails(view.approval, view.binding, view.left_s, outlook, view)


async def approve_seen(app: App, approval: str, *, reason: str, seen: int | None) -> Approval:
    """Approve exactly the version that was seen, once."""
    return (await approvals.approve(app, approval, reason=reason, seen=seen)).approval


async def approve(
    app: App, approval: str, *, reason: str, always: str, scope: str, path: str, seen: int | None
) -> approvals.Answered:
    """Approve, once or with a standing rule."""
    how = approvals.Always(always, scope, path)
    return await approvals.approve(app, approval, reason=reason, always=how, seen=seen)


def list_rules(app: App, *, rule: str, every: bool) -> RuleList:
    """One rule, the rules in force, or all rules."""
    if rule:
        return RuleList((approvals.show_rule(app, rule),), is_one=True)
    return RuleList(tuple(approvals.list_rules(app, revoked=every)))


def _table(page: ApprovalPage, now: datetime) -> View:
    rows = [
        (
            approval.id,
            f"{approval.state}, escalated" if approval.escalated else approval.state,
            approval.risk,
            "-" if approval.ticket is None else approval.ticket,
            f"{approval.expires_at:%H:%M:%S}",
            f"{approval.action.command}: {approval.explanation}",
        )
        for approval in page.approvals
    ]
    head = ("id", "state", "risk", "ticket", "expires", "what")
    return [Table(head, rows, "No pending approvals.")]


def _details(found: ApprovalDetails, now: datetime) -> View:
    approval, view, bound = found.approval, found.view, found.approval.binding
    origin = (
        f"ticket {'-' if approval.ticket is None else approval.ticket}, run {approval.run or '-'}"
    )
    approvers = ", ".join(approval.approvers)
    minutes, seconds = divmod(round(found.left_s), 60)
    left = f"in {minutes} min {seconds} s, at {approval.expires_at:%Y-%m-%d %H:%M:%S} UTC"
    return facts(
        (
            ("request", f"{approval.id}, {view.state}, version {approval.version}"),
            *facts_of(view.outlook, origin),
            ("approved", f"{len(approval.approvers)} of {approval.needed} {approvers}".rstrip()),
            ("asked", ", then ".join(map(_describe_approver, approval.asked))),
            ("escalated", f"{approval.escalated_at:%H:%M:%S} UTC" if approval.escalated_at else ""),
            ("parked", "the run stays parked until the decision" if approval.parked else ""),
            ("expires", left if view.state == "pending" else ""),
            ("answer", answer_of(approval.decided_by, approval.reason)),
            (
                "bound to",
                f"{found.binding}: the command, its directory and its limits {bound.action}",
            ),
            ("", f"this target {bound.identity or '(none)'}"),
            ("", f"the environment {bound.environment or '(none)'}"),
            ("", f"the policy {bound.policy}"),
        )
    )


def _describe_approver(approver: Approver) -> str:
    people = [person for person in approver.people if person != approver.name]
    return f"{approver.name} ({', '.join(people)})" if people else approver.name


def _show_decision(found: ApprovalDocument | AnswerDocument, now: datetime) -> View:
    return [f"{found.approval.state}: {found.approval.action.command}"]


def _show_answer(found: AnswerDocument, now: datetime) -> View:
    approval, lines = found.approval, [*_show_decision(found, now)]
    if approval.state == "pending":
        missing = plural(approval.needed - len(approval.approvers), "more approval")
        lines.append(f"It needs {missing} from another person.")
    if found.rule is not None:
        lines.append(f"Rule {found.rule.id}: {_describe(found.rule)}")
        lines.append(f"Revoke it with: operator approvals revoke {found.rule.id}")
    elif found.confirmation is not None:
        lines.append(f"Another person must confirm the rule: {found.confirmation.id}")
    return lines


def _describe(rule: StandingRule) -> str:
    line = " ".join(rule.argv) if rule.tool == "shell" else f"{rule.tool}({', '.join(rule.argv)})"
    like = {
        "exact": f"exactly {line!r} in {rule.cwd}",
        "flags": f"{line!r} with other plain values, in {rule.cwd}",
        "path": f"{line!r} with other files below {rule.path}",
    }[rule.likeness]
    where = {
        "ticket": f"ticket {rule.ticket}",
        "subject": f"subject {rule.subject}",
        "everywhere": "everywhere",
    }[rule.scope]
    return f"{like}, on target {rule.target or '-'}, {where}"


def _rules(found: RuleList, now: datetime) -> View:
    if found.is_one:
        (rule,) = found.rules
        return facts(
            (
                ("rule", rule.id),
                ("allows", _describe(rule)),
                ("up to", f"risk {rule.risk}"),
                ("made by", f"{rule.made_by}, {rule.made_at:%Y-%m-%d %H:%M:%S} UTC"),
                ("of", f"approval {rule.approval or '-'}"),
                ("why", rule.reason),
                ("used", f"{rule.uses} times"),
                ("revoked", answer_of(rule.revoked_by, rule.revoked_because)),
            )
        )
    rows = [
        (
            rule.id,
            "stands" if rule.stands else "revoked",
            rule.likeness,
            rule.scope,
            rule.uses,
            rule.made_by,
            _describe(rule),
        )
        for rule in found.rules
    ]
    head = ("id", "state", "like", "scope", "uses", "by", "allows")
    return [Table(head, rows, "No standing rules.")]


_HERE = "operator_sre.operations.approvals"
_SHOW = "operator_sre.app.approvals.show_approval"
_ANSWER_ERRORS = (404, 409, 412, 428)
_decision = decision("approval", _show_decision)
OPERATIONS = (
    Operation(
        name="approvals list",
        help="List pending approval requests, oldest first.",
        request=ListApprovals,
        result=ApprovalPage,
        call=f"{_HERE}.list_requests",
        view=_table,
        page=Page(key="id", place="after"),
        route=Route(
            "GET",
            "/v1/approvals",
            "list_all_approvals",
            summary="Requests that can still be answered, or all.",
        ),
        tool=Tool(
            "pending_approvals",
            "Pending approvals",
            "Lists pending approvals. Only people answer them, with: operator approvals.",
            picks=(
                *("id", "state", "risk", "level", "ticket", "run", "subject", "requested_at"),
                *("expires_at", "action.command", "action.target", "action.reasoning"),
                *("explanation", "requester"),
            ),
            next_step="A person answers with: operator approvals show {id}",
            rows_max=PENDING_MAX,
        ),
    ),
    Operation(
        name="approvals show",
        help="Show an approval request with its action, risk and expected effect.",
        request=ShowApproval,
        result=ApprovalDetails,
        call=f"{_HERE}.show_details",
        view=_details,
        arguments=("approval",),
        unprinted=("view",),
    ),
    Operation(
        name="approvals show",
        help="Show a request, with the ETag that an answer has to name.",
        request=ShowApproval,
        result=ApprovalDocument,
        call=_SHOW,
        view=_show_decision,
        is_command=False,
        route=Route(
            "GET", "/v1/approvals/{approval}", "show_one_approval", errors=(404,), etag="approval"
        ),
    ),
    _decision(
        name="approvals approve",
        help="Approve an action to run once; with --always, similar actions too.",
        request=Approve,
        result=AnswerDocument,
        call=f"{_HERE}.approve",
        view=_show_answer,
    ),
    _decision(
        name="approvals approve",
        help="Approve exactly the version in If-Match, as the owner of the token.",
        request=AnswerApproval,
        result=ApprovalDocument,
        call=f"{_HERE}.approve_seen",
        is_command=False,
        route=Route(
            "POST",
            "/v1/approvals/{approval}/approve",
            "approve_one",
            "AnswerRequest",
            _ANSWER_ERRORS,
            etag="approval",
            shown=_SHOW,
        ),
    ),
    _decision(
        name="approvals reject",
        help="Reject an action. The agent sees the reason.",
        request=AnswerApproval,
        result=ApprovalDocument,
        call="operator_sre.app.approvals.reject",
        unprinted=("left_s", "outlook"),
        route=Route(
            "POST",
            "/v1/approvals/{approval}/reject",
            "reject_one",
            "AnswerRequest",
            _ANSWER_ERRORS,
            summary="Reject a request; the agent gets the reason.",
            etag="approval",
            shown=_SHOW,
        ),
    ),
    _decision(
        name="approvals withdraw",
        help="Withdraw a request without a decision. It can be requested again.",
        request=WithdrawApproval,
        result=ApprovalDocument,
        call="operator_sre.app.approvals.withdraw",
        unprinted=("left_s", "outlook"),
    ),
    Operation(
        name="approvals rules",
        help="List standing rules: actions that run without approval.",
        request=ListRules,
        result=RuleList,
        call=f"{_HERE}.list_rules",
        view=_rules,
        arguments=("rule",),
        unprinted=("is_one",),
    ),
    Operation(
        name="approvals revoke",
        help="Revoke a standing rule, so that its actions need approval again.",
        request=RevokeRule,
        result=RuleDocument,
        call="operator_sre.app.approvals.revoke_rule",
        view=lambda found, now: [f"revoked: {_describe(found.rule)}"],
        effect=Effect.CHANGE,
        role=Role.APPROVER,
        arguments=("rule",),
    ),
)
