"""`operator approvals`: what waits for a person."""

from __future__ import annotations

from typing import Annotated

import typer

from operator_sre.faces.cli.options import JsonOption, opened
from operator_sre.faces.cli.output import clean, print_json, print_lines, print_table

__all__ = ["app"]

app = typer.Typer(help="What waits for a person.", no_args_is_help=True)
ReasonOption = Annotated[str, typer.Option(help="Why.")]


@app.command("list")
def list_(
    context: typer.Context,
    every: Annotated[bool, typer.Option("--all", help="Answered ones too.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Pending requests, oldest first."""
    from operator_sre.app.approvals import list_approvals

    with opened(context) as app:
        found = list_approvals(app, pending_only=not every)
    if as_json:
        print_json({"approvals": found})
    elif not found:
        print_lines(["Nothing waits for an approval."])
    else:
        rows = [
            (
                one.id,
                one.state,
                one.risk,
                one.ticket,
                f"{one.expires_at:%H:%M:%S}",
                f"{one.action.command}: {one.explanation}",
            )
            for one in found
        ]
        print_table(("id", "state", "risk", "ticket", "expires", "what"), rows)


@app.command()
def approve(
    context: typer.Context, approval: str, reason: ReasonOption = "", as_json: JsonOption = False
) -> None:
    """Let it run, once."""
    _decide(context, approval, approved=True, reason=reason, as_json=as_json)


@app.command()
def reject(
    context: typer.Context, approval: str, reason: ReasonOption = "", as_json: JsonOption = False
) -> None:
    """Do not let it run; the reason is told to the mind."""
    _decide(context, approval, approved=False, reason=reason, as_json=as_json)


def _decide(
    context: typer.Context, approval: str, *, approved: bool, reason: str, as_json: bool
) -> None:
    from operator_sre.app.approvals import decide
    from operator_sre.faces.cli.running import run_until_stopped

    with opened(context) as app:
        decided = run_until_stopped(decide(app, approval, approved=approved, reason=reason))
    if as_json:
        print_json({"approval": decided})
    else:
        print_lines([clean(f"{decided.state}: {decided.action.command}")])
