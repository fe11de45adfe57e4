"""`operator config`: the effective settings."""

from __future__ import annotations

import typer

from operator_sre.faces.cli.options import JsonOption, config_of
from operator_sre.faces.cli.output import clean, print_json, print_lines, print_table

__all__ = ["app"]

app = typer.Typer(help="The effective settings.", no_args_is_help=True)


@app.callback()
def _noun() -> None:
    return None


@app.command()
def show(context: typer.Context, as_json: JsonOption = False) -> None:
    """Every setting, its value, and where it came from."""
    from operator_sre.config import SETTINGS

    config = config_of(context)
    rows = []
    for setting in SETTINGS:
        value = config.values[setting.name]
        shown = ("(set, hidden)" if value else "(not set)") if setting.secret else value
        rows.append((setting.name, shown, config.sources[setting.name], setting.meaning))
    subjects = {one.name: [target.name for target in one.targets] for one in config.subjects}
    if as_json:
        settings = [
            {"name": name, "value": value, "source": source} for name, value, source, _ in rows
        ]
        print_json({"settings": settings, "subjects": subjects})
        return
    print_table(("setting", "value", "source", "meaning"), rows)
    for name, targets in subjects.items():
        print_lines([clean(f"subject {name}: {', '.join(targets)}")])
