"""`operator up`: monitor and agent in one process."""

from __future__ import annotations

import typer

from operator_sre.faces.cli.options import SubjectsOption, opened
from operator_sre.faces.cli.running import run_until_stopped

__all__ = ["up"]


def up(
    context: typer.Context, subject: SubjectsOption = None, interval_s: str | None = None
) -> None:
    """Watch and work until stopped. Changes nothing unless --mode says so."""
    from operator_sre.app import service

    with opened(context, interval_s=interval_s) as app:
        run_until_stopped(service.up(app, subject or []))
