"""`operator approvals`: what waits for a person, and what people allowed for always."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from operator_sre.faces.cli.options import EveryOption, JsonOption, ReasonOption, opened
from operator_sre.faces.cli.output import (
    clean,
    print_facts,
    print_json,
    print_lines,
    print_list,
    print_table,
)

if TYPE_CHECKING:
    from operator_protocols.domain.permit import Approval
    from operator_protocols.domain.standing import StandingRule
    from operator_sre.app.approvals import ApprovalView

__all__ = ["app"]

app = typer.Typer(help="What waits for a person.", no_args_is_help=True)
SeenOption = Annotated[
    int | None, typer.Option(min=1, max=1_000_000, help="The version that you saw.")
]


@app.command("list")
def list_(context: typer.Context, every: EveryOption = False, as_json: JsonOption = False) -> None:
    """Pending requests, oldest first."""
    from operator_sre.app.approvals import list_approvals

    with opened(context) as app:
        found = list_approvals(app, pending_only=not every)
    rows = [
        (
            one.id,
            f"{one.state}, escalated" if one.escalated else one.state,
            one.risk,
            one.ticket,
            f"{one.expires_at:%H:%M:%S}",
            f"{one.action.command}: {one.explanation}",
        )
        for one in found
    ]
    head = ("id", "state", "risk", "ticket", "expires", "what")
    print_list(
        "approvals", found, head, rows, none="Nothing waits for an approval.", as_json=as_json
    )


@app.command()
def show(context: typer.Context, approval: str, as_json: JsonOption = False) -> None:
    """Everything one needs to know before answering a request."""
    from operator_sre.app.approvals import show_approval
    from operator_sre.app.outlook import document_of

    with opened(context) as app:
        view = show_approval(app, approval)
    if as_json:
        shown = {"approval": view.approval, "binding": view.binding, "left_s": view.left_s}
        print_json({**shown, "outlook": document_of(view.outlook)})
        return
    print_facts([(name, value) for name, value in _facts(view) if value])


@app.command()
def approve(
    context: typer.Context,
    approval: str,
    reason: ReasonOption = "",
    always: Annotated[
        str, typer.Option(help="exact, flags or path: do not ask again for what is like it.")
    ] = "",
    scope: Annotated[
        str, typer.Option(help="With --always: ticket (unless told), subject or everywhere.")
    ] = "",
    path: Annotated[str, typer.Option(help="With --always path: below this directory.")] = "",
    seen: SeenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let it run, once; with --always also whatever is like it."""
    from operator_sre.app.approvals import Always, approve
    from operator_sre.faces.cli.running import run_until_stopped

    with opened(context) as app:
        how = Always(always, scope, path)
        work = approve(app, approval, reason=reason, always=how, seen=seen)
        answered = run_until_stopped(work)
    one = answered.approval
    if as_json:
        print_json({"approval": one, "rule": answered.rule, "confirmation": answered.confirmation})
        return
    print_lines([_decided(one)])
    if one.state == "pending":
        missing = one.needed - len(one.approvers)
        print_lines([f"It needs {missing} more: somebody else has to approve it as well."])
    waiting = answered.confirmation
    if answered.rule is None and waiting is not None:
        print_lines([f"Somebody else has to confirm the rule: {waiting.id}"])
    if answered.rule is not None:
        told = f"Rule {answered.rule.id}: {_told(answered.rule)}"
        print_lines([clean(told), f"Revoke it with: operator approvals revoke {answered.rule.id}"])


