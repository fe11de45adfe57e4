"""`operator exec`: one command of a person, judged, permitted, bounded and recorded."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from operator_protocols.domain.action import Urgency
from operator_protocols.errors import UsageError
from operator_sre.faces.cli.options import JsonOption, ReasonOption, config_of, keep_quiet
from operator_sre.faces.cli.output import print_facts, print_json
from operator_sre.faces.cli.progress import Screen
from operator_sre.faces.cli.signals import run_until_stopped

if TYPE_CHECKING:
    from operator_protocols.domain.permit import Approval
    from operator_sre.app.commands import Execution, Wanted
    from operator_sre.app.wiring import App
    from operator_sre.config import Config

__all__ = ["WaitOption", "document", "exec_", "execute", "foresee", "patience"]

SECONDS_MAX = 600
TIMEOUT_HELP = "Timeout in seconds. Default: the setting command_s."
TimeoutOption = Annotated[float | None, typer.Option(min=0.1, max=SECONDS_MAX, help=TIMEOUT_HELP)]
NOBODY_READS_S = 0.5


WaitOption = Annotated[
    float | None,
    typer.Option(
        min=0,
        max=86_400,
        help="Seconds to wait for approval; by default until the request expires, and 0 without"
        " a terminal.",
    ),
]


def patience(wait: float | None) -> float | None:
    """How long to wait for approval: as requested; without a terminal, not at all by default."""
    if wait is None and not (sys.stdin.isatty() or sys.stderr.isatty()):
        return 0.0
    return wait


def exec_(
    context: typer.Context,
    command: Annotated[
        list[str], typer.Argument(help="One quoted command line, or -- followed by its words.")
    ],
    subject: Annotated[
        str, typer.Option(help="The subject it acts on; this machine by default.")
    ] = "",
    target: Annotated[str, typer.Option(help="The target within the subject.")] = "",
    cwd: Annotated[
        str, typer.Option(help="The working directory; the current one by default.")
    ] = "",
    timeout_s: TimeoutOption = None,
    reason: ReasonOption = "",
    venv: Annotated[str, typer.Option(help="Run inside this virtual environment.")] = "",
    passes: Annotated[
        list[str] | None,
        typer.Option(
            "--pass-env", help="Pass this environment variable to the command; may be repeated."
        ),
    ] = None,
    urgency: Annotated[Urgency, typer.Option(help="Shown to approvers.")] = Urgency.SOON,
    at: Annotated[
        str,
        typer.Option(
            help="Run later: +10m or 2026-11-15T18:00Z. A running agent executes it then."
        ),
    ] = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would happen, without running it.")
    ] = False,
    wait: WaitOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run a command through the gate: judged, permitted and recorded.

    The exit code is that of the command; 124 on timeout, 3 if the policy blocks it, 4 if it was not
    approved, 130 if you stopped it with Ctrl-C. Without a terminal it does not wait for approval.
    """
    from operator_sre.app.commands import Wanted
    from operator_sre.app.system import venv_warnings

    place = _check_folder(cwd)
    config = keep_quiet(config_of(context))
    wanted = Wanted(
        command[0] if len(command) == 1 else shlex.join(command),
        cwd=str(place),
        subject=subject,
        target=target,
        timeout_s=timeout_s or config.number("command_s"),
        reason=reason,
        venv=str((place / venv).absolute()) if venv else "",
        passes=_check_variables(passes or []),
        urgency=urgency,
    )
    warnings = venv_warnings(wanted.command, cwd=wanted.cwd, venv=wanted.venv, environ=os.environ)
    if dry_run:
        foresee(config, wanted, warnings, as_json=as_json)
        return
    if at:
        _schedule(config, wanted, at, as_json=as_json)
        return
    here = f" --home {shlex.quote(context.obj.home)}" if context.obj.home else ""
    shown = () if as_json else warnings
    executed = execute(config, wanted, shown, here, live=not as_json, wait_s=patience(wait))
    if as_json:
        print_json({**document(executed), "warnings": warnings})
    raise typer.Exit(executed.exit_code)


def _schedule(config: Config, wanted: Wanted, at: str, *, as_json: bool) -> None:
    from operator_protocols.domain.workflow import Origin
    from operator_sre.app.wiring import open_app
    from operator_sre.app.workflows import (
        add_workflow,
        command_workflow,
        foresee_workflow,
        moment_of,
    )
    from operator_sre.faces.cli.noun import show
    from operator_sre.operations.workflows import ScheduledWorkflow, scheduled_view

    with open_app(config) as app:
        workflow = command_workflow(wanted.action, subject=wanted.subject)
        moment = moment_of(at, app.clock.now())
        steps = foresee_workflow(app, workflow)
        work = add_workflow(app, workflow, at=moment, origin=Origin.COMMAND)
        record = run_until_stopped(work)
    if as_json:
        print_json({"workflow": record, "steps": steps})
    else:
        show(scheduled_view(ScheduledWorkflow(record, steps)))


