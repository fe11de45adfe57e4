"""`operator eval viewer` and `report`: campaigns and trials as web pages."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from operator_protocols.errors import UsageError
from operator_sre.faces.cli.consent import ConfirmationOption, ProposeOption, YesOption
from operator_sre.faces.cli.listeners import (
    CertificateOption,
    HostsOption,
    InsecureOption,
    KeyOption,
    RateOption,
    listen,
)
from operator_sre.faces.cli.options import JsonOption, config_of
from operator_sre.faces.cli.output import clean, print_json, print_lines

if TYPE_CHECKING:
    from operator_sre.app.listeners import Listener
    from operator_sre.app.wiring import App

__all__ = ["export_inspect", "register", "report", "viewer"]

DatabaseOption = Annotated[
    Path | None, typer.Option("--database", help="Read this file instead of eval.db in the home.")
]


def register(app: typer.Typer) -> None:
    """Add the viewer and the report to `operator eval`."""
    app.command("viewer")(viewer)
    app.command("report")(report)


def viewer(
    context: typer.Context,
    bind: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="The port; 0 picks a free one.")
    ] = 8450,
    database: DatabaseOption = None,
    tls_cert: CertificateOption = None,
    tls_key: KeyOption = None,
    host: HostsOption = None,
    rate: RateOption = 100,
    insecure_public: InsecureOption = False,
    yes: YesOption = False,
    propose: ProposeOption = False,
    confirmation: ConfirmationOption = "",
    as_json: JsonOption = False,
) -> None:
    """Serve campaigns and trials to a browser until stopped.

    Requests from other machines need a token as the password; see: operator tokens create --help
    """
    from operator_evals.viewer.server import serve
    from operator_sre.app.listeners import Listener

    place = _database(context, database)

    def serve_it(
        home: App, listener: Listener, *, ready: Callable[[str], None]
    ) -> Coroutine[Any, Any, None]:
        return serve(home, listener, database=place, ready=ready)

    listener = Listener(
        bind, port, tls_cert, tls_key, tuple(host or ()), rate, insecure=insecure_public
    )
    listen(
        context,
        listener,
        serve_it,
        purpose="the evals viewer",
        yes=yes,
        propose=propose,
        given=confirmation,
        as_json=as_json,
    )


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
