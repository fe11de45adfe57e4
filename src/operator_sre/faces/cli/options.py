"""Options that every command has, wherever on the line they stand."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from operator_sre.app.wiring import App
    from operator_sre.config import Config

__all__ = [
    "NUMBER_MAX",
    "Globals",
    "JsonOption",
    "ReasonOption",
    "SubjectsOption",
    "TellOption",
    "config_at",
    "config_of",
    "hoist",
    "keep_quiet",
    "open_home",
]

NUMBER_MAX = 2**63 - 1  # what a database can count to
AllOption = Annotated[
    bool, typer.Option("--all", help="All subjects, including those added while it runs.")
]
JsonLinesOption = Annotated[
    bool, typer.Option("--json", help="Print each new entry as a JSON document on its own line.")
]
IntervalOption = Annotated[str | None, typer.Option("--interval-s", help="Seconds between checks.")]
MetricsOption = Annotated[
    str | None,
    typer.Option(
        "--metrics", help="Serve Prometheus metrics at this address, such as 127.0.0.1:9464."
    ),
]
ModelOption = Annotated[
    str | None,
    typer.Option("--model", help="The model to diagnose with; see: operator models list."),
]
ReasonOption = Annotated[str, typer.Option(help="Recorded in the audit log.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
TellOption = Annotated[
    bool, typer.Option("--tell", help="Print a line on stdout for everything it does.")
]
SubjectsOption = Annotated[
    list[str] | None, typer.Option("--subject", help="A subject; may be repeated.")
]
_VALUED = ("--home", "--store", "--mode", "--log-format", "--log-level")
_PLAIN = ("--debug", "--quiet")


@dataclass(frozen=True, slots=True)
class Globals:
    """The global options of the command line."""

    home: str | None
    store: str | None
    mode: str | None
    log_format: str | None
    log_level: str | None
    debug: bool
    quiet: bool = False


def hoist(arguments: Sequence[str]) -> list[str]:
    """The line with global options in front, where the parser wants them."""
    front: list[str] = []
    rest: list[str] = []
    words = list(arguments)
    while words:
        word = words.pop(0)
        if word == "--":
            rest += [word, *words]
            break
        if word in _VALUED and words:
            front += [word, words.pop(0)]
        elif word in _PLAIN or word.startswith(tuple(f"{name}=" for name in _VALUED)):
            front.append(word)
        else:
            rest.append(word)
    return front + rest


def config_of(context: typer.Context, **flags: str | None) -> Config:
    """The effective settings of this call; logging follows them.

    A file above the current folder must be confirmed by a person first.
    """
    config = config_at(context, Path.cwd(), **flags)
    if config.file is not None and config.file.parent != Path.cwd():
        _ask_to_trust(config)
    return config


def config_at(context: typer.Context, folder: Path, **flags: str | None) -> Config:
    """The settings as they are in a folder, confirmed by a person or not."""
    from operator_sre.config import load_config
    from operator_sre.faces.cli.logs import set_up_logging

    options: Globals = context.obj
    config = load_config(
        flags={
            "home": options.home,
            "store": options.store,
            "mode": options.mode,
            "log_format": options.log_format,
            "log_level": options.log_level or ("error" if options.quiet else None),
            **flags,
        },
        environ=os.environ,
        cwd=folder,
    )
    home = config.home
    there = next((place for place in (home, *home.parents) if os.path.lexists(place)), home)
    if os.path.lexists(there) and not os.path.isdir(there):  # noqa: PTH112 - it never raises
        from operator_protocols.errors import UsageError

        raise UsageError(
            f"The home {str(home)!r} cannot be used: {str(there)!r} is not a directory.",
            next_step="Name another one with --home DIR or OPERATOR_HOME.",
        )
    set_up_logging(style=config.values["log_format"], level=config.values["log_level"])
    return config


def _ask_to_trust(config: Config) -> None:
    """Ask a person on a terminal; ConfigError without a terminal, or when they refuse."""
    from operator_sre.app.config_trust import (
        find_unconfirmed,
        keep_trust,
        must_be_confirmed,
        record_trust,
    )
    from operator_sre.app.wiring import open_app
    from operator_sre.faces.cli.output import clean
    from operator_sre.faces.cli.signals import run_until_stopped

    found = find_unconfirmed(config, Path.cwd())
    if found is None:
        return
    if sys.stdin.isatty() and sys.stderr.isatty():
        sys.stderr.write(clean(f"operator: {found.sentence}") + "\nTrust it? [y/N] ")
        sys.stderr.flush()
        if sys.stdin.readline().strip().lower() in {"y", "yes"}:
            kept = keep_trust(config)
            with open_app(config) as app:
                run_until_stopped(record_trust(app, kept))
            return
    must_be_confirmed(config, Path.cwd())


def keep_quiet(config: Config) -> Config:
    """Log only errors, so that stderr belongs to the command, unless a log level was set."""
    from operator_sre.faces.cli.logs import set_up_logging

    if config.sources["log_level"] == "default":
        set_up_logging(style=config.values["log_format"], level="error")
    return config


@contextmanager
def open_home(context: typer.Context, *, looks: bool = False, **flags: str | None) -> Iterator[App]:
    """The operator home of this call for the length of a `with`; `looks` creates none."""
    from operator_sre.app.wiring import look_at_app, open_app

    with (look_at_app if looks else open_app)(config_of(context, **flags)) as app:
        yield app
