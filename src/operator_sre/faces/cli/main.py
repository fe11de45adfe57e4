"""The command `operator`: its nouns, and the one place where errors become sentences."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from typing import Annotated, NoReturn

import typer

from operator_sre.faces.cli import (
    agent,
    approvals,
    audit,
    config,
    demo,
    gate,
    history,
    lab,
    monitor,
    redact,
    store,
    tickets,
    up,
)
from operator_sre.faces.cli.failures import report, reported
from operator_sre.faces.cli.options import Globals, hoist

__all__ = ["app", "main"]

app = typer.Typer(
    name="operator",
    help="Watches distributed systems, says what broke and why, and repairs it, with proof.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.command("demo")(demo.demo)
app.command("up")(up.up)
app.add_typer(monitor.app, name="monitor")
app.add_typer(agent.app, name="agent")
app.add_typer(tickets.app, name="tickets")
app.add_typer(approvals.app, name="approvals")
app.add_typer(audit.app, name="audit")
app.add_typer(history.app, name="history")
app.add_typer(gate.app, name="gate")
app.add_typer(lab.app, name="lab")
app.add_typer(store.app, name="store")
app.command("redact")(redact.redact)
app.add_typer(config.app, name="config")


def _version(wanted: bool) -> None:
    if wanted:
        from operator_sre import __version__

        typer.echo(f"operator {__version__}")
        raise typer.Exit


@app.callback()
def _globals(
    context: typer.Context,
    home: Annotated[str | None, typer.Option(help="Where state lives.")] = None,
    store_url: Annotated[
        str | None, typer.Option("--store", help="A postgresql:// URL instead of a file.")
    ] = None,
    mode: Annotated[str | None, typer.Option(help="observe, approve or execute.")] = None,
    log_format: Annotated[str | None, typer.Option(help="text or json, on stderr.")] = None,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning, error.")] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it.")
    ] = False,
) -> None:
    context.obj = Globals(
        home=home,
        store=store_url,
        mode=mode,
        log_format=log_format,
        log_level=log_level,
        debug=debug,
    )


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and leave with its exit code. No traceback without --debug."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    as_json, debug = "--json" in given, "--debug" in given
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A path need not be text, and a terminal need not know every letter: shown, never fatal.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code = app(hoist(given), standalone_mode=False, prog_name="operator")
    except reported() as error:
        if debug:
            raise
        code = report(error, as_json=as_json)
    _leave(code if isinstance(code, int) else 0)


def _leave(code: int) -> NoReturn:
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader went away (`| head`); Python must not complain about it on its way out.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)
