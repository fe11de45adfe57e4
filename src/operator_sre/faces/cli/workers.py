"""`operator workers`: many processes on many machines that work on the tickets of one store."""

from __future__ import annotations

from typing import Annotated

import typer

from operator_sre.faces.cli.options import IntervalOption, JsonLinesOption, JsonOption, open_home
from operator_sre.faces.cli.output import print_list
from operator_sre.faces.cli.signals import run_until_stopped
from operator_sre.faces.cli.story import with_entries

__all__ = ["app"]

app = typer.Typer(help="Run workers that share tickets.", no_args_is_help=True)


@app.command()
def run(
    context: typer.Context,
    engine: Annotated[
        str, typer.Option(help="local, or dbos for several machines that share one PostgreSQL.")
    ] = "local",
    name: Annotated[str, typer.Option(help="The worker name; the host name by default.")] = "",
    interval_s: IntervalOption = None,
    as_json: JsonLinesOption = False,
) -> None:
    """Work on the tickets of this store until stopped. Changes nothing unless --mode allows it."""
    from operator_sre.app.service import run_worker

    with open_home(context, interval_s=interval_s) as app:
        working = run_worker(app, engine=engine, name=name)
        run_until_stopped(with_entries(app, working, as_json=as_json))


@app.command("list")
def list_(context: typer.Context, as_json: JsonOption = False) -> None:
    """List workers: host, start time and current ticket."""
    from operator_sre.app.listeners import list_workers

    with open_home(context) as app:
        found = list_workers(app)
    rows = [
        (
            row.worker.name,
            row.worker.host,
            row.worker.pid,
            row.worker.engine,
            row.worker.role,
            f"{row.worker.started_at:%m-%d %H:%M:%S}",
            f"{row.worker.at:%m-%d %H:%M:%S}" + ("" if row.speaks else " (silent)"),
            ", ".join(f"ticket {number}" for number in row.tickets) or "-",
        )
        for row in found
    ]
    head = ("name", "host", "pid", "engine", "role", "since", "last seen", "working on")
    print_list(
        "workers",
        found,
        head,
        rows,
        none="No workers. Start one with: operator workers run",
        as_json=as_json,
    )
