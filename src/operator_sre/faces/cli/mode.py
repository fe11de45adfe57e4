"""`operator mode`: how much runs without a person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from operator_sre.faces.cli.confirming import ProposeOption, YesOption, crossed
from operator_sre.faces.cli.options import JsonOption, ReasonOption, SubjectsOption, opened
from operator_sre.faces.cli.output import print_json, print_table
from operator_sre.faces.cli.running import run_until_stopped

if TYPE_CHECKING:
    from operator_sre.app.crossing import Asked
    from operator_sre.app.modes import ModeView

__all__ = ["app"]

app = typer.Typer(help="How much runs without a person.", invoke_without_command=True)


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
    propose: ProposeOption = False,
    as_json: JsonOption = False,
) -> None:
    """Set it for a subject, instead of the configured one; execute has to be meant."""
    from operator_sre.app.modes import execute_asked, mode_named, set_modes, show_modes

    wanted, names = mode_named(mode), subject or []
    with opened(context) as app:
        asked = execute_asked(app, wanted, names, reason=reason)
        word = asked.destinations[0] if asked else ""
        if crossed(app, asked, yes=yes, propose=propose, as_json=as_json, word=word):
            _show([one for one in show_modes(app) if _is_one(one, asked)], as_json=as_json)
            return
        views = run_until_stopped(set_modes(app, wanted, names, reason=reason))
    _show(views, as_json=as_json)


@app.command()
def reset(
    context: typer.Context,
    subject: SubjectsOption = None,
    reason: ReasonOption = "",
    yes: YesOption = False,
    propose: ProposeOption = False,
    as_json: JsonOption = False,
) -> None:
    """Go back to the configured mode, for a subject or for all."""
    from operator_sre.app.modes import reset_asked, reset_modes, show_modes

    names = subject or []
    with opened(context) as app:
        asked = reset_asked(app, names, reason=reason)
        if crossed(app, asked, yes=yes, propose=propose, as_json=as_json):
            _show(show_modes(app), as_json=as_json)
            return
        views = run_until_stopped(reset_modes(app, names, reason=reason))
    _show(views, as_json=as_json)


def _is_one(view: ModeView, asked: Asked | None) -> bool:
    return asked is not None and view.subject in asked.change["subjects"]


def _show(views: list[ModeView], *, as_json: bool) -> None:
    if as_json:
        print_json({"modes": views})
        return
    rows = [(one.subject, one.mode, one.source, one.by or "-", one.reason) for one in views]
    print_table(("subject", "mode", "source", "by", "why"), rows)
