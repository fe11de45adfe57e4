"""`operator init`: a project folder, ready to be filled."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from operator_sre.faces.cli.options import JsonOption
from operator_sre.faces.cli.output import clean, print_json, print_lines

__all__ = ["init"]


def init(
    directory: Annotated[Path, typer.Argument(help="Where; the current folder if none.")] = Path(),
    as_json: JsonOption = False,
) -> None:
    """Make a project: settings, a policy and a first subject. Overwrites nothing."""
    from operator_sre.app.project import init_project

    made = init_project(directory)
    if as_json:
        print_json({"project": made})
        return
    print_lines([clean(f"wrote   {made.folder}/{name}") for name in made.written])
    print_lines([clean(f"kept    {made.folder}/{name} as it was") for name in made.kept])
    print_lines(
        [
            "next    say in subjects/example.yaml what your system is, and try it:",
            "        operator subjects test subjects/example.yaml",
            "        then take the marks away in operator.toml, and see whether all is ready:",
            "        operator validate",
        ]
    )
