"""`operator workflows`: several actions in an order, now or later."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from operator_protocols.errors import UsageError
from operator_sre.faces.cli.options import JsonOption, ReasonOption, config_of, opened
from operator_sre.faces.cli.output import clean, print_json, print_lines, print_list, print_table
from operator_sre.faces.cli.signals import run_until_stopped
from operator_sre.faces.cli.story import tell

if TYPE_CHECKING:
    from datetime import datetime

    from operator_protocols.domain.workflow import Workflow, WorkflowRecord
    from operator_sre.app.wiring import App
    from operator_sre.app.workflows import StepOutlook

__all__ = ["app", "print_scheduled"]

app = typer.Typer(help="Run several actions in order, now or later.", no_args_is_help=True)
T = TypeVar("T")
FOLLOW_S = 0.1
NOT_NOW = 4
StateOption = Annotated[
    list[str] | None, typer.Option("--state", help="Only workflows in this state; may be repeated.")
]

WorkflowArgument = Annotated[str, typer.Argument(help="The workflow id.")]


@app.command()
def run(
    context: typer.Context,
    file: Annotated[Path | None, typer.Argument(help="The definition, in YAML or JSON.")] = None,
    at: Annotated[str, typer.Option(help="Run later: +10m or 2026-11-15T18:00Z.")] = "",
    due: Annotated[
        bool, typer.Option("--due", help="Run workflows that are due or were interrupted.")
    ] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Same as --due.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would happen, without running it.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Run a workflow now, schedule it, or run all that are due.

    Exit code 0 when it completed, 1 when it failed or was cancelled, 4 when a step was not
    approved.
    """
    if (file is not None) + (due or resume) != 1:
        raise UsageError("Name a definition, or use --due or --resume.")
    if file is None:
        if at or dry_run:
            raise UsageError("--at and --dry-run need a definition.", next_step="Name a FILE.")
        _run_waiting(context, as_json=as_json)
    elif dry_run:
        _foresee(context, file, as_json=as_json)
    elif at:
        _schedule(context, file, at, as_json=as_json)
    else:
        _run_now(context, file, as_json=as_json)


@app.command("list")
def list_(
    context: typer.Context,
    state: StateOption = None,
    scheduled: Annotated[bool, typer.Option("--scheduled", help="Only scheduled ones.")] = False,
    as_json: JsonOption = False,
) -> None:
    """List workflows and scheduled actions, newest first."""
    from operator_sre.app.workflows import list_workflows

    with opened(context) as app:
        found = list_workflows(app, states=state or [], scheduled=scheduled)
    head = ("id", "state", "due", "steps", "what")
    rows = []
    for record in found:
        done = sum(step.state == "completed" for step in record.steps)
        first = record.workflow.steps[0].action.command
        name = first if record.origin != "workflow" else record.workflow.name
        more = f": {record.reason}" if record.reason else ""
        due = f"{record.due_at:%m-%d %H:%M:%S}"
        steps = f"{done}/{len(record.steps)}"
        rows.append((record.id, _state(record), due, steps, f"{name}{more}"))
    print_list(
        "workflows",
        found,
        head,
        rows,
        none="No scheduled workflows." if scheduled else "No workflows.",
        as_json=as_json,
    )


@app.command()
def show(context: typer.Context, workflow: WorkflowArgument, as_json: JsonOption = False) -> None:
    """Show a workflow: its steps, their state and its timeline."""
    from operator_sre.app.workflows import show_workflow

    with opened(context) as app:
        view = show_workflow(app, workflow)
    if as_json:
        print_json({"workflow": view.workflow, "entries": view.entries})
        return
    record = view.workflow
    print_lines([f"{record.id}: {clean(record.workflow.name)}, {_state(record)}"])
    print_lines([clean(record.reason)] if record.reason else [])
    rows = []
    for step in record.steps:
        undone = f", rolled back: {step.undone}" if step.undone else ""
        code = "-" if step.exit_code is None else step.exit_code
        command = record.workflow.step(step.id).action.command
        rows.append((step.id, step.state, step.attempts, code, f"{command}{undone}"))
    print_table(("step", "state", "attempts", "exit", "what"), rows)
    print_lines([""])
    tell(view.entries)


@app.command()
def cancel(
    context: typer.Context,
    workflow: WorkflowArgument,
    undo: Annotated[bool, typer.Option("--undo", help="Roll back the completed steps.")] = False,
    reason: ReasonOption = "",
    as_json: JsonOption = False,
) -> None:
    """Cancel a running or scheduled workflow."""
    from operator_sre.app.workflows import cancel_workflow

    with opened(context) as app:
        work = cancel_workflow(app, workflow, undo=undo, reason=reason)
        record = run_until_stopped(work)
    if as_json:
        print_json({"workflow": record})
    else:
        print_lines([clean(f"{record.id} is {_state(record)}. {record.reason}".rstrip())])
    raise typer.Exit(0 if record.state.over else 1)


