"""Workflows and scheduled actions, for people and programs."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from operator_protocols.domain.action import Action, Result, digest_of
from operator_protocols.domain.entry import Actor, Entry, Kind
from operator_protocols.domain.permit import ApprovalState
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
from operator_protocols.errors import (
    ConflictError,
    NotFoundError,
    OperatorError,
    RigError,
    UsageError,
)
from operator_sre.act import Request, WhenBusy, act
from operator_sre.app.listeners import is_gone, this_worker
from operator_sre.app.persons import myself, signed_in
from operator_sre.app.policy import record_overrides
from operator_sre.app.redaction import redacted_watch
from operator_sre.app.wiring import App
from operator_sre.codec import from_json, to_json
from operator_sre.controls import MACHINE, Controls
from operator_sre.executor.workflows import Carrier, StepAction, StepResult, order_of, read_workflow
from operator_sre.executor.workflows.carrier import LEASE_S
from operator_sre.executor.workflows.definition import FILE_BYTES_MAX, parse_document
from operator_sre.executor.workflows.progress import Progress
from operator_sre.executor.workflows.references import references_of, with_samples
from operator_sre.gate import Way

__all__ = [
    "LATE_S_MAX",
    "StepOutlook",
    "WorkflowView",
    "add_workflow",
    "cancel_workflow",
    "carry_workflow",
    "command_workflow",
    "entries_of",
    "follow_workflows",
    "foresee_workflow",
    "list_workflows",
    "moment_of",
    "read_definition",
    "run_workflow",
    "show_workflow",
    "subject_of",
    "tick",
    "withdraw_requests",
]

# How long behind its time a scheduled action is still run.
LATE_S_MAX = 600.0
AHEAD_DAYS_MAX = 366
POLL_S = 0.25
CANCEL_S_MAX, CANCEL_POLL_S, AT_ONCE_MAX = 20.0, 0.1, 4
ENTRIES_MAX, RUN_ENTRIES_MAX, WORKFLOWS_MAX = 5_000, 10_000, 1_000
_FROM_NOW = re.compile(r"\+(\d{1,9})(s|m|h|d)")
_UNIT_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
# Gets the live output of a step without secrets: its run, the stream, the bytes.
Watch = Callable[[str, int, bytes], None]
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
    text: str | Mapping[str, object]
    name, text = "The workflow", "" if isinstance(definition, Path) else definition
    if isinstance(definition, Path):
        name = str(definition)
        try:
            with definition.open("rb") as file:
                text = file.read(FILE_BYTES_MAX + 1).decode("utf-8")
        except OSError as error:
            why = error.strerror or type(error).__name__
            raise UsageError(
                f"{name!r} cannot be read: {why}.", next_step="Name a file."
            ) from error
        except UnicodeDecodeError as error:
            raise UsageError(f"{name!r} is not UTF-8 text.", next_step="Name a file.") from error
    # The subject that it names comes first, because the subject's tools may be used in it.
    table = parse_document(text).value if isinstance(text, str) else text
    subject = MACHINE
    if isinstance(table, Mapping):
        named, steps = table.get("subject"), table.get("steps")
        listed = steps if isinstance(steps, list | tuple) else ()
        if isinstance(named, str) and named:
            (subject,) = app.choose([named])
        elif any(isinstance(step, Mapping) and step.get("target") for step in listed):
            (subject,) = app.choose([])
    found = read_workflow(text, app.controls(subject).registry.specs)
    if not isinstance(found, Workflow):
        count = f"{len(found)} mistakes" if len(found) > 1 else "a mistake"
        problems = "; ".join(str(problem) for problem in found)
        raise UsageError(f"{name} has {count}: {problems}.", next_step="See docs/workflows.md.")
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
        raise UsageError(f"{text[:60]!r} is not a valid time.", next_step=step) from None
    if at.tzinfo is None:
        raise UsageError(f"{text!r} has no time zone.", next_step=step)
    if not now <= at <= now + timedelta(days=AHEAD_DAYS_MAX):
        problem = "has passed" if at < now else f"is more than {AHEAD_DAYS_MAX} days ahead"
        raise UsageError(f"{text!r} {problem}.", next_step=step)
    return at.astimezone(UTC)


def foresee_workflow(app: App, workflow: Workflow) -> tuple[StepOutlook, ...]:
    """What would become of each step now, in order. Runs nothing and writes nothing."""
    record = _record(app, workflow, Origin.WORKFLOW, None, myself())
    subject = subject_of(app, record)
    gate = app.controls(subject).gate
    order = order_of({step.id: step.depends_on for step in workflow.steps})
    found: list[StepOutlook] = []
    for step in map(workflow.step, order):
        verdict = gate.judge(with_samples(step.action), record.requester)
        course = gate.foresee(verdict, record.requester, subject=subject)
        waits = bool(references_of(step.action))
        facts = (verdict.level, verdict.risk, course.way, course.why or verdict.explanation)
        found.append(StepOutlook(step.id, step.action.command, step.depends_on, *facts, waits))
    return tuple(found)


async def add_workflow(
    app: App,
    workflow: Workflow,
    *,
    at: datetime | None = None,
    origin: Origin = Origin.WORKFLOW,
    requester: Actor | None = None,
) -> WorkflowRecord:
    """Schedule a workflow for a time or for now; any running agent executes it."""
    record = _record(app, workflow, origin, at, requester or myself())
    _must_have_targets(app, record)
    return await app.store.workflows.add(record)


async def run_workflow(
    app: App, workflow: Workflow, *, name: str = "", watch: Watch | None = None
) -> WorkflowRecord:
    """Run a workflow in this process. Cancellation stops it without a rollback."""
    record = _record(app, workflow, Origin.WORKFLOW, None, myself(), name)
    _must_have_targets(app, record)
    held = await app.store.workflows.add(record, worker=this_worker(), lease_s=LEASE_S)
    try:
        return await carry_workflow(app, held, watch=watch)
    except asyncio.CancelledError:

        async def cancel() -> None:
            reason, by = "the process that ran it was stopped", record.requester
            with contextlib.suppress(OperatorError):  # it may have ended by now
                await app.store.workflows.cancel(record.id, by=by, reason=reason)
                await _carry_one(app, record.id)

        await asyncio.shield(cancel())
        raise


async def tick(
    app: App, *, workflow: str = "", watch: Watch | None = None
) -> WorkflowRecord | None:
    """Carry one workflow that is due, or whose worker is gone, to its end; None if there is none.

    Cancellation parks it. While the kill switch is on, nothing starts.
    """
    return None if app.store.switch.state().on else await _carry_one(app, workflow, watch)


async def carry_workflow(
    app: App,
    record: WorkflowRecord,
    *,
    watch: Watch | None = None,
    chance: Callable[[], float] = random.random,
    lease_s: float = LEASE_S,
) -> WorkflowRecord:
    """Carry a claimed workflow to its end. Cancellation parks it for the next worker."""
    await record_overrides(app)
    entries = app.store.entries.after(0, limit=RUN_ENTRIES_MAX, run=record.id)
    progress = Progress.of(app.store.sealed.unseal(entries))
    claims = app.store.workflow_claims
    if not progress.intact:
        why = "it contains secrets that only the home that created it can read"
        return await claims.end(record, WorkflowState.FAILED, reason=why)
    try:
        subject = subject_of(app, record)
        controls = app.controls(subject)
    except (RigError, UsageError) as error:  # the subject is not there
        return await claims.end(record, WorkflowState.FAILED, reason=str(error))

    async def act_step(step: StepAction) -> StepResult:
        show = None if watch is None else partial(watch, step.run)
        with redacted_watch(app.config, show) as feed:
            request = Request(
                step.action,
                subject=subject,
                requester=record.requester,
                run=step.run,
                epoch=record.epoch,
                when_busy=WhenBusy.WAIT,
                watch=feed,
            )
            done = await act(controls, request)
        return StepResult(done.result, done.seq)

    def is_harmless(action: Action) -> bool:
        tool = controls.registry.get(action.tool)
        if tool is not None:
            return tool.spec.idempotent or not tool.spec.changes
        return controls.gate.judge(action, record.requester).level is Level.SAFE

    carrier = Carrier(
        record=record,
        progress=progress,
        claims=claims,
        clock=app.clock,
        act=act_step,
        known=lambda run: _find_result(app, controls, run),
        harmless=is_harmless,
        wanted=lambda: app.store.workflows.get(record.id) or record,
        chance=chance,
        lease_s=lease_s,
    )
    try:
        ended = await carrier.carry()
    except ConflictError:
        return app.store.workflows.get(record.id) or record  # another worker has it by now
    except OperatorError:
        raise  # the store may be back later, and the workflow goes on then
    except Exception as error:  # a defect of ours must not be met again and again
        why = f"internal error: {type(error).__name__}"
        await claims.end(record, WorkflowState.FAILED, reason=why)
        raise
    finally:
        await claims.renew(record, lease_s=0.0)
    await withdraw_requests(app, record.id)
    return ended


async def _find_result(app: App, controls: Controls, run: str) -> StepResult | None:
    """What the ledger holds of the action of a run; None when it never began.

    Output that the ledger holds redacted is read from the spool; what is not all there counts as
    truncated, so that no other step gets it.
    """
    entries = app.store.entries.after(0, limit=RUN_ENTRIES_MAX, run=run)
    ended = [entry for entry in entries if entry.kind in (Kind.TOOL_RESULT, Kind.REFUSED)]
    calls = [entry for entry in entries if entry.kind is Kind.TOOL_CALL]
    if not ended and calls:
        # Another process may have found out first, and what is recorded counts.
        ended = [(await controls.executor.recover(calls[0]))[1]]
    if not ended:
        return None
    result = from_json(Result, ended[-1].payload["result"])
    texts: list[str] = []
    for name in ("stdout", "stderr"):
        text, sha256 = getattr(result, name), getattr(result, f"{name}_sha256")
        if not sha256 or hashlib.sha256(text.encode()).hexdigest() == sha256:
            texts.append(text)
            continue
        path = app.spool.path_of(sha256)
        if path is None or path.stat().st_size > app.surroundings.output_bytes_max:
            return StepResult(replace(result, truncated=True), ended[-1].seq)
        texts.append(path.read_bytes().decode("utf-8", "replace"))
    return StepResult(replace(result, stdout=texts[0], stderr=texts[1]), ended[-1].seq)


def subject_of(app: App, record: WorkflowRecord) -> str:
    """What a workflow is about: the subject that it names, or that its targets belong to."""
    workflow = record.workflow
    targets = [step.action.target for step in workflow.steps if step.action.target]
    if not workflow.subject and not targets:
        return MACHINE
    (subject,) = app.choose([workflow.subject] if workflow.subject else [])
    return subject


async def withdraw_requests(app: App, workflow: str) -> None:
    """Withdraw the pending requests of an ended workflow."""
    for approval in app.store.approvals.find(states=[ApprovalState.PENDING]):
        if workflow_of(approval.run) == workflow:
            with contextlib.suppress(ConflictError):  # it was answered a moment before
                await app.store.approvals.decide(
                    approval.id,
                    ApprovalState.WITHDRAWN,
                    by=Actor(),
                    reason="the workflow has ended",
                    version=approval.version,
                )


async def follow_workflows(app: App, *, watch: Watch | None = None) -> None:
    """Run what is due and go on with what was interrupted, some at once, until cancelled."""
    running: set[asyncio.Task[None]] = set()

    async def carry(held: WorkflowRecord) -> None:
        try:
            ended = await carry_workflow(app, held, watch=watch)
            log.info("%s is %s %s", ended.id, ended.state, ended.reason)
        except Exception as error:  # noqa: BLE001  one broken workflow must not end the agent
            log.error("workflow %s failed: %r", held.id, error)

    async with asyncio.TaskGroup() as group:
        while True:
            held = None
            try:
                if len(running) < AT_ONCE_MAX and not app.store.switch.state().on:
                    held = await _claim_one(app)
            except OperatorError as error:  # the disk may be full now, and not later
                log.error("cannot read workflows: %s", error)
            if held is None:
                await app.clock.sleep(POLL_S)
                continue
            task = group.create_task(carry(held))
            running.add(task)
            task.add_done_callback(running.discard)


async def _carry_one(app: App, workflow: str, watch: Watch | None = None) -> WorkflowRecord | None:
    held = await _claim_one(app, workflow)
    return None if held is None else await carry_workflow(app, held, watch=watch)


async def _claim_one(app: App, workflow: str = "") -> WorkflowRecord | None:
    """Claim a workflow that is due or whose worker is gone. Writes nothing if there is none.

    What a process of this machine held that is gone is free at once, not when its lease ends.
    """
    living = app.store.workflows.find(states=(WorkflowState.PENDING, WorkflowState.IN_PROGRESS))
    now, claims = app.clock.now(), app.store.workflow_claims
    started = [record for record in living if record.state is WorkflowState.IN_PROGRESS]
    for record in started:
        if is_gone(record.worker):
            await claims.renew(record, lease_s=0.0)
    if not started and all(record.due_at > now for record in living):
        return None
    return await claims.claim(
        this_worker(), lease_s=LEASE_S, late_s_max=LATE_S_MAX, workflow=workflow
    )


def list_workflows(
    app: App,
    *,
    states: Sequence[WorkflowState] = (),
    scheduled: bool = False,
    after: str = "",
    limit: int | None = None,
) -> Sequence[WorkflowRecord]:
    """The newest first, in these states or all, older than `after`.

    With `scheduled`, all that wait for their time, soonest first.
    """
    if not scheduled:
        most = WORKFLOWS_MAX if limit is None else limit
        return app.store.workflows.find(states=states, after=after, limit=most)
    waiting = app.store.workflows.find(states=states or [WorkflowState.PENDING])
    return sorted(
        (record for record in waiting if record.scheduled), key=lambda record: record.due_at
    )


def show_workflow(app: App, workflow: str) -> WorkflowView:
    """One workflow with its story. NotFoundError when there is none of that id."""
    found = app.store.workflows.get(workflow)
    if found is None:
        raise NotFoundError(
            f"There is no workflow {workflow[:60]!r}.",
            next_step="List them with: operator workflows list",
        )

    runs = [workflow]
    for name in (step.id for step in found.steps):
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
    """Start no further step and stop the running one; with `undo` roll back the others.

    Its worker does that; without a worker, this process does.
    """
    by = Actor(signed_in(), "user")
    record = await app.store.workflows.cancel(workflow, by=by, reason=reason, undo=undo)
    deadline = app.clock.monotonic() + CANCEL_S_MAX
    while not record.state.over and app.clock.monotonic() < deadline:
        if await _carry_one(app, workflow) is None:
            await app.clock.sleep(CANCEL_POLL_S)
        record = app.store.workflows.get(workflow) or record
    return record


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
    names = [target.name for target in app.controls(subject).targets()]
    for step in record.workflow.steps:
        target = step.action.target
        if target and "${" not in target and target not in names:
            raise NotFoundError(
                f"Step {step.id!r}: {subject!r} has no target {target[:60]!r}.",
                next_step=f"Its targets: {', '.join(names) or 'none'}.",
            )
