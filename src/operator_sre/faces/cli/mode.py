"""`operator mode`: how much runs without a person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from operator_sre.faces.cli.confirming import YesOption, confirmed
from operator_sre.faces.cli.options import JsonOption, SubjectsOption, opened
from operator_sre.faces.cli.output import print_json, print_table
from operator_sre.faces.cli.running import run_until_stopped

if TYPE_CHECKING:
    from operator_sre.app.modes import ModeView

__all__ = ["app"]

app = typer.Typer(help="How much runs without a person.", invoke_without_command=True)
ReasonOption = Annotated[str, typer.Option(help="Why.")]


@app.callback()
def _noun(context: typer.Context, as_json: JsonOption = False) -> None:
    if context.invoked_subcommand is None:
        show(context, as_json=as_json)


@app.command()
def show(context: typer.Context, as_json: JsonOption = False) -> None:
    """The mode of every subject, and whose word it is."""
    from operator_sre.app.modes import show_modes

    with opened(context) as app:
        _show(show_modes(app), as_json=as_json)


@app.command("set")
def set_(
    context: typer.Context,
    mode: Annotated[str, typer.Argument(help="observe, approve or execute.")],
    subject: SubjectsOption = None,
    reason: ReasonOption = "",
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Set it for a subject, instead of the configured one; execute has to be meant."""
    from operator_sre.app.modes import mode_named, set_modes, unconfirmed

    wanted = mode_named(mode)
    with opened(context) as app:
        for name in unconfirmed(app, wanted, subject or []):
            question = f"{name!r} is no rig: what the policy allows runs there without a person."
            confirmed(question, yes=yes, word=name)
        _show(
            run_until_stopped(set_modes(app, wanted, subject or [], reason=reason)),
            as_json=as_json,
        )


@app.command()
def reset(
    context: typer.Context,
    subject: SubjectsOption = None,
    reason: ReasonOption = "",
    as_json: JsonOption = False,
) -> None:
    """Go back to the configured mode, for a subject or for all."""
    from operator_sre.app.modes import reset_modes

    with opened(context) as app:
        _show(run_until_stopped(reset_modes(app, subject or [], reason=reason)), as_json=as_json)


def _show(views: list[ModeView], *, as_json: bool) -> None:
    if as_json:
        print_json({"modes": views})
        return
    rows = [(one.subject, one.mode, one.source, one.by or "-", one.reason) for one in views]
    print_table(("subject", "mode", "source", "by", "why"), rows)
