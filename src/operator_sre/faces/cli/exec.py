"""`operator exec`: one command of a person, judged, permitted, bounded and recorded."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from operator_protocols.errors import UsageError
from operator_sre.faces.cli.options import JsonOption, config_of
from operator_sre.faces.cli.output import clean, print_json, print_lines
from operator_sre.faces.cli.running import run_until_stopped

if TYPE_CHECKING:
    from operator_protocols.domain.permit import Approval
    from operator_sre.app.executing import Executed, Wanted
    from operator_sre.config import Config

__all__ = ["exec_"]

SECONDS_MAX = 86_400


def exec_(
    context: typer.Context,
    command: Annotated[str, typer.Argument(help="One command line, quoted.")],
    subject: Annotated[str, typer.Option(help="What it is about; this machine by default.")] = "",
    target: Annotated[str, typer.Option(help="Which part of the subject.")] = "",
    cwd: Annotated[str, typer.Option(help="Where it runs; here by default.")] = "",
    timeout_s: Annotated[
        float, typer.Option(min=0.1, max=SECONDS_MAX, help="Seconds that it may take.")
    ] = 120.0,
    reason: Annotated[str, typer.Option(help="Why.")] = "",
    venv: Annotated[str, typer.Option(help="A virtual environment to run inside of.")] = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would happen.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Run a command on this machine as a mind would have it run: judged, permitted, recorded.

    Exit code: that of the command, 124 when it took too long; 3 when it may never run, 4 when it
    was not permitted.
    """
    from operator_sre.app.executing import Wanted

    place = Path(cwd).absolute()
    if not place.is_dir():
        raise UsageError(f"There is no directory {str(place)!r}.", next_step="Name one with --cwd.")
    config = _quiet(config_of(context))
    inside = str((place / venv).absolute()) if venv else ""
    wanted = Wanted(command, str(place), subject, target, timeout_s, reason, inside)
    if dry_run:
        _foresee(config, wanted, as_json=as_json)
        return
    executed = _execute(config, wanted, context.obj.home)
    if as_json:
        print_json(_document(executed))
    else:
        _tell(executed)
    raise typer.Exit(executed.exit_code)


def _quiet(config: Config) -> Config:
    """What is said on stderr is the command's, unless somebody asked for more."""
    from operator_sre.faces.cli.logs import set_up_logging

    if config.sources["log_level"] == "default":
        set_up_logging(style=config.values["log_format"], level="error")
    return config


def _foresee(config: Config, wanted: Wanted, *, as_json: bool) -> None:
    from operator_sre.app.executing import foresee_command
    from operator_sre.app.outlook import document_of, facts_of
    from operator_sre.app.wiring import look_at_app

    with look_at_app(config) as app:
        outlook = foresee_command(app, wanted)
    if as_json:
        print_json({**document_of(outlook), "ran": False})
        return
    facts = [(name, value) for name, value in facts_of(outlook) if value]
    print_lines([f"{name:9} {clean(value)}" for name, value in facts])


def _execute(config: Config, wanted: Wanted, home: str | None) -> Executed:
    from operator_sre.app.executing import execute_command
    from operator_sre.app.wiring import open_app

    here = f" --home {shlex.quote(home)}" if home else ""

    def asked(approval: Approval) -> None:
        _say(f"{approval.level}, risk {approval.risk}: {approval.explanation}")
        _say(f"It waits for: operator approvals approve {approval.id}{here}")
        _say("Ctrl-C takes the request back.")

    with open_app(config) as app:
        return run_until_stopped(execute_command(app, wanted, asked=asked))


def _document(executed: Executed) -> dict[str, object]:
    verdict, result = executed.verdict, executed.result
    return {
        "command": verdict.action.command,
        "level": verdict.level,
        "risk_level": verdict.risk,
        "ran": executed.ran,
        "exit_code": result.exit_code,
        "outcome": result.outcome,
        "stdout": result.stdout,
        "stderr": result.stderr,
        "truncated": result.truncated,
        "duration_s": result.duration_s,
        "seq": executed.seq,
        "explanation": executed.explanation,
    }


def _tell(executed: Executed) -> None:
    if not executed.ran:
        _say(executed.explanation)
        return
    _pass_on(executed.result.stdout, sys.stdout)
    _pass_on(executed.result.stderr, sys.stderr)
    if executed.result.truncated:
        _say(f"The output was cut. What is kept of it: operator audit show --seq {executed.seq}")
    if executed.result.outcome == "timed_out":
        _say(f"It took longer than {executed.verdict.action.timeout_s:g} s and was ended.")


def _pass_on(text: str, stream: TextIO) -> None:
    """As it is for programs; a terminal is told nothing that it would obey."""
    lines = text.split("\n")
    stream.write("\n".join(map(clean, lines)) if stream.isatty() else text)
    stream.flush()


def _say(sentence: str) -> None:
    sys.stderr.write(clean(f"operator: {sentence}") + "\n")
    sys.stderr.flush()