def foresee(config: Config, wanted: Wanted, warnings: tuple[str, ...], *, as_json: bool) -> None:
    """Show what would happen, without running it."""
    from operator_sre.app.commands import foresee_command
    from operator_sre.app.outlook import document_of, facts_of
    from operator_sre.app.wiring import look_at_app

    with look_at_app(config) as app:
        outlook = foresee_command(app, wanted)
    if as_json:
        print_json({**document_of(outlook), "ran": False, "warnings": warnings})
        return
    facts = [(name, value) for name, value in facts_of(outlook) if value]
    facts += [("warning", warning) for warning in warnings]
    print_facts(facts)


def execute(
    config: Config,
    wanted: Wanted,
    warnings: tuple[str, ...],
    here: str,
    *,
    live: bool,
    wait_s: float | None = None,
) -> Execution:
    """Run the command and show its output while it runs."""
    from operator_sre.app.commands import execute_command
    from operator_sre.app.wiring import open_app

    began: list[str] = []
    works: list[asyncio.Task[Execution]] = []

    def stop_watching() -> None:
        # Wait a moment: a command that is just ending must not be reported as stopped.
        asyncio.get_running_loop().call_later(NOBODY_READS_S, works[0].cancel)

    screen = Screen(stop_watching)

    def announce(approval: Approval) -> None:
        screen.say(f"{approval.level}, risk {approval.risk}: {approval.explanation}")
        if wait_s == 0:
            return  # what it says at its end is how to approve it
        screen.say(
            f"Pending approval. Approve it with: operator approvals approve {approval.id}{here}"
        )
        screen.say("Ctrl-C withdraws the request.")

    async def work(app: App) -> Execution:
        watch = screen.show if live else None
        doing = execute_command(
            app, wanted, on_request=announce, watch=watch, began=began.append, wait_s=wait_s
        )
        works.append(asyncio.ensure_future(doing))
        try:
            return await works[0]
        except asyncio.CancelledError:
            state = "the command was stopped and may have partly run"
            screen.say(
                f"Cancelled: {state if began else 'nothing ran, and the request was withdrawn'}."
            )
            raise

    for warning in warnings:
        screen.say(warning)
    with open_app(config) as app:
        executed = run_until_stopped(work(app), stopping=screen.stop)
    if live:
        _tell(executed, screen, here)
    return executed


def document(executed: Execution) -> dict[str, object]:
    """The result as a JSON document."""
    verdict, result = executed.verdict, executed.result
    return {
        "command": verdict.action.command,
        "level": verdict.level,
        "risk_level": verdict.risk,
        "ran": executed.ran,
        "exit_code": result.exit_code,
        "outcome": result.outcome,
        "error_category": result.category,
        "timed_out": result.timed_out,
        "stdout": result.stdout,
        "stderr": result.stderr,
        "truncated": result.truncated,
        "stdout_bytes": result.stdout_bytes,
        "stderr_bytes": result.stderr_bytes,
        "duration_s": result.duration_s,
        "duration_ms": round(result.duration_s * 1000, 3),
        "usage": result.usage,
        "left": result.left,
        "blocked": result.blocked,
        "seq": executed.seq,
        "explanation": executed.explanation,
    }


def _tell(executed: Execution, screen: Screen, here: str) -> None:
    """Show the output that was not shown while it ran, and how it ended."""
    from operator_sre.app.commands import ending_of

    result = executed.result
    if not executed.ran:
        screen.say(result.stderr or executed.explanation)
        return
    for number, text in ((1, result.stdout), (2, result.stderr)):
        if number not in screen.heard:
            screen.show(number, text.encode("utf-8", "surrogateescape"))
    for sentence in ending_of(executed, here=here):
        screen.say(sentence)


def _check_folder(cwd: str) -> Path:
    """The working directory; UsageError where there is none."""
    place = Path(cwd).absolute()
    if not place.is_dir():
        raise UsageError(f"There is no directory {str(place)!r}.", next_step="Name one with --cwd.")
    return place


def _check_variables(passes: list[str]) -> tuple[str, ...]:
    """The names of variables that are set; a value here could expose a secret."""
    for name in passes:
        if not name.replace("_", "a").isalnum() or name[:1].isdigit():
            raise UsageError("--pass-env takes the name of a variable, not its value.")
        if name not in os.environ:
            raise UsageError(f"The environment variable {name!r} is not set.")
    return tuple(dict.fromkeys(passes))
