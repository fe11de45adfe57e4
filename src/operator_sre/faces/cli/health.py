"""`operator health`: how everything is, on one screen."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from operator_sre.app.health import show_health
from operator_sre.faces.cli.noun import show
from operator_sre.faces.cli.options import JsonOption, open_home
from operator_sre.faces.cli.output import print_json
from operator_sre.faces.cli.signals import run_until_stopped
from operator_sre.operations.health import health_lines

if TYPE_CHECKING:
    from operator_sre.app.health import HealthView
    from operator_sre.app.wiring import App

__all__ = ["health"]

WATCH_S = 2.0
CLEAR = "\x1b[H\x1b[2J"


def health(
    context: typer.Context,
    watch: Annotated[
        bool, typer.Option("--watch", help="Refresh every two seconds until stopped.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Show the health of every subject, the worst first.

    Exit code 0 when every subject is watched and healthy or silenced, else 1.
    """

    async def follow(app: App) -> None:
        while True:
            view = show_health(app)
            if sys.stdout.isatty() and not as_json:
                sys.stdout.write(CLEAR)
            _show(view, as_json=as_json, line=True)
            await asyncio.sleep(WATCH_S)

    with open_home(context) as app:
        if watch:
            run_until_stopped(follow(app))
            return
        view = show_health(app)
    _show(view, as_json=as_json, line=False)
    raise typer.Exit(0 if view.fine else 1)


def _show(view: HealthView, *, as_json: bool, line: bool) -> None:
    if as_json:
        print_json({"health": view}, line=line)
    else:
        show(health_lines(view))
