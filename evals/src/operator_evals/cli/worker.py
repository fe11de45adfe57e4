"""`operator eval work`: run trials of campaigns that are led from another machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from operator_sre.faces.cli.options import config_of
from operator_sre.faces.cli.output import clean, print_json, print_lines
from operator_sre.faces.cli.signals import run_until_stopped

if TYPE_CHECKING:
    from operator_evals.app.worker import Did

__all__ = ["register", "work"]

PARALLEL_MAX = 64


def register(app: typer.Typer) -> None:
    """Add the worker to `operator eval`."""
    app.command("work")(work)


def work(
    context: typer.Context,
    parallel: Annotated[
        int, typer.Option(min=1, max=PARALLEL_MAX, help="Trials that run at the same time.")
    ] = 1,
    name: Annotated[str, typer.Option(help="Name of the worker. Default: the host name.")] = "",
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document per trial.")
    ] = False,
) -> None:
    """Run trials of campaigns that another machine leads, until stopped.

    Worker and leader share a store in PostgreSQL: see `operator eval run --engine dbos`. Run one
    worker per machine, because some trials need the machine to themselves. Models and their keys
    come from this home. Anyone who can write to the store decides which trials run here.
    """
    from operator_evals.app.worker import take_trials
    from operator_lab.cli.demo import this_program

    config = config_of(context, log_level="error")

    def tell(did: Did) -> None:
        if as_json:
            print_json({"did": did}, line=True)
        else:
            print_lines([clean(f"{did.campaign} {did.trial} {did.state} {did.why}".rstrip())])

    working = take_trials(config, command=this_program(), at_once=parallel, name=name, tell=tell)
    run_until_stopped(working)
