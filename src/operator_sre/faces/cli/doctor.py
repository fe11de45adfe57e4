"""`operator doctor`: whether this machine is fit, and what to do where it is not."""

from __future__ import annotations

import typer

from operator_sre.faces.cli.options import JsonOption, config_of
from operator_sre.faces.cli.output import clean, print_json, print_lines, print_table
from operator_sre.faces.cli.progress import waiting

__all__ = ["doctor"]


def doctor(context: typer.Context, as_json: JsonOption = False) -> None:
    """Is this machine fit? Each finding with its fix; exit 1 when something fails.

    It changes nothing, and what is merely absent is a note.
    """
    from operator_sre.app.doctor import examine

    config = config_of(context)
    with waiting("looking at this machine"):
        found = examine(config)
    healthy = not any(one.state == "failed" for one in found)
    if as_json:
        print_json({"healthy": healthy, "findings": found})
    else:
        print_table(("", "what", "found"), [(one.state, one.name, one.found) for one in found])
        fixes = [one for one in found if one.fix]
        if fixes:
            print_lines(["", "What to do:"])
            print_lines([clean(f"  {one.name}: {one.fix}") for one in fixes])
    raise typer.Exit(0 if healthy else 1)
