"""`operator up`: monitor and agent in one process."""

from __future__ import annotations

import typer

from operator_sre.faces.cli.options import (
    AllOption,
    IntervalOption,
    JsonLinesOption,
    MetricsOption,
    ModelOption,
    SubjectsOption,
    open_home,
)
from operator_sre.faces.cli.signals import run_until_stopped
from operator_sre.faces.cli.story import with_entries

__all__ = ["up"]


def up(
    context: typer.Context,
    subject: SubjectsOption = None,
    every: AllOption = False,
    interval_s: IntervalOption = None,
    metrics: MetricsOption = None,
    model: ModelOption = None,
    as_json: JsonLinesOption = False,
) -> None:
    """Monitor subjects and work on tickets until stopped.

    Changes nothing unless --mode allows it. A terminal shows one line per event; without a
    terminal, log lines go to stderr.
    """
    from operator_sre.app import service

    with open_home(context, interval_s=interval_s, metrics=metrics, model=model) as app:
        named = subject or []
        work = service.up(app, named, every=every)
        watched = app.subjects if every else lambda: app.choose(named)
        run_until_stopped(with_entries(app, work, as_json=as_json, subjects=watched))
