"""`operator config`: the effective settings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from operator_protocols.errors import NotFoundError
from operator_sre.faces.cli.options import JsonOption, config_at
from operator_sre.faces.cli.output import clean, print_json, print_lines, print_table

__all__ = ["app"]

app = typer.Typer(help="Show and trust settings.", no_args_is_help=True)


@app.callback()
def _noun() -> None:
    return None


@app.command()
def show(context: typer.Context, as_json: JsonOption = False) -> None:
    """Show every setting with its value and source."""
    from operator_sre.config import SETTINGS

    config = config_at(context, Path.cwd())
    rows = []
    for setting in SETTINGS:
        value = config.values[setting.name]
        shown = ("(set, hidden)" if value else "(not set)") if setting.secret else value
        rows.append((setting.name, shown, config.sources[setting.name], setting.meaning))
    subjects = {
        subject.name: [target.name for target in subject.targets] for subject in config.subjects
    }
    if as_json:
        settings = [
            {"name": name, "value": value, "source": source} for name, value, source, _ in rows
        ]
        print_json({"settings": settings, "subjects": subjects})
        return
    shown_rows = [
        (name, value if value == "(set, hidden)" else config.written[name] or "-", source, meaning)
        for name, value, source, meaning in rows
    ]
    print_table(("setting", "value", "source", "meaning"), shown_rows)
    for name, targets in subjects.items():
        print_lines([clean(f"subject {name}: {', '.join(targets)}")])


@app.command()
def trust(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="The operator.toml file.")],
    as_json: JsonOption = False,
) -> None:
    """Trust a settings file for the directories below it, until it changes."""
    from operator_sre.app.config_trust import keep_trust, record_trust
    from operator_sre.app.wiring import open_app
    from operator_sre.faces.cli.signals import run_until_stopped

    path = file.absolute()
    if path.name != "operator.toml" or not path.is_file():
        raise NotFoundError(
            f"There are no settings at {str(file)!r}.", next_step="Name a file operator.toml."
        )
    config = config_at(context, path.parent)
    found = keep_trust(config)
    with open_app(config) as home:
        run_until_stopped(record_trust(home, found))
    if as_json:
        document = {"file": str(found.file), "sha256": found.digest, "reasons": list(found.reasons)}
        print_json({"trusted": document})
        return
    reasons = found.reasons or ("it lets nothing run by itself",)
    print_lines([clean(f"Trusted {found.file}: {'; '.join(reasons)}.")])
