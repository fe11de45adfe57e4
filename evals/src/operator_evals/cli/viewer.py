"""`operator eval viewer` and `report`: campaigns and trials as web pages."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from operator_protocols.errors import UsageError
from operator_sre.faces.cli.listeners import Serve, listens, option
from operator_sre.faces.cli.options import JsonOption, config_of
from operator_sre.faces.cli.output import clean, print_json, print_lines

__all__ = ["export_inspect", "register", "report", "viewer"]

DATABASE_HELP = "Read this file instead of eval.db in the home."
DatabaseOption = Annotated[Path | None, typer.Option("--database", help=DATABASE_HELP)]


def _load_viewer(context: typer.Context, *, database: Path | None) -> Serve:
    from operator_evals.viewer.server import serve

    return partial(serve, database=_database(context, database))


viewer = listens(
    _load_viewer,
    """Serve campaigns and trials to a browser until stopped.

    Requests from other machines need a token as the password; see: operator tokens create --help
    """,
    purpose="the evals viewer",
    at=8450,
    more=(option("database", Path | None, None, DATABASE_HELP),),
)


def register(app: typer.Typer) -> None:
    """Add the viewer and the report to `operator eval`."""
    app.command("viewer")(viewer)
    app.command("report")(report)


def report(
    context: typer.Context,
    campaign: Annotated[str, typer.Argument(help="Name of the campaign.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", help="The file to write; an existing file is replaced."),
    ] = None,
    only_misses: Annotated[
        bool, typer.Option("--only-misses", help="Include only trials that missed something.")
    ] = False,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write a campaign and its trials as one self-contained HTML page."""
    from operator_evals.gallery import Gallery
    from operator_evals.rendering import report_page
    from operator_sre.app.reports import write_report

    found = Gallery(_database(context, database)).campaign(campaign)
    text = report_page(found.recorded, found.analysis, found.known, only_misses=only_misses)
    # The name must not lead out of the current folder.
    fit = "".join(
        character if character.isalnum() or character in "-_" else "-" for character in campaign
    )
    file = output or Path(f"{fit.strip('-')[:100] or 'campaign'}.html")
    write_report(file, text)
    if as_json:
        print_json({"campaign": campaign, "file": str(file), "trials": len(found.known)})
    else:
        print_lines([clean(f"Wrote campaign {campaign} to {file}.")])


def export_inspect(database: Path, campaign: str, folder: Path) -> list[Path]:
    """Write the logs of a campaign for the inspect-ai viewer; return the files."""
    from operator_evals.gallery import Gallery
    from operator_evals.inspect_logs import write_logs

    found = Gallery(database).campaign(campaign)
    return write_logs(found.recorded, found.known, folder)


def _database(context: typer.Context, given: Path | None) -> Path:
    """The named database, which must exist; otherwise eval.db of the home."""
    from operator_evals.app.campaigns import database_path
    from operator_evals.database import open_database

    if given is not None and not given.is_file():
        raise UsageError(
            f"cannot open {str(given)!r}: no such file.",
            next_step="Pass an eval.db or a .jsonl file.",
        )
    path = database_path(config_of(context), given)
    if given is not None:
        with open_database(path):  # a file without trials fails now, not on every page
            pass
    return path
