"""Workflows and scheduled actions, for people and programs."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from operator_protocols.domain.action import Action, digest_of
from operator_protocols.domain.entry import Actor, Entry
from operator_protocols.domain.verdict import Level, Risk
from operator_protocols.domain.workflow import (
    PREFIX,
    Origin,
    Workflow,
    WorkflowRecord,
    WorkflowState,
    WorkflowStep,
    run_of,
    undo_run_of,
    workflow_of,
)
from operator_protocols.errors import NotFoundError, OperatorError, UsageError
from operator_sre.app.approvals import signed_in
from operator_sre.app.carrying import Watch, carry, subject_of
from operator_sre.app.hands import MACHINE
from operator_sre.app.persons import myself
from operator_sre.app.wiring import App
from operator_sre.app.workers import is_gone, this_worker
from operator_sre.codec import to_json
from operator_sre.executor.workflows import order_of, read_workflow
from operator_sre.executor.workflows.carrying import LEASE_S
from operator_sre.executor.workflows.places import FILE_BYTES_MAX, parse_document
from operator_sre.executor.workflows.references import references_of, sampled
from operator_sre.gate import Way

__all__ = [
    "LATE_S_MAX",
    "StepOutlook",
    "WorkflowView",
    "add_workflow",
    "cancel_workflow",
    "command_workflow",
    "entries_of",
    "follow_workflows",
    "foresee_workflow",
    "list_workflows",
    "moment_of",
    "read_definition",
    "run_workflow",
    "show_workflow",
    "tick",
]

# How long behind its time a scheduled action is still run.
LATE_S_MAX = 600.0
AHEAD_DAYS_MAX = 366
POLL_S = 0.25
CANCEL_S_MAX, CANCEL_POLL_S = 20.0, 0.1
AT_ONCE_MAX = 4
ENTRIES_MAX = 5000
_FROM_NOW = re.compile(r"\+(\d{1,9})(s|m|h|d)")
_UNIT_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StepOutlook:
    """What would become of one step now; a word stands for data that is not there yet."""

    step: str
    command: str
    depends_on: tuple[str, ...]
    level: Level
    risk: Risk
    way: Way
    explanation: str
    waits_for_data: bool


@dataclass(frozen=True, slots=True)
class WorkflowView:
    """A workflow and everything the ledger knows of it."""

    workflow: WorkflowRecord
    entries: tuple[Entry, ...]


def read_definition(app: App, definition: Path | Mapping[str, object]) -> Workflow:
    """A workflow from a file or a dict. UsageError that names every mistake in it."""
    text = _text_of(definition) if isinstance(definition, Path) else definition
    subject = _told_subject(app, text)
    found = read_workflow(text, app.hands(subject).registry.specs)
    name = str(definition) if isinstance(definition, Path) else "The workflow"
    if not isinstance(found, Workflow):
        count = f"{len(found)} mistakes" if len(found) > 1 else "a mistake"
        told = "; ".join(str(one) for one in found)
        raise UsageError(f"{name} has {count}: {told}.", next_step="See docs/workflows.md.")
    return found


def command_workflow(action: Action, *, subject: str = "") -> Workflow:
    """One action as a workflow of one step that is tried once, for whatever runs later."""
    step = WorkflowStep("command", action, attempts_max=1)
    return Workflow("command", (step,), subject=subject)


def moment_of(text: str, now: datetime) -> datetime:
    """When `+10m` or `2026-11-15T18:00Z` is. UsageError when it is no moment ahead of us."""
    step = "Use for example: +10m, or 2026-11-15T18:00Z"
    if found := _FROM_NOW.fullmatch(text.strip()):
        seconds = int(found[1]) * _UNIT_S[found[2]]
        if seconds > AHEAD_DAYS_MAX * _UNIT_S["d"]:
            raise UsageError(f"{text!r} is more than {AHEAD_DAYS_MAX} days ahead.", next_step=step)
        return now + timedelta(seconds=seconds)
    try:
        at = datetime.fromisoformat(text.strip())
    except ValueError:
        raise UsageError(f"{text[:60]!r} is not a moment.", next_step=step) from None
    if at.tzinfo is None:
        raise UsageError(f"{text!r} does not say in which time zone.", next_step=step)
    if not now <= at <= now + timedelta(days=AHEAD_DAYS_MAX):
        told = "has passed" if at < now else f"is more than {AHEAD_DAYS_MAX} days ahead"
        raise UsageError(f"{text!r} {told}.", next_step=step)
    return at.astimezone(UTC)


def foresee_workflow(app: App, workflow: Workflow) -> tuple[StepOutlook, ...]:
    """What would become of each step now, in order. Runs nothing and writes nothing."""
    record = _record(app, workflow, Origin.WORKFLOW, None, myself())
    subject = subject_of(app, record)
    gate = app.hands(subject).gate
    order = order_of({step.id: step.depends_on for step in workflow.steps})
    found: list[StepOutlook] = []
    for step in map(workflow.step, order):
        verdict = gate.judge(sampled(step.action), record.requester)
        course = gate.foresee(verdict, record.requester, subject=subject)
        waits = bool(references_of(step.action))
        told = (verdict.level, verdict.risk, course.way, course.why or verdict.explanation)
        found.append(StepOutlook(step.id, step.action.command, step.depends_on, *told, waits))
    return tuple(found)


async def add_workflow(
    app: App,
    workflow: Workflow,
    *,
    at: datetime | None = None,
    origin: Origin = Origin.WORKFLOW,
    requester: Actor | None = None,
) -> WorkflowRecord:
    """Have it run at a time, or as soon as somebody is there, by whichever agent runs then."""
    record = _record(app, workflow, origin, at, requester or myself())
    _must_have_targets(app, record)
    return await app.store.workflows.add(record)


async def run_workflow(
    app: App, workflow: Workflow, *, name: str = "", watch: Watch | None = None
) -> WorkflowRecord:
    """Run it here and now, to its end. Whoever is stopped cancels it, and takes nothing back."""
    record = _record(app, workflow, Origin.WORKFLOW, None, myself(), name)
    _must_have_targets(app, record)
    held = await app.store.workflows.add(record, worker=this_worker(), lease_s=LEASE_S)
    try:
        return await carry(app, held, watch=watch)
    except asyncio.CancelledError:
        await asyncio.shield(_stop(app, held))
        raise


async def tick(
    app: App, *, workflow: str = "", watch: Watch | None = None
) -> WorkflowRecord | None:
    """Carry one workflow that is due, or whose worker is gone, to its end; None if there is none.

    Whoever cancels this parks it. While the kill switch is on, nothing is begun.
    """
    if app.store.switch.state().on:
        return None
    return await _carry_one(app, workflow, watch)


async def follow_workflows(app: App, *, watch: Watch | None = None) -> None:
    """Run what is due and go on with what was interrupted, some at once, until cancelled."""
    running: set[asyncio.Task[None]] = set()
    async with asyncio.TaskGroup() as group:
        while True:
            held = await _next(app) if len(running) < AT_ONCE_MAX else None
            if held is None:
                await app.clock.sleep(POLL_S)
                continue
            task = group.create_task(_carried(app, held, watch))
            running.add(task)
            task.add_done_callback(running.discard)


async def _next(app: App) -> WorkflowRecord | None:
    try:
        on = app.store.switch.state().on
        return None if on else await _claimed(app)
    except OperatorError as error:  # a full disk now is no reason not to look again later
        log.error("cannot look for workflows: %s", error)
        return None


async def _carried(app: App, held: WorkflowRecord, watch: Watch | None) -> None:
    try:
        ended = await carry(app, held, watch=watch)
        log.info("%s is %s %s", ended.id, ended.state, ended.reason)
    except Exception as error:  # noqa: BLE001  one broken workflow must not end the agent
        log.error("workflow %s failed: %r", held.id, error)


async def _carry_one(app: App, workflow: str, watch: Watch | None = None) -> WorkflowRecord | None:
    held = await _claimed(app, workflow)
    return None if held is None else await carry(app, held, watch=watch)


async def _claimed(app: App, workflow: str = "") -> WorkflowRecord | None:
    """One that is due, or whose worker is gone, in our hands. Where nothing is, nothing is written.

    What a process of this machine held that is gone is free at once, not when its lease ends.
    """
    living = app.store.workflows.find(states=(WorkflowState.PENDING, WorkflowState.IN_PROGRESS))
    now, claims = app.clock.now(), app.store.workflow_claims
    for one in living:
        if one.state is WorkflowState.IN_PROGRESS and is_gone(one.worker):
            await claims.renew(one, lease_s=0.0)
    if not any(one.state is WorkflowState.IN_PROGRESS or one.due_at <= now for one in living):
        return None
    return await claims.claim(
        this_worker(), lease_s=LEASE_S, late_s_max=LATE_S_MAX, workflow=workflow
    )


def list_workflows(
    app: App, *, states: Sequence[str] = (), scheduled: bool = False
) -> Sequence[WorkflowRecord]:
    """The newest first, in these states or all; or what waits for its time, soonest first."""
    for state in states:
        if state not in set(WorkflowState):
            raise UsageError(
                f"There is no workflow state {state!r}.",
                next_step=f"States: {', '.join(WorkflowState)}.",
            )
    wanted = [WorkflowState(state) for state in states]
    if not scheduled:
        return app.store.workflows.find(states=wanted)
    waiting = app.store.workflows.find(states=wanted or [WorkflowState.PENDING])
    return sorted((one for one in waiting if one.scheduled), key=lambda one: one.due_at)


def show_workflow(app: App, workflow: str) -> WorkflowView:
    """One workflow with its story. NotFoundError when there is none of that id."""
    found = app.store.workflows.get(workflow)
    if found is None:
        raise NotFoundError(
            f"There is no workflow {workflow[:60]!r}.",
            next_step="See them with: operator workflows list",
        )
    steps = [step.id for step in found.steps]
    runs = [workflow]
    for name in steps:
        attempts = found.step(name).attempts
        runs += [run_of(workflow, name, number) for number in range(1, attempts + 1)]
        runs.append(undo_run_of(workflow, name))
    entries = [
        entry for run in runs for entry in app.store.entries.after(0, limit=ENTRIES_MAX, run=run)
    ]
    return WorkflowView(found, tuple(sorted(entries, key=lambda entry: entry.seq)[:ENTRIES_MAX]))


def entries_of(app: App, workflow: str, after: int) -> tuple[Sequence[Entry], int]:
    """What came of a workflow behind an entry, and the entry to ask behind next time."""
    found = app.store.entries.after(after, limit=ENTRIES_MAX)
    mine = [entry for entry in found if workflow_of(entry.run) == workflow]
    return mine, found[-1].seq if found else after


async def cancel_workflow(
    app: App, workflow: str, *, undo: bool = False, reason: str = ""
) -> WorkflowRecord:
    """Begin no more of it and end what runs; with `undo` take back what is done.

    Whoever runs it does that; where nobody does, it is done here.
    """
    by = Actor(signed_in(), "user")
    record = await app.store.workflows.cancel(workflow, by=by, reason=reason, undo=undo)
    deadline = app.clock.monotonic() + CANCEL_S_MAX
    while not record.state.over and app.clock.monotonic() < deadline:
        if await _carry_one(app, workflow) is None:
            await app.clock.sleep(CANCEL_POLL_S)
        record = app.store.workflows.get(workflow) or record
    return record


async def _stop(app: App, record: WorkflowRecord) -> None:
    reason, by = "whoever ran it was stopped", record.requester
    with contextlib.suppress(OperatorError):  # it may be over by now
        await app.store.workflows.cancel(record.id, by=by, reason=reason)
        await _carry_one(app, record.id)


def _record(
    app: App,
    workflow: Workflow,
    origin: Origin,
    at: datetime | None,
    requester: Actor,
    name: str = "",
) -> WorkflowRecord:
    now = app.clock.now()
    return WorkflowRecord(
        id=name or f"{PREFIX}{app.new_id()[:12]}",
        workflow=workflow,
        state=WorkflowState.PENDING,
        requester=requester,
        requested_at=now,
        due_at=at or now,
        digest=digest_of(to_json(workflow)),
        origin=origin,
        scheduled=at is not None,
    )


def _must_have_targets(app: App, record: WorkflowRecord) -> None:
    subject = subject_of(app, record)
    names = [target.name for target in app.hands(subject).targets()]
    for step in record.workflow.steps:
        target = step.action.target
        if target and "${" not in target and target not in names:
            raise NotFoundError(
                f"Step {step.id!r}: {subject!r} has no target {target[:60]!r}.",
                next_step=f"Its targets: {', '.join(names) or 'none'}.",
            )


def _told_subject(app: App, definition: str | Mapping[str, object]) -> str:
    """The subject that a definition names, so that its tools are known when it is read."""
    table = parse_document(definition).value if isinstance(definition, str) else definition
    if not isinstance(table, Mapping):
        return MACHINE
    told, steps = table.get("subject"), table.get("steps")
    if isinstance(told, str) and told:
        return app.choose([told])[0]
    listed = steps if isinstance(steps, list | tuple) else ()
    aimed = any(isinstance(step, Mapping) and step.get("target") for step in listed)
    return app.choose([])[0] if aimed else MACHINE


def _text_of(path: Path) -> str:
    try:
        with path.open("rb") as file:
            raw = file.read(FILE_BYTES_MAX + 1)
        return raw.decode("utf-8")
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise UsageError(
            f"{str(path)!r} cannot be read: {why}.", next_step="Name a file."
        ) from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{str(path)!r} is not UTF-8 text.", next_step="Name a file.") from error
