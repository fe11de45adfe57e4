"""`operator system`: what a command would find here."""

from __future__ import annotations

import os
from dataclasses import asdict

import typer

from operator_sre.faces.cli.options import JsonOption
from operator_sre.faces.cli.output import clean, print_json, print_lines

__all__ = ["app"]

app = typer.Typer(help="Show the environment that commands run in.", no_args_is_help=True)


# Without it a noun with a single verb would be taken for the verb itself.
@app.callback()
def _noun() -> None: ...


@app.command()
def state(as_json: JsonOption = False) -> None:
    """Show the host, user and Python of this system."""
    from operator_sre.app.system import system_state

    facts = asdict(system_state(os.environ))
    if as_json:
        print_json(facts)
        return
    for name, value in facts.items():
        text = {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value) or "-"
        print_lines([f"{name:18} {clean(text)}"])