@app.command()
def reject(
    context: typer.Context,
    approval: str,
    reason: ReasonOption = "",
    seen: SeenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Do not let it run; the reason is told to the mind."""
    from operator_sre.app.approvals import reject
    from operator_sre.faces.cli.running import run_until_stopped

    with opened(context) as app:
        decided = run_until_stopped(reject(app, approval, reason=reason, seen=seen))
    _print_decided(decided, as_json=as_json)


@app.command()
def withdraw(
    context: typer.Context, approval: str, reason: ReasonOption = "", as_json: JsonOption = False
) -> None:
    """Take a request back, without an answer; it may be asked again."""
    from operator_sre.app.approvals import withdraw
    from operator_sre.faces.cli.running import run_until_stopped

    with opened(context) as app:
        decided = run_until_stopped(withdraw(app, approval, reason=reason))
    _print_decided(decided, as_json=as_json)


@app.command()
def rules(
    context: typer.Context,
    rule: Annotated[str, typer.Argument(help="One of them, in full.")] = "",
    every: EveryOption = False,
    as_json: JsonOption = False,
) -> None:
    """What runs without asking because a person said always."""
    from operator_sre.app.approvals import list_rules, show_rule

    with opened(context) as app:
        found = [show_rule(app, rule)] if rule else list_rules(app, revoked=every)
    if as_json:
        print_json({"rules": found})
    elif not found:
        print_lines(["Nothing is allowed for always."])
    elif rule:
        print_lines([f"{name:9} {clean(value)}" for name, value in _rule_facts(found[0]) if value])
    else:
        _print_rules(found)


@app.command()
def revoke(
    context: typer.Context, rule: str, reason: ReasonOption = "", as_json: JsonOption = False
) -> None:
    """Ask again for what a rule allows."""
    from operator_sre.app.approvals import revoke_rule
    from operator_sre.faces.cli.running import run_until_stopped

    with opened(context) as app:
        revoked = run_until_stopped(revoke_rule(app, rule, reason=reason))
    if as_json:
        print_json({"rule": revoked})
    else:
        print_lines([clean(f"revoked: {_told(revoked)}")])


def _print_decided(decided: Approval, *, as_json: bool) -> None:
    if as_json:
        print_json({"approval": decided})
    else:
        print_lines([_decided(decided)])


def _decided(decided: Approval) -> str:
    return clean(f"{decided.state}: {decided.action.command}")


def _facts(view: ApprovalView) -> Sequence[tuple[str, str]]:
    from operator_sre.app.outlook import facts_of

    one, bound = view.approval, view.approval.binding
    origin = f"ticket {'-' if one.ticket is None else one.ticket}, run {one.run or '-'}"
    answer = f"{one.decided_by}: {one.reason}".rstrip(": ") if one.decided_by else ""
    minutes, seconds = divmod(round(view.left_s), 60)
    left = f"in {minutes} min {seconds} s, at {one.expires_at:%Y-%m-%d %H:%M:%S} UTC"
    pending = view.state == "pending"
    return (
        ("request", f"{one.id}, {view.state}, version {one.version}"),
        *facts_of(view.outlook, origin),
        ("yes", f"{len(one.approvers)} of {one.needed} {', '.join(one.approvers)}".rstrip()),
        ("escalated", f"{one.escalated_at:%H:%M:%S} UTC" if one.escalated_at else ""),
        ("parked", "the run waits for hours if need be" if one.parked else ""),
        ("expires", left if pending else ""),
        ("answer", answer),
        ("bound to", f"{view.binding}: the command, its directory and its limits {bound.action}"),
        ("", f"this target {bound.identity or '(none)'}"),
        ("", f"the environment {bound.environment or '(none)'}"),
        ("", f"the policy {bound.policy}"),
    )


def _told(rule: StandingRule) -> str:
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


def _rule_facts(rule: StandingRule) -> Sequence[tuple[str, str]]:
    revoked = f"{rule.revoked_by}: {rule.revoked_because}".rstrip(": ") if rule.revoked_by else ""
    return (
        ("rule", rule.id),
        ("allows", _told(rule)),
        ("up to", f"risk {rule.risk}"),
        ("made by", f"{rule.made_by}, {rule.made_at:%Y-%m-%d %H:%M:%S} UTC"),
        ("of", f"approval {rule.approval or '-'}"),
        ("why", rule.reason),
        ("used", f"{rule.uses} times"),
        ("revoked", revoked),
    )


def _print_rules(found: Sequence[StandingRule]) -> None:
    rows = [
        (
            one.id,
            "stands" if one.stands else "revoked",
            one.likeness,
            one.scope,
            one.uses,
            one.made_by,
            _told(one),
        )
        for one in found
    ]
    print_table(("id", "state", "like", "scope", "uses", "by", "allows"), rows)