def print_scheduled(record: WorkflowRecord, steps: Sequence[StepOutlook], *, as_json: bool) -> None:
    """What was written down for later, and what the gate would say of it now."""
    if as_json:
        print_json({"workflow": record, "steps": steps})
        return
    print_lines([f"{record.id} is due at {record.due_at:%Y-%m-%d %H:%M:%S} UTC."])
    _print_outlook(steps)
    print_lines(
        [
            "It is judged again when it runs: by any agent, or by: operator workflows run --due",
            f"Take it back with: operator workflows cancel {record.id}",
        ]
    )


def _foresee(context: typer.Context, file: Path, *, as_json: bool) -> None:
    from operator_sre.app.wiring import look_at_app
    from operator_sre.app.workflows import foresee_workflow, read_definition

    with look_at_app(config_of(context)) as app:
        workflow = read_definition(app, file)
        steps = foresee_workflow(app, workflow)
    if as_json:
        print_json({"name": workflow.name, "steps": steps, "ran": False})
    else:
        _print_outlook(steps)


def _schedule(context: typer.Context, file: Path, at: str, *, as_json: bool) -> None:
    from operator_sre.app.workflows import (
        add_workflow,
        foresee_workflow,
        moment_of,
        read_definition,
    )

    with opened(context) as app:
        workflow = read_definition(app, file)
        moment: datetime = moment_of(at, app.clock.now())
        steps = foresee_workflow(app, workflow)
        record = run_until_stopped(add_workflow(app, workflow, at=moment))
    print_scheduled(record, steps, as_json=as_json)


def _run_now(context: typer.Context, file: Path, *, as_json: bool) -> None:
    from operator_sre.app.workflows import read_definition, run_workflow
    from operator_sre.faces.cli.exec import quiet

    with opened(context) as app:
        quiet(app.config)
        workflow: Workflow = read_definition(app, file)
        name = f"workflow-{app.new_id()[:12]}"
        work = run_workflow(app, workflow, name=name)
        record = run_until_stopped(work if as_json else _shown(app, name, work))
    if as_json:
        print_json({"workflow": record})
    else:
        _print_end(record)
    raise typer.Exit(_exit_code(record))


def _run_waiting(context: typer.Context, *, as_json: bool) -> None:
    from operator_sre.app.workflows import tick
    from operator_sre.faces.cli.exec import quiet

    async def work(home: App) -> list[WorkflowRecord]:
        found: list[WorkflowRecord] = []
        while (record := await tick(home)) is not None:
            found.append(record)
            if not as_json:
                _print_end(record)
        return found

    with opened(context) as home:
        quiet(home.config)
        carried = run_until_stopped(work(home))
    if as_json:
        print_json({"workflows": carried})
    elif not carried:
        print_lines(["No workflows are due or interrupted."])
    raise typer.Exit(max([_exit_code(one) for one in carried], default=0))


async def _shown(app: App, workflow: str, work: Awaitable[T]) -> T:
    """Do the work, and tell what comes of it as it comes."""
    from operator_sre.app.workflows import entries_of

    task, seq = asyncio.ensure_future(work), 0
    newest = app.store.entries.newest(limit=1)
    seq = newest[0].seq if newest else 0
    print_lines([f"{workflow}"])
    try:
        while not task.done():
            await asyncio.wait({task}, timeout=FOLLOW_S)
            found, seq = entries_of(app, workflow, seq)
            tell(found)
    except asyncio.CancelledError:
        task.cancel()
        await asyncio.wait({task})
        raise
    return await task


def _print_outlook(steps: Sequence[StepOutlook]) -> None:
    rows = [
        (
            one.step,
            ", ".join(one.depends_on) or "-",
            one.level,
            one.way,
            one.command + (" (judged again with its data)" if one.waits_for_data else ""),
        )
        for one in steps
    ]
    print_table(("step", "behind", "level", "now", "what"), rows)


def _print_end(record: WorkflowRecord) -> None:
    print_lines([clean(f"{record.id} is {_state(record)}. {record.reason}".rstrip())])


def _state(record: WorkflowRecord) -> str:
    return "missed" if record.missed else str(record.state)


def _exit_code(record: WorkflowRecord) -> int:
    if record.state == "completed":
        return 0
    return NOT_NOW if any(step.outcome == "refused" for step in record.steps) else 1
