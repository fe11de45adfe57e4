"""Workflows: several actions in order, run now, later or after an interruption."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from operator_protocols.domain.entry import Entry
from operator_protocols.domain.token import Role
from operator_protocols.domain.workflow import PREFIX, WorkflowRecord, WorkflowState
from operator_protocols.errors import UsageError
from operator_sre.app.workflows import (
    StepOutlook,
    add_workflow,
    entries_of,
    foresee_workflow,
    moment_of,
    read_definition,
    run_workflow,
    tick,
)
from operator_sre.contract import SCHEMA_VERSION
from operator_sre.operations.operation import (
    TEXT_MAX,
    After,
    Effect,
    Most,
    Operation,
    Page,
    Reason,
    Request,
    Route,
    Story,
    Table,
    Tell,
    Tool,
    View,
)

if TYPE_CHECKING:
    from operator_sre.app.wiring import App

__all__ = ["OPERATIONS", "SUMMARY", "ScheduledWorkflow", "scheduled_view"]

SUMMARY = "Run several actions in order, now or later."
FOLLOW_S = 0.1
NOT_APPROVED = 4
Name = Annotated[str, Meta(max_length=200, description="The workflow id.")]


class RunWorkflow(Request, frozen=True):
    """Which workflows to run, and when."""

    file: Annotated[
        str, Meta(max_length=TEXT_MAX, description="The definition, in YAML or JSON.")
    ] = ""
    at: Annotated[
        str, Meta(max_length=200, description="Run later: +10m or 2026-11-15T18:00Z.")
    ] = ""
    due: Annotated[bool, Meta(description="Run workflows that are due or were interrupted.")] = (
        False
    )
    resume: Annotated[bool, Meta(description="Same as --due.")] = False
    dry_run: Annotated[bool, Meta(description="Show what would happen, without running it.")] = (
        False
    )

    def __post_init__(self) -> None:
        """UsageError when the flags contradict each other."""
        if bool(self.file) + (self.due or self.resume) != 1:
            raise UsageError("Name a definition, or use --due or --resume.")
        if not self.file and (self.at or self.dry_run):
            raise UsageError("--at and --dry-run need a definition.", next_step="Name a FILE.")


class ListWorkflows(Request, frozen=True):
    """Which workflows; all without a filter."""

    states: Annotated[
        tuple[WorkflowState, ...],
        Meta(
            max_length=len(WorkflowState),
            description="Only workflows in this state; may be repeated.",
            extra={"option": "--state", "query": "state", "called": "workflow state"},
        ),
    ] = ()
    scheduled: Annotated[
        bool,
        Meta(
            description="Only scheduled workflows, soonest first.",
            extra={"api": False, "mcp": False},
        ),
    ] = False
    after: After = ""
    limit: Most = None


class ShowWorkflow(Request, frozen=True):
    """Which workflow."""

    workflow: Name


class CancelWorkflow(Request, frozen=True):
    """Which workflow, and what becomes of its completed steps."""

    workflow: Name
    undo: Annotated[bool, Meta(description="Roll back the completed steps.")] = False
    reason: Reason = ""


@dataclass(frozen=True, slots=True)
class WorkflowPage:
    """Workflows and scheduled actions, the newest first."""

    workflows: tuple[WorkflowRecord, ...]
    next_cursor: str = ""
    schema_version: str = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class WorkflowDocument:
    """One workflow, and everything that the ledger knows of it."""

    workflow: WorkflowRecord
    entries: tuple[Entry, ...] = ()
    schema_version: str = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class EndedWorkflow:
    """One workflow that ran or was cancelled."""

    workflow: WorkflowRecord
    schema_version: str = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class EndedWorkflows:
    """Workflows that were due or interrupted, and ran now."""

    workflows: tuple[WorkflowRecord, ...]
    schema_version: str = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class ScheduledWorkflow:
    """A workflow that runs later, and what would become of its steps now."""

    workflow: WorkflowRecord
    steps: tuple[StepOutlook, ...]
    schema_version: str = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class WorkflowOutlook:
    """What would become of the steps of a definition; nothing ran."""

    name: str
    steps: tuple[StepOutlook, ...]
    ran: bool = False
    schema_version: str = SCHEMA_VERSION


async def run_definition(
    app: App, *, file: str, at: str, due: bool, resume: bool, dry_run: bool, tell: Tell
) -> EndedWorkflow | EndedWorkflows | ScheduledWorkflow | WorkflowOutlook:
    """Run a definition now, schedule or foresee it; or run everything that is due."""
    if due or resume:
        ended: list[WorkflowRecord] = []
        while (record := await tick(app)) is not None:
            ended.append(record)
            tell([_sentence(record)])
        return EndedWorkflows(tuple(ended))
    workflow = read_definition(app, Path(file))
    if dry_run:
        return WorkflowOutlook(workflow.name, foresee_workflow(app, workflow))
    if at:
        moment = moment_of(at, app.clock.now())
        steps = foresee_workflow(app, workflow)
        return ScheduledWorkflow(await add_workflow(app, workflow, at=moment), steps)
    name = f"{PREFIX}{app.new_id()[:12]}"
    tell([name])
    work = run_workflow(app, workflow, name=name)
    # New entries of the workflow are shown while it runs.
    newest = app.store.entries.newest(limit=1)
    seq = newest[0].seq if newest else 0
    task = asyncio.ensure_future(work)
    try:
        while not task.done():
            await asyncio.wait({task}, timeout=FOLLOW_S)
            found, seq = entries_of(app, name, seq)
            tell([Story(found)])
    except asyncio.CancelledError:
        task.cancel()
        await asyncio.wait({task})
        raise
    return EndedWorkflow(await task)


def scheduled_view(found: ScheduledWorkflow) -> View:
    """What was scheduled, and what the gate would say of it now."""
    record = found.workflow
    return [
        f"{record.id} is due at {record.due_at:%Y-%m-%d %H:%M:%S} UTC.",
        _outlook(found.steps),
        "It is judged again when it runs: by any agent, or by: operator workflows run --due",
        f"To cancel it: operator workflows cancel {record.id}",
    ]


def _outlook(steps: Sequence[StepOutlook]) -> Table:
    rows = []
    for step in steps:
        command = step.command + (" (judged again with its data)" if step.waits_for_data else "")
        rows.append((step.step, ", ".join(step.depends_on) or "-", step.level, step.way, command))
    return Table(("step", "behind", "level", "now", "what"), rows)


def _run_view(
    found: EndedWorkflow | EndedWorkflows | ScheduledWorkflow | WorkflowOutlook, now: datetime
) -> View:
    match found:
        case EndedWorkflow():
            return [_sentence(found.workflow)]
        case EndedWorkflows():  # each was shown when it ended
            return [] if found.workflows else ["No workflows are due or interrupted."]
        case ScheduledWorkflow():
            return scheduled_view(found)
        case WorkflowOutlook():
            return [_outlook(found.steps)]


def _table(found: WorkflowPage, now: datetime) -> View:
    rows = []
    for record in found.workflows:
        completed = sum(step.state == "completed" for step in record.steps)
        command = record.workflow.steps[0].action.command
        name = command if record.origin != "workflow" else record.workflow.name
        reason = f": {record.reason}" if record.reason else ""
        due = f"{record.due_at:%m-%d %H:%M:%S}"
        steps = f"{completed}/{len(record.steps)}"
        rows.append((record.id, _state(record), due, steps, f"{name}{reason}"))
    return [Table(("id", "state", "due", "steps", "what"), rows, "No workflows.")]


def _details(found: WorkflowDocument, now: datetime) -> View:
    record = found.workflow
    rows = []
    for step in record.steps:
        undone = f", rolled back: {step.undone}" if step.undone else ""
        code = "-" if step.exit_code is None else step.exit_code
        command = record.workflow.step(step.id).action.command
        rows.append((step.id, step.state, step.attempts, code, f"{command}{undone}"))
    return [
        f"{record.id}: {record.workflow.name}, {_state(record)}",
        *([record.reason] if record.reason else []),
        Table(("step", "state", "attempts", "exit", "what"), rows),
        "",
        Story(found.entries),
    ]


def _sentence(record: WorkflowRecord) -> str:
    return f"{record.id} is {_state(record)}. {record.reason}".rstrip()


def _state(record: WorkflowRecord) -> str:
    return "missed" if record.missed else str(record.state)


def _exit_code(
    found: EndedWorkflow | EndedWorkflows | ScheduledWorkflow | WorkflowOutlook,
) -> int:
    match found:
        case EndedWorkflow():
            records: Sequence[WorkflowRecord] = (found.workflow,)
        case EndedWorkflows():
            records = found.workflows
        case ScheduledWorkflow() | WorkflowOutlook():
            return 0
    codes = [0]
    for record in records:
        if record.state is not WorkflowState.COMPLETED:
            refused = any(step.outcome == "refused" for step in record.steps)
            codes.append(NOT_APPROVED if refused else 1)
    return max(codes)


OPERATIONS = (
    Operation(
        name="workflows run",
        help="Run a workflow now, schedule it, or run all that are due.\n\n"
        "Exit code 0 when it completed, 1 when it failed or was cancelled, 4 when a step was not"
        " approved.",
        request=RunWorkflow,
        result=EndedWorkflow,
        others=(ScheduledWorkflow, EndedWorkflows, WorkflowOutlook),
        call="operator_sre.operations.workflows.run_definition",
        view=_run_view,
        effect=Effect.CHANGE,
        role=Role.APPROVER,
        arguments=("file",),
        exit_code=_exit_code,
        live=True,
        looks="dry_run",
        examples=(
            "operator workflows run deploy.yaml --dry-run",
            "operator workflows run deploy.yaml --at +10m",
        ),
    ),
    Operation(
        name="workflows list",
        help="List workflows and scheduled actions, newest first.",
        request=ListWorkflows,
        result=WorkflowPage,
        call="operator_sre.app.workflows.list_workflows",
        view=_table,
        page=Page(key="id", place="after"),
        route=Route("GET", "/v1/workflows", "list_workflows"),
        tool=Tool(
            "list_workflows",
            "List workflows",
            "Lists workflows and scheduled actions, the newest first.",
            picks=("id", "workflow.name", "state", "origin", "due_at", "ended_at", "reason"),
        ),
        examples=("operator workflows list --state failed",),
    ),
    Operation(
        name="workflows show",
        help="Show a workflow: its steps, their state and its timeline.",
        request=ShowWorkflow,
        result=WorkflowDocument,
        call="operator_sre.app.workflows.show_workflow",
        view=_details,
        arguments=("workflow",),
        route=Route("GET", "/v1/workflows/{workflow}", "show_workflow", errors=(404,)),
    ),
    Operation(
        name="workflows cancel",
        help="Cancel a running or scheduled workflow.",
        request=CancelWorkflow,
        result=EndedWorkflow,
        call="operator_sre.app.workflows.cancel_workflow",
        view=lambda found, now: [_sentence(found.workflow)],
        effect=Effect.CHANGE,
        role=Role.APPROVER,
        arguments=("workflow",),
        exit_code=lambda found: 0 if found.workflow.state.over else 1,
        route=Route(
            "POST",
            "/v1/workflows/{workflow}/cancel",
            "cancel_workflow",
            "CancelWorkflowRequest",
            (404, 409),
        ),
    ),
)
