"""`operator confirmations`: changes that cross a trust boundary, and people's answers."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from operator_sre.faces.cli.options import EveryOption, JsonOption, ReasonOption, opened
from operator_sre.faces.cli.output import clean, print_json, print_lines, print_list
from operator_sre.faces.cli.running import run_until_stopped

if TYPE_CHECKING:
    from operator_protocols.domain.confirmation import Confirmation

__all__ = ["app"]

app = typer.Typer(help="Changes that a person has to say yes to.", no_args_is_help=True)
IdArgument = Annotated[str, typer.Argument(help="The id of a confirmation.")]


@app.command("list")
def list_(
    context: typer.Context,
    every: EveryOption = False,
    as_json: JsonOption = False,
) -> None:
    """What waits for a yes or no, oldest first."""
    from operator_sre.app.confirmations import find, sweep

    with opened(context) as app:
        run_until_stopped(sweep(app))
        found = find(app, pending_only=not every)
    rows = [
        (one.id, _stands(one), one.risk, one.boundary, f"{one.expires_at:%H:%M:%S}", _what(one))
        for one in found
    ]
    head = ("id", "state", "risk", "boundary", "expires", "what")
    print_list(
        "confirmations",
        found,
        head,
        rows,
        none="Nothing waits for a confirmation.",
        as_json=as_json,
    )


@app.command()
def show(context: typer.Context, confirmation: IdArgument, as_json: JsonOption = False) -> None:
    """The exact change, what it is bound to, and what approving does."""
    from operator_sre.app.confirmations import get, requirement, sweep
    from operator_sre.contract.documents import as_document

    with opened(context) as app:
        run_until_stopped(sweep(app))
        one = get(app, confirmation)
    if as_json:
        print_json({"confirmation": one, "requirement": as_document(requirement(one))})
        return
    for name, text in _facts(one):
        if text:
            print_lines([f"{name:9} {clean(text)}"])
    patch = one.change.get("patch")
    if isinstance(patch, str):
        print_lines(["", *map(clean, patch.splitlines())])


@app.command()
def approve(
    context: typer.Context,
    confirmation: IdArgument,
    reason: ReasonOption = "",
    digest: Annotated[str, typer.Option(help="The digest of the change that you saw.")] = "",
    as_json: JsonOption = False,
) -> None:
    """Say yes to exactly this change, once; it is made at once."""
    from operator_sre.app.confirmations import approve, left_of

    with opened(context) as app:
        one = run_until_stopped(approve(app, confirmation, reason=reason, digest=digest))
        left = left_of(app, one)
    _say(one, as_json=as_json, **({"left": left} if left else {}))
    if left and not as_json:
        print_lines([clean(left)])


@app.command()
def decline(
    context: typer.Context,
    confirmation: IdArgument,
    reason: ReasonOption = "",
    as_json: JsonOption = False,
) -> None:
    """Say no; nothing is changed, and nobody can say yes to it any more."""
    from operator_sre.app.confirmations import decline
    from operator_sre.contract.categories import after_decline

    with opened(context) as app:
        one = run_until_stopped(decline(app, confirmation, reason=reason))
    _say(one, as_json=as_json, next_action=after_decline(one.boundary))


def _say(one: Confirmation, *, as_json: bool, **more: object) -> None:
    if as_json:
        print_json({"confirmation": one, **more})
        return
    print_lines([clean(f"{_stands(one)}: {_what(one)}")])
    if one.open:
        print_lines(["Whoever asked for it can make the change now, once, within five minutes."])


def _stands(one: Confirmation) -> str:
    if one.state != "approved":
        return one.state
    return one.outcome or "approved, not made yet"


def _what(one: Confirmation) -> str:
    return " ".join(one.rationale.split())[:160]


def _facts(one: Confirmation) -> Iterable[tuple[str, str]]:
    answer = f"{one.decided_by}: {one.reason}".rstrip(": ") if one.decided_by else ""
    bound = ", ".join(f"{name} {value}" for name, value in one.bound.items())
    return (
        ("change", f"{one.id}, {_stands(one)}"),
        ("crosses", one.boundary),
        ("risk", one.risk),
        ("what", one.rationale),
        ("exactly", json.dumps(_told(one.change), ensure_ascii=False)),
        ("reaches", ", ".join(one.destinations)),
        ("uses", ", ".join(one.credentials)),
        ("ticket", f"{one.ticket or '-'}, run {one.run or '-'}" if one.ticket or one.run else ""),
        ("asked by", f"{one.requested_by.id} ({one.requested_by.type})"),
        ("expires", f"{one.expires_at:%Y-%m-%d %H:%M:%S} UTC" if one.state == "pending" else ""),
        ("answer", answer),
        ("bound to", f"{one.digest}: the change"),
        ("", bound),
    )


def _told(change: Any) -> dict[str, Any]:
    return {name: value for name, value in change.items() if name != "patch"}
