"""`operator monitor`: watch subjects and file what is broken."""

from __future__ import annotations

import typer

from operator_sre.faces.cli.options import (
    AllOption,
    IntervalOption,
    JsonLinesOption,
    MetricsOption,
    SubjectsOption,
    TellOption,
    open_home,
)
from operator_sre.faces.cli.signals import run_until_stopped
from operator_sre.faces.cli.story import with_entries

__all__ = ["app"]

app = typer.Typer(help="Check subjects and open tickets.", no_args_is_help=True)


@app.callback()
def _noun() -> None:
    return None


@app.command()
def run(
    context: typer.Context,
    subject: SubjectsOption = None,
    every: AllOption = False,
    interval_s: IntervalOption = None,
    metrics: MetricsOption = None,
    as_json: JsonLinesOption = False,
    tell: TellOption = False,
) -> None:
    """Check subjects until stopped, and open tickets. Log lines go to stderr."""
    from operator_sre.app import service

    with open_home(context, interval_s=interval_s, metrics=metrics) as app:
        named = subject or []
        work = service.monitor(app, named, every=every)
        watched = app.subjects if every else lambda: app.choose(named)
        options = {"as_json": as_json, "works": False, "tell": tell}
        run_until_stopped(with_entries(app, work, subjects=watched, **options))
