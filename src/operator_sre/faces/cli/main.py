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

from operator_protocols.errors import MissingExtraError
from operator_sre.faces.cli.contents import EXTRAS, NOUNS, SENTENCES
from operator_sre.faces.cli.options import Globals, hoist
from operator_sre.faces.cli.output import hush
from operator_sre.faces.cli.parser import Verb, errors_to_report, refuse_empty, report

__all__ = ["command_line", "main"]

# So many new objects before a garbage collection. Imports create thousands, and none of them is
# garbage: collecting after every 700, Python's default, takes 5 % of a short command.
GARBAGE_MAX = 20_000


def command_line(words: Sequence[str] = (), *, outline: bool = False) -> typer.Typer:
    """The nouns among these words, or all of them; as an `outline`, only with their sentences."""
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
            app.command(noun, cls=Verb, help=SENTENCES[noun])(_nothing)
            continue
        try:
            module = import_module(NOUNS[noun])
        except ModuleNotFoundError as error:
            if error.name != NOUNS[noun].partition(".")[0] or noun not in EXTRAS:
                raise
            _add_missing(app, noun)
            continue
        if hasattr(module, "OPERATIONS"):
            from operator_sre.faces.cli.noun import command_of, noun_of

            alone = [
                operation
                for operation in module.OPERATIONS
                if operation.is_command and operation.name == noun
            ]
            if alone:
                app.command(noun, cls=Verb)(command_of(alone[0]))
                continue
            own = noun_of(module, words)
            _be_strict(own)
            app.add_typer(own, name=noun)
        elif hasattr(module, "app"):
            _be_strict(module.app)
            app.add_typer(module.app, name=noun)
        else:
            # `exec` is a word of Python's own, so that its function has another name.
            name = noun.replace("-", "_")
            run = getattr(module, name, None) or getattr(module, f"{name}_")
            app.command(noun, cls=Verb)(run)
    return app


def _add_missing(app: typer.Typer, noun: str) -> None:
    """Add a noun whose distribution is not installed; any use of it names the extra."""

    def refuse() -> NoReturn:
        raise MissingExtraError(EXTRAS[noun], needed_for=f"operator {noun}")

    app.command(
        noun,
        cls=Verb,
        help=SENTENCES[noun],
        add_help_option=False,
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    )(refuse)


def _nothing() -> None:
    """Stand in for a command in an outline."""


def _be_strict(noun: typer.Typer) -> None:
    for verb in noun.registered_commands:
        verb.cls = Verb
    for inner in noun.registered_groups:
        if inner.typer_instance is not None:
            _be_strict(inner.typer_instance)


def _version(wanted: bool) -> None:
    if wanted:
        from operator_sre.release import describe_version

        typer.echo(f"operator {describe_version()}")
        raise typer.Exit


def _globals(
    context: typer.Context,
    home: Annotated[
        str | None, typer.Option(help="The directory that holds Operator's state.")
    ] = None,
    store_url: Annotated[
        str | None,
        typer.Option("--store", help="Store state in PostgreSQL at this URL instead of in a file."),
    ] = None,
    mode: Annotated[
        str | None, typer.Option(help="What may run: observe, approve or execute.")
    ] = None,
    log_format: Annotated[
        str | None, typer.Option(help="Log format on stderr: text or json.")
    ] = None,
    log_level: Annotated[
        str | None, typer.Option(help="Log level: debug, info, warning or error.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print only errors.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks on errors.")] = False,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Print version and commit."
        ),
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
        # A line without a noun asks for the help or the version, or has a typo.
        run = command_line(given, outline=True)
        code = run(hoist(given), standalone_mode=False, prog_name="operator")
    except errors_to_report() as error:
        if debug:
            raise
        at = given.index("--contract") + 1 if "--contract" in given else len(given)
        code = report(error, as_json=as_json, contract=next(iter(given[at:]), ""))
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader went away (`| head`); Python must not complain about it on its way out.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code if isinstance(code, int) else 0)
