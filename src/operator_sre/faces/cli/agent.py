"""`operator agent`: work on tickets."""

from __future__ import annotations

import typer

from operator_sre.faces.cli.options import (
    IntervalOption,
    JsonLinesOption,
    ModelOption,
    TellOption,
    open_home,
)
from operator_sre.faces.cli.signals import run_until_stopped
from operator_sre.faces.cli.story import with_entries

__all__ = ["app"]

app = typer.Typer(help="Diagnose and repair incidents.", no_args_is_help=True)


@app.callback()
def _noun() -> None:
    return None


@app.command()
def start(
    context: typer.Context,
    interval_s: IntervalOption = None,
    model: ModelOption = None,
    as_json: JsonLinesOption = False,
    tell: TellOption = False,
) -> None:
    """Work on tickets until stopped. Changes nothing unless --mode allows it."""
    from operator_sre.app import service

    with open_home(context, interval_s=interval_s, model=model) as app:
        work, subjects = service.agent(app), app.subjects
        run_until_stopped(with_entries(app, work, as_json=as_json, subjects=subjects, tell=tell))
