"""What Workflows and WorkflowClaims promise: one worker at a time, nothing begun twice or late."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from operator_protocols.domain.action import Action, Outcome, Result
from operator_protocols.domain.command import Command, CommandFilter
from operator_protocols.domain.entry import Actor, Kind
from operator_protocols.domain.permit import Permit
from operator_protocols.domain.workflow import (
    PREFIX,
    Origin,
    Passed,
    StepNote,
    StepRecord,
    Workflow,
    WorkflowRecord,
    WorkflowState,
    run_of,
    undo_run_of,
    workflow_of,
)
from operator_protocols.errors import ConflictError, NotFoundError, PermitError
from operator_protocols.ports import Clock, WorkflowClaims, Workflows
from operator_sre.gate import Gate, Policy
from tests.contract.clock import HeldClock
from tests.contract.samples import workflow_record
from tests.contract.stores import Home, Ports

pytestmark = pytest.mark.asyncio
ADA = Actor("ada", "user")
LATE_S = 600.0


async def _claim(ports: Ports, worker: str = "worker", workflow: str = "") -> WorkflowRecord | None:
    return await ports.workflow_claims.claim(
        worker, lease_s=30.0, late_s_max=LATE_S, workflow=workflow
    )


async def _held(ports: Ports, name: str = "workflow-1", worker: str = "worker") -> WorkflowRecord:
    return await ports.workflows.add(workflow_record(name), worker=worker, lease_s=30.0)


async def _permit(ports: Ports, clock: Clock, run: str, epoch: int) -> Permit:
    ids = (f"{number:032}" for number in itertools.count(1))
    gate = Gate(Policy, ports.journal, ports.approvals, clock, lambda: next(ids))
    verdict = gate.judge(Action.shell("uptime"))
    permit = await gate.permit(verdict, None, ADA, subject="machine", run=run, epoch=epoch)
    assert isinstance(permit, Permit)
    assert (permit.run, permit.epoch, permit.ticket) == (run, epoch, None)
    return permit


def _done(step: str = "look", **more: object) -> StepNote:
    state, run = WorkflowState.COMPLETED, run_of("workflow-1", step, 1)
    return StepNote(step, state, 1, run, Outcome.RAN, 0, 7, **more)  # type: ignore[arg-type]


async def test_it_stands_as_it_was_given_after_a_restart(home: Home) -> None:
    ports = home.open()
    assert isinstance(ports.workflows, Workflows)
    assert isinstance(ports.workflow_claims, WorkflowClaims)
    given = workflow_record(in_s=60.0)
    added = await ports.workflows.add(given)
    home.close()
    again = home.open()
    assert again.workflows.get("workflow-1") == added
    assert (added.workflow, added.digest, added.due_at) == (
        *(given.workflow, given.digest, given.due_at),
    )
    assert isinstance(added.workflow, Workflow)
    assert added.steps == (StepRecord("look"), StepRecord("act"))
    assert (added.scheduled, added.origin, added.state) == (
        *(True, Origin.WORKFLOW, WorkflowState.PENDING),
    )
    assert again.workflows.get("workflow-9") is None


async def test_nothing_is_claimed_before_its_time_and_then_once(
    ports: Ports, clock: HeldClock
) -> None:
    await ports.workflows.add(workflow_record(in_s=60.0))
    assert await _claim(ports) is None
    clock.advance(60.0)
    claimed = await _claim(ports)
    assert claimed is not None
    assert (claimed.state, claimed.epoch, claimed.worker) == (
        *(WorkflowState.IN_PROGRESS, 1, "worker"),
    )
    assert await _claim(ports) is None


async def test_what_is_too_late_is_missed_and_never_run(ports: Ports, clock: HeldClock) -> None:
    await ports.workflows.add(workflow_record("workflow-1", in_s=60.0))
    await ports.workflows.add(workflow_record("workflow-2", in_s=700.0))
    clock.advance(60.0 + LATE_S + 1.0)
    claimed = await _claim(ports)
    assert claimed is None
    missed = ports.workflows.get("workflow-1")
    assert missed is not None
    assert (missed.state, missed.missed) == (WorkflowState.FAILED, True)
    assert missed.reason.startswith("missed: it was due at 2026-03-04 12:01:00 UTC")
    assert all(step.state is WorkflowState.CANCELLED for step in missed.steps)
    clock.advance(60.0)
    later = await _claim(ports)
    assert later is not None
    assert later.id == "workflow-2"


async def test_of_many_who_claim_one_gets_it(home: Home) -> None:
    one, other = home.open(), home.open()
    await one.workflows.add(workflow_record())
    claims = [_claim(ports, f"w{n}") for n, ports in enumerate([one, other] * 5)]
    found = [record for record in await asyncio.gather(*claims) if record is not None]
    assert len(found) == 1


async def test_a_lease_that_ends_lets_another_go_on(ports: Ports, clock: HeldClock) -> None:
    first = await _held(ports)
    clock.advance(29.0)
    assert await _claim(ports, "other") is None
    assert await ports.workflow_claims.renew(first, lease_s=30.0)
    clock.advance(29.0)
    assert await _claim(ports, "other") is None
    clock.advance(2.0)
    second = await _claim(ports, "other")
    assert second is not None
    assert (second.epoch, second.worker) == (2, "other")
    assert not await ports.workflow_claims.renew(first, lease_s=30.0)
    with pytest.raises(ConflictError, match="claimed by another worker"):
        await ports.workflow_claims.note(first, _done())
    with pytest.raises(ConflictError, match="claimed by another worker"):
        await ports.workflow_claims.end(first, WorkflowState.COMPLETED, reason="")


async def test_what_is_given_back_is_free_at_once(ports: Ports) -> None:
    first = await _held(ports)
    assert await ports.workflow_claims.renew(first, lease_s=0.0)
    assert await _claim(ports, workflow="workflow-9") is None
    again = await _claim(ports, workflow="workflow-1")
    assert again is not None
    assert again.epoch == 2


async def test_every_note_is_on_record_and_in_the_step(ports: Ports) -> None:
    record = await _held(ports)
    begins = StepNote("look", WorkflowState.IN_PROGRESS, 1, run_of(record.id, "look", 1))
    await ports.workflow_claims.note(record, begins)
    passed = Passed(stdout="x", data={"pid": 1})
    await ports.workflow_claims.note(record, _done(passed=passed, undo=Action.shell("ls")))
    back = StepNote("look", WorkflowState.FAILED, 1, undo_run_of(record.id, "look"), undoes=True)
    await ports.workflow_claims.note(record, back)
    ended = await ports.workflow_claims.end(record, WorkflowState.FAILED, reason="it broke")
    look, act = ended.steps
    assert (look.state, look.attempts, look.exit_code, look.seq) == (
        *(WorkflowState.COMPLETED, 1, 0, 7),
    )
    assert look.undone is WorkflowState.FAILED
    assert act.state is WorkflowState.CANCELLED  # it never began, and never will
    assert (ended.state, ended.reason, ended.worker) == (WorkflowState.FAILED, "it broke", "")
    assert ended.ended_at is not None
    assert record.step("look").state is WorkflowState.PENDING
    kinds = [entry.kind for entry in ports.entries.after(0, limit=99, run=record.id)]
    assert kinds == [
        *(Kind.WORKFLOW_REQUESTED, Kind.WORKFLOW_CLAIMED, Kind.WORKFLOW_STEP, Kind.WORKFLOW_STEP),
        *(Kind.WORKFLOW_UNDO, Kind.WORKFLOW_ENDED),
    ]
    assert await _claim(ports) is None


async def test_cancelling_what_nobody_has_begun_ends_it(ports: Ports, clock: HeldClock) -> None:
    await ports.workflows.add(workflow_record(in_s=60.0))
    record = await ports.workflows.cancel("workflow-1", by=ADA, reason="not today")
    assert (record.state, record.reason) == (WorkflowState.CANCELLED, "cancelled by ada: not today")
    clock.advance(60.0)
    assert await _claim(ports) is None
    with pytest.raises(ConflictError, match="already cancelled"):
        await ports.workflows.cancel("workflow-1", by=ADA, reason="")
    with pytest.raises(NotFoundError):
        await ports.workflows.cancel("workflow-9", by=ADA, reason="")


async def test_cancelling_what_runs_tells_whoever_runs_it(ports: Ports) -> None:
    await _held(ports)
    record = await ports.workflows.cancel("workflow-1", by=ADA, reason="", undo=True)
    assert (record.state, record.cancelled_by, record.undoes) == (
        *(WorkflowState.IN_PROGRESS, "ada", True),
    )


async def test_workflows_are_found_by_state_newest_first(ports: Ports) -> None:
    for number in (1, 2, 3):
        await ports.workflows.add(workflow_record(f"{PREFIX}{number}"))
    await ports.workflows.cancel("workflow-2", by=ADA, reason="")
    assert [one.id for one in ports.workflows.find()] == ["workflow-3", "workflow-2", "workflow-1"]
    pending = ports.workflows.find(states=[WorkflowState.PENDING])
    assert [one.id for one in pending] == ["workflow-3", "workflow-1"]
    assert len(ports.workflows.find(limit=1)) == 1
    assert [one.id for one in ports.workflows.find(after="workflow-3")] == [
        *("workflow-2", "workflow-1"),
    ]
    assert [one.id for one in ports.workflows.find(after="workflow-2", limit=1)] == ["workflow-1"]
    assert not ports.workflows.find(after="nosuch")


async def test_a_step_begins_only_under_the_claim_that_holds(
    ports: Ports, clock: HeldClock
) -> None:
    first = await _held(ports)
    run = run_of(first.id, "look", 1)
    stale = await _permit(ports, clock, run, first.epoch)
    await ports.workflow_claims.renew(first, lease_s=0.0)
    second = await _claim(ports, "other")
    assert second is not None
    with pytest.raises(PermitError, match="claim that has ended"):
        await ports.intents.begin(stale)
    intent = await ports.intents.begin(await _permit(ports, clock, run, second.epoch))
    assert intent.run == run
    await ports.intents.end(intent, Result(Outcome.RAN, 0))
    (command,) = [one for one in _commands(ports) if one.run == run]
    assert command.workflow == first.id == workflow_of(run)


async def test_one_attempt_begins_once_even_under_one_claim(ports: Ports, clock: HeldClock) -> None:
    record = await _held(ports)
    run = run_of(record.id, "look", 1)
    permits = [await _permit(ports, clock, run, 1) for _ in range(3)]
    outcomes = await asyncio.gather(
        *(ports.intents.begin(permit) for permit in permits), return_exceptions=True
    )
    refused = [one for one in outcomes if isinstance(one, PermitError)]
    assert len(refused) == 2
    assert all("already started" in str(one) for one in refused)


async def test_nothing_but_an_undo_begins_in_what_was_cancelled(
    ports: Ports, clock: HeldClock
) -> None:
    record = await _held(ports)
    permit = await _permit(ports, clock, run_of(record.id, "look", 1), 1)
    back = await _permit(ports, clock, undo_run_of(record.id, "look"), 1)
    await ports.workflows.cancel(record.id, by=ADA, reason="")
    with pytest.raises(PermitError, match="was cancelled"):
        await ports.intents.begin(permit)
    assert (await ports.intents.begin(back)).run == undo_run_of(record.id, "look")


async def test_a_run_that_is_no_workflow_s_begins_nothing(ports: Ports, clock: HeldClock) -> None:
    permit = await _permit(ports, clock, "run-1", 0)
    with pytest.raises(PermitError, match="claim that has ended"):
        await ports.intents.begin(permit)
    assert workflow_of("run-1") == ""


def _commands(ports: Ports) -> list[Command]:
    return list(ports.commands.newest(CommandFilter(), limit=99))
