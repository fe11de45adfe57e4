"""The command `operator`: its nouns, and the one place where errors become sentences."""

from __future__ import annotations

import gc
import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, NoReturn

import typer

from operator_sre.faces.cli.contents import SENTENCES
from operator_sre.faces.cli.failures import report, reported
from operator_sre.faces.cli.options import Globals, hoist
from operator_sre.faces.cli.output import hush
from operator_sre.faces.cli.parsing import Verb, refuse_empty

__all__ = ["command_line", "main"]

# So many new objects before garbage is looked for. Loading makes them by the thousand, and none of
# them is garbage: looking after every 700, as Python does, takes a twentieth of a short command.
GARBAGE_MAX = 20_000
# In the order of the help. Only what is asked for is loaded, so that nobody waits for the others.
NOUNS = {
    "demo": "operator_sre.faces.cli.demo",
    "init": "operator_sre.faces.cli.init",
    "doctor": "operator_sre.faces.cli.doctor",
    "up": "operator_sre.faces.cli.up",
    "monitor": "operator_sre.faces.cli.monitor",
    "tui": "operator_sre.faces.cli.tui",
    "agent": "operator_sre.faces.cli.agent",
    "workers": "operator_sre.faces.cli.workers",
    "health": "operator_sre.faces.cli.health",
    "subjects": "operator_sre.faces.cli.subjects",
    "silences": "operator_sre.faces.cli.silences",
    "tickets": "operator_sre.faces.cli.tickets",
    "report": "operator_sre.faces.cli.report",
    "alerts": "operator_sre.faces.cli.alerts",
    "notify": "operator_sre.faces.cli.notify",
    "approvals": "operator_sre.faces.cli.approvals",
    "confirmations": "operator_sre.faces.cli.confirmations",
    "audit": "operator_sre.faces.cli.audit",
    "validate": "operator_sre.faces.cli.answers",
    "summarize": "operator_sre.faces.cli.answers",
    "explain-failure": "operator_sre.faces.cli.answers",
    "explain-denial": "operator_sre.faces.cli.answers",
    "recommend-patch": "operator_sre.faces.cli.answers",
    "timeline": "operator_sre.faces.cli.answers",
    "next-action": "operator_sre.faces.cli.answers",
    "history": "operator_sre.faces.cli.history",
    "exec": "operator_sre.faces.cli.exec",
    "tools": "operator_sre.faces.cli.tools",
    "workflows": "operator_sre.faces.cli.workflows",
    "hub": "operator_sre.faces.cli.hub",
    "gate": "operator_sre.faces.cli.gate",
    "policy": "operator_sre.faces.cli.policy",
    "models": "operator_sre.faces.cli.models",
    "mode": "operator_sre.faces.cli.mode",
    "session": "operator_sre.faces.cli.session",
    "limits": "operator_sre.faces.cli.limits",
    "kill-switch": "operator_sre.faces.cli.kill_switch",
    "lab": "operator_sre.faces.cli.lab",
    "deploy": "operator_sre.faces.cli.deploy",
    "eval": "operator_sre.faces.cli.evals",
    "store": "operator_sre.faces.cli.store",
    "redact": "operator_sre.faces.cli.redact",
    "system": "operator_sre.faces.cli.system",
    "serve": "operator_sre.faces.cli.serve",
    "web": "operator_sre.faces.cli.web",
    "mcp": "operator_sre.faces.cli.mcp",
    "porter": "operator_sre.faces.cli.porter",
    "telemetry": "operator_sre.faces.cli.telemetry",
    "tokens": "operator_sre.faces.cli.tokens",
    "secrets": "operator_sre.faces.cli.secrets",
    "pack": "operator_sre.faces.cli.pack",
    "install": "operator_sre.faces.cli.pack",
    "config": "operator_sre.faces.cli.config",
    "completion": "operator_sre.faces.cli.completion",
}


def command_line(words: Sequence[str] = (), *, outline: bool = False) -> typer.Typer:
    """The nouns among these words, or all there are; as an `outline`, only with their sentences."""
    app = typer.Typer(
        name="operator",
        help="Watches distributed systems, says what broke and why, and repairs it, with proof.",
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        add_completion=False,
    )
    app.callback()(_globals)
    named = [noun for noun in NOUNS if noun in words]
    for noun in named or NOUNS:
        if outline and not named and noun in SENTENCES:
            app.command(noun, help=SENTENCES[noun])(_nothing)
            continue
        module = import_module(NOUNS[noun])
        if hasattr(module, "app"):
            _be_strict(module.app)
            app.add_typer(module.app, name=noun)
        else:
            # `exec` is a word of Python's own, so that its function has another name.
            name = noun.replace("-", "_")
            run = getattr(module, name, None) or getattr(module, f"{name}_")
            app.command(noun, cls=Verb)(run)
    return app


def _nothing() -> None:
    """What an outline has in the place of a command."""


def _be_strict(noun: typer.Typer) -> None:
    for verb in noun.registered_commands:
        verb.cls = Verb
    for inner in noun.registered_groups:
        if inner.typer_instance is not None:
            _be_strict(inner.typer_instance)


def _version(wanted: bool) -> None:
    if wanted:
        from operator_sre import __version__

        typer.echo(f"operator {__version__}")
        raise typer.Exit


def _globals(
    context: typer.Context,
    home: Annotated[str | None, typer.Option(help="Where state lives.")] = None,
    store_url: Annotated[
        str | None, typer.Option("--store", help="A postgresql:// URL instead of a file.")
    ] = None,
    mode: Annotated[str | None, typer.Option(help="observe, approve or execute.")] = None,
    log_format: Annotated[str | None, typer.Option(help="text or json, on stderr.")] = None,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning, error.")] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Tell people only errors; the exit code answers.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it.")
    ] = False,
) -> None:
    valued = {"home": home, "store": store_url, "mode": mode}
    for name, value in {**valued, "log-format": log_format, "log-level": log_level}.items():
        refuse_empty(f"--{name}", value)
    context.obj = Globals(
        home=home,
        store=store_url,
        mode=mode,
        log_format=log_format,
        log_level=log_level,
        debug=debug,
        quiet=quiet,
    )
    hush(quiet=quiet)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and leave with its exit code. No traceback without --debug."""
    gc.set_threshold(GARBAGE_MAX)
    given = list(sys.argv[1:] if arguments is None else arguments)
    as_json, debug = "--json" in given, "--debug" in given
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A path need not be text, and a terminal need not know every letter: shown, never fatal.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        # Whoever names no noun wants the help, the version, or has mistyped one.
        run = command_line(given, outline=True)
        code = run(hoist(given), standalone_mode=False, prog_name="operator")
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
