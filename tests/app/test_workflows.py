"""Workflows and scheduled actions as use cases, with real commands."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest

from operator_protocols.domain.action import Action, Outcome
from operator_protocols.domain.entry import Actor, Kind
from operator_protocols.domain.permit import ApprovalState, Permit
from operator_protocols.domain.workflow import (
    Origin,
    StepNote,
    WorkflowRecord,
    WorkflowState,
    run_of,
    workflow_of,
)
from operator_protocols.errors import ConflictError, NotFoundError, UsageError
from operator_sre.app.listeners import this_worker
from operator_sre.app.wiring import App
from operator_sre.app.workflows import (
    LATE_S_MAX,
    StepOutlook,
    WorkflowView,
    add_workflow,
    cancel_workflow,
    carry_workflow,
    command_workflow,
    entries_of,
    follow_workflows,
    foresee_workflow,
    list_workflows,
    read_definition,
    run_workflow,
    show_workflow,
    subject_of,
    tick,
    withdraw_requests,
)
from operator_sre.codec import from_json
from operator_sre.controls import MACHINE
from operator_sre.gate import Way
from tests.app.home import SUBJECTS, opened

pytestmark = pytest.mark.asyncio
AUTO = "version: 1\napproval: {low: auto, medium: auto}\n"
SECRET = "ghp_" + "a1B2" * 9
DEAD = f"{socket.gethostname()}:4194304:{this_worker().rpartition(':')[2]}"


def _auto(folder: Path) -> None:
    (folder / "home").mkdir(exist_ok=True)
    (folder / "home" / "policy.yaml").write_text(AUTO)


def _steps(*steps: Mapping[str, object]) -> dict[str, object]:
    return {"name": "tidy", "steps": list(steps)}


async def _until(app: App, workflow: str, state: WorkflowState) -> WorkflowRecord:
    async with asyncio.timeout(30.0):
        while True:
            found = app.store.workflows.get(workflow)
            if found is not None and found.state is state:
                return found
            await app.clock.sleep(0.02)


async def _asked(app: App) -> str:
    async with asyncio.timeout(30.0):
        while not (found := app.store.approvals.find(states=[ApprovalState.PENDING])):
            await app.clock.sleep(0.02)
    return found[0].id


async def _yes(app: App, approval: str) -> None:
    known = app.store.approvals.get(approval)
    assert known is not None
    by = Actor("ada", "user")
    await app.store.approvals.decide(
        approval, ApprovalState.APPROVED, by=by, reason="", version=known.version
    )


async def _interrupted(app: App, definition: dict[str, object]) -> WorkflowRecord:
    """A workflow whose worker is gone."""
    added = await add_workflow(app, read_definition(app, definition))
    held = await app.store.workflow_claims.claim(DEAD, lease_s=1e6, late_s_max=1e6)
    assert held is not None
    assert held.id == added.id
    return held


async def test_what_a_step_says_is_an_argument_of_the_next(tmp_path: Path) -> None:
    hostile = "$(touch pwned); 'x' \"`touch pwned`\""
    (tmp_path / "data").write_text(hostile)
    look: dict[str, object] = {"id": "look", "argv": ["cat", str(tmp_path / "data")]}
    say = {"id": "say", "command": "echo got ${steps.look.stdout}", "cwd": str(tmp_path)}
    with opened(tmp_path) as app:
        ended = await run_workflow(app, read_definition(app, _steps(look, say)))
        assert ended.state is WorkflowState.COMPLETED, ended.reason
        view = show_workflow(app, ended.id)
        assert isinstance(view, WorkflowView)
        results = [one for one in view.entries if one.kind is Kind.TOOL_RESULT]
        assert results[-1].payload["result"]["stdout"] == f"got {hostile}\n"
        calls = [one for one in view.entries if one.kind is Kind.TOOL_CALL]
        assert [one.run for one in calls] == [run_of(ended.id, name, 1) for name in ("look", "say")]
        # The whole line was judged, with the data in it.
        judged = [one for one in view.entries if one.kind is Kind.VERDICT]
        assert "touch pwned" in judged[-1].payload["action"]["arguments"]["command"]
    assert not (tmp_path / "pwned").exists()


async def test_a_failure_is_taken_back_for_real(tmp_path: Path) -> None:
    _auto(tmp_path)
    made = tmp_path / "made"
    definition = _steps(
        {
            "id": "make",
            "argv": ["mkdir", str(made)],
            "undo": {"argv": ["mkdir", str(made / "undone")]},
        },
        {"id": "fail", "command": "ls /nowhere", "depends_on": ["make"], "retry": False},
    )
    with opened(tmp_path, mode="execute") as app:
        ended = await run_workflow(app, read_definition(app, definition))
        assert ended.state is WorkflowState.FAILED
        assert ended.reason.endswith("rolled back: make"), ended.reason
        assert ended.step("make").undone is WorkflowState.COMPLETED
        commands = [
            one.payload["action"]["arguments"]
            for one in app.store.entries.after(0, limit=999)
            if one.kind is Kind.TOOL_CALL
        ]
        assert [one.get("argv", ["ls"])[0] for one in commands] == ["mkdir", "ls", "mkdir"]
    assert (made / "undone").is_dir()


async def test_nothing_runs_that_the_gate_does_not_permit(tmp_path: Path) -> None:
    made = tmp_path / "made"
    definition = _steps({"id": "make", "argv": ["mkdir", str(made)]})
    with opened(tmp_path) as app:
        workflow = read_definition(app, definition)
        (outlook,) = foresee_workflow(app, workflow)
        assert isinstance(outlook, StepOutlook)
        assert (outlook.way, outlook.waits_for_data) == (Way.PROPOSES, False)
        ended = await run_workflow(app, workflow)
        assert ended.state is WorkflowState.FAILED
        assert ended.step("make").outcome is Outcome.REFUSED
        assert "observe" in ended.reason
        kinds = {one.kind for one in app.store.entries.after(0, limit=99)}
        assert Kind.REFUSED in kinds
        assert Kind.TOOL_CALL not in kinds
    assert not made.exists()


async def test_a_step_waits_for_people_and_is_approved_by_another_process(tmp_path: Path) -> None:
    made = tmp_path / "made"
    definition = _steps({"id": "make", "argv": ["mkdir", str(made)]})
    with opened(tmp_path, mode="approve") as app, opened(tmp_path, mode="approve") as other:
        work = asyncio.ensure_future(run_workflow(app, read_definition(app, definition)))
        await _yes(other, await _asked(other))
        assert (await work).state is WorkflowState.COMPLETED
    assert made.is_dir()


async def test_changes_happen_one_after_another_and_none_is_lost(tmp_path: Path) -> None:
    names = ("one", "two")
    definition = _steps(*({"id": name, "argv": ["mkdir", str(tmp_path / name)]} for name in names))
    with opened(tmp_path, mode="approve") as app:
        work = asyncio.ensure_future(run_workflow(app, read_definition(app, definition)))
        for _ in names:
            await _yes(app, await _asked(app))
        ended = await work
        assert ended.state is WorkflowState.COMPLETED, ended.reason
        order = [one.kind for one in app.store.entries.after(0, limit=999)]
        calls = [one for one in order if one in (Kind.TOOL_CALL, Kind.TOOL_RESULT)]
        assert calls == [Kind.TOOL_CALL, Kind.TOOL_RESULT] * 2
    assert all((tmp_path / name).is_dir() for name in names)


async def test_two_workflows_that_change_one_subject_take_turns(tmp_path: Path) -> None:
    _auto(tmp_path)
    with opened(tmp_path, mode="execute") as app, opened(tmp_path, mode="execute") as other:
        for name in ("one", "two"):
            make = command_workflow(Action.shell(f"mkdir {tmp_path}/{name}; sleep 0.3"))
            await add_workflow(app, make)
        ended = await asyncio.gather(tick(app), tick(other))
        assert [one.state if one else None for one in ended] == [WorkflowState.COMPLETED] * 2, ended


async def test_whoever_is_stopped_cancels_and_takes_the_request_back(tmp_path: Path) -> None:
    definition = _steps({"id": "make", "argv": ["mkdir", str(tmp_path / "made")]})
    with opened(tmp_path, mode="approve") as app:
        work = asyncio.ensure_future(run_workflow(app, read_definition(app, definition)))
        asked = await _asked(app)
        work.cancel()
        with suppress(asyncio.CancelledError):
            await work
        (record,) = list_workflows(app)
        assert record.state is WorkflowState.CANCELLED
        assert "was stopped" in record.reason
        known = app.store.approvals.get(asked)
        assert known is not None
        assert known.state is ApprovalState.WITHDRAWN
        await withdraw_requests(app, record.id)  # fine when there is nothing left


async def test_an_agent_that_is_stopped_parks_and_another_goes_on(tmp_path: Path) -> None:
    definition = _steps(
        {"id": "look", "command": "uptime"},
        {"id": "make", "argv": ["mkdir", str(tmp_path / "made")], "depends_on": ["look"]},
    )
    with opened(tmp_path, mode="approve") as app:
        added = await add_workflow(app, read_definition(app, definition))
        first = asyncio.ensure_future(tick(app))
        asked = await _asked(app)
        first.cancel()
        await asyncio.wait({first})
        parked = app.store.workflows.get(added.id)
        assert parked is not None
        assert parked.state is WorkflowState.IN_PROGRESS
        second = asyncio.ensure_future(tick(app))
        await _yes(app, asked)  # the very request of before counts
        carried = await second
        assert carried is not None
        assert (carried.state, carried.epoch) == (WorkflowState.COMPLETED, 2)
        looks = [
            one
            for one in app.store.entries.after(0, limit=99, run=run_of(added.id, "look", 1))
            if one.kind is Kind.TOOL_CALL
        ]
        assert len(looks) == 1


async def test_after_a_crash_what_had_ended_is_not_run_again(tmp_path: Path) -> None:
    _auto(tmp_path)
    counted = tmp_path / "counted"
    definition = _steps(
        {"id": "count", "command": f"echo ran >> {counted}"},
        {"id": "tell", "command": "echo ${steps.count.exit_code}"},
    )
    with opened(tmp_path, mode="execute") as app:
        held = await _interrupted(app, definition)
        run = run_of(held.id, "count", 1)
        began = StepNote("count", WorkflowState.IN_PROGRESS, 1, run)
        await app.store.workflow_claims.note(held, began)
        await _act_as(app, held, run, f"echo ran >> {counted}")
        ended = await tick(app)
        assert ended is not None
        assert ended.state is WorkflowState.COMPLETED, ended.reason
    assert counted.read_text() == "ran\n"


async def _act_as(app: App, held: WorkflowRecord, run: str, command: str) -> None:
    """Run a step as its worker did before it went, without the note that comes behind it."""
    controls = app.controls(MACHINE)
    verdict = controls.gate.judge(Action.shell(command))
    permit = await controls.gate.permit(
        verdict, None, held.requester, subject=MACHINE, run=run, epoch=held.epoch
    )
    assert isinstance(permit, Permit)
    await controls.executor.execute(permit)


async def test_after_a_crash_what_nobody_knows_the_end_of_is_unknown(tmp_path: Path) -> None:
    _auto(tmp_path)
    counted = tmp_path / "counted"
    definition = _steps({"id": "count", "command": f"echo ran >> {counted}", "retry": True})
    with opened(tmp_path, mode="execute") as app:
        held = await _interrupted(app, definition)
        run = run_of(held.id, "count", 1)
        began = StepNote("count", WorkflowState.IN_PROGRESS, 1, run)
        await app.store.workflow_claims.note(held, began)
        controls = app.controls(MACHINE)
        verdict = controls.gate.judge(Action.shell(f"echo ran >> {counted}"))
        permit = await controls.gate.permit(
            verdict, None, held.requester, subject=MACHINE, run=run, epoch=held.epoch
        )
        assert isinstance(permit, Permit)
        await app.store.intents.begin(permit)
        ended = await tick(app)
        assert ended is not None
        assert ended.state is WorkflowState.FAILED
        assert ended.step("count").outcome in (Outcome.UNKNOWN, Outcome.CANCELLED)
        assert len([one for one in _calls(app) if one == run]) == 1
    assert not counted.exists()


def _calls(app: App) -> list[str]:
    entries = app.store.entries.after(0, limit=9999)
    return [one.run for one in entries if one.kind is Kind.TOOL_CALL]


async def test_a_secret_is_run_with_and_never_written(tmp_path: Path) -> None:
    definition = _steps(
        {"id": "say", "command": f"echo token={SECRET}"},
        {"id": "again", "command": "echo ${steps.say.stdout}"},
    )
    with opened(tmp_path) as app:
        added = await add_workflow(app, read_definition(app, definition), at=app.clock.now())
    with opened(tmp_path) as app:  # another process, later
        ended = await tick(app)
        assert ended is not None
        assert ended.state is WorkflowState.COMPLETED, ended.reason
        lines = [
            one.payload["result"]
            for one in app.store.entries.after(0, limit=999, run=run_of(added.id, "again", 1))
            if one.kind is Kind.TOOL_RESULT
        ]
        spooled = app.spool.path_of(lines[0]["stdout_sha256"])
        assert spooled is not None
        assert SECRET in spooled.read_text()
        everything = str([one.payload for one in app.store.entries.after(0, limit=999)])
        assert SECRET not in everything
        assert SECRET not in str(app.store.workflows.get(added.id))
        assert app.store.reader.rows("SELECT count(*) FROM sealed") == [(0,)]


async def test_a_home_that_cannot_read_a_secret_runs_nothing(tmp_path: Path) -> None:
    with opened(tmp_path) as app:
        definition = read_definition(app, _steps({"id": "say", "command": f"echo {SECRET}"}))
        added = await add_workflow(app, definition, at=app.clock.now())
    (tmp_path / "home" / "vault.key").unlink()
    with opened(tmp_path) as app:
        ended = await tick(app)
        assert ended is not None
        assert ended.id == added.id
        assert ended.state is WorkflowState.FAILED
        assert "secrets" in ended.reason
        assert _calls(app) == []


async def test_what_is_scheduled_runs_when_it_is_due_and_once(tmp_path: Path) -> None:
    with opened(tmp_path) as app:
        workflow = command_workflow(Action.shell("echo hi"))
        later = app.clock.now() + timedelta(hours=1)
        waits = await add_workflow(app, workflow, at=later, origin=Origin.COMMAND)
        assert await tick(app) is None
        assert [one.id for one in list_workflows(app, scheduled=True)] == [waits.id]
        due = await add_workflow(app, workflow, at=app.clock.now())
    with opened(tmp_path) as app, opened(tmp_path) as other:
        both = await asyncio.gather(*(tick(one) for one in (app, other, app, other)))
        assert [one.id for one in both if one is not None] == [due.id]
        assert _calls(app) == [run_of(due.id, "command", 1)]


async def test_what_is_too_late_is_missed(tmp_path: Path) -> None:
    with opened(tmp_path) as app:
        workflow = command_workflow(Action.shell("echo hi"))
        then = app.clock.now() - timedelta(seconds=LATE_S_MAX + 5)
        missed = await add_workflow(app, workflow, at=then)
        assert await tick(app) is None
        assert show_workflow(app, missed.id).workflow.missed
        assert _calls(app) == []


async def test_a_loop_runs_what_comes_until_it_is_stopped(tmp_path: Path) -> None:
    with opened(tmp_path) as app, opened(tmp_path) as other:
        loop = asyncio.ensure_future(follow_workflows(app))
        added = await add_workflow(other, command_workflow(Action.shell("echo hi")))
        ended = await _until(other, added.id, WorkflowState.COMPLETED)
        entries, seq = entries_of(other, added.id, 0)
        assert {workflow_of(one.run) for one in entries} == {ended.id}
        assert entries_of(other, added.id, seq)[0] == []
        loop.cancel()
        await asyncio.wait({loop})


async def test_nothing_is_begun_while_the_kill_switch_is_on(tmp_path: Path) -> None:
    with opened(tmp_path) as app:
        await add_workflow(app, command_workflow(Action.shell("echo hi")))
        await app.store.switch.turn_on(by="ada", reason="")
        assert await tick(app) is None
        (waits,) = list_workflows(app, states=[WorkflowState.PENDING])
        cancelled = await cancel_workflow(app, waits.id, reason="no")
        assert cancelled.state is WorkflowState.CANCELLED
        with pytest.raises(ConflictError, match="already"):
            await cancel_workflow(app, waits.id)


async def test_another_process_cancels_what_runs(tmp_path: Path) -> None:
    definition = _steps(
        {"id": "look", "command": "uptime"},
        {"id": "wait", "command": "sleep 300", "depends_on": ["look"]},
        {"id": "never", "command": "uptime", "depends_on": ["wait"]},
    )
    with opened(tmp_path) as app, opened(tmp_path) as other:
        work = asyncio.ensure_future(run_workflow(app, read_definition(app, definition)))
        async with asyncio.timeout(30.0):
            while len(_calls(other)) < 2:
                await app.clock.sleep(0.02)
        (record,) = list_workflows(other)
        cancelled = await cancel_workflow(other, record.id, reason="enough")
        assert cancelled.state is WorkflowState.CANCELLED
        assert (await work).reason.endswith(": enough")
        states = [one.state.value for one in cancelled.steps]
        assert states == ["completed", "cancelled", "cancelled"]
        assert len(_calls(other)) == 2


async def test_what_a_worker_that_is_gone_left_is_cancelled_here(tmp_path: Path) -> None:
    with opened(tmp_path) as app:
        held = await _interrupted(app, _steps({"id": "a", "command": "uptime"}))
        cancelled = await cancel_workflow(app, held.id, undo=True)
        assert cancelled.state is WorkflowState.CANCELLED
        assert _calls(app) == []


async def test_what_a_workflow_is_about_has_to_be_there(tmp_path: Path) -> None:
    definition = _steps({"id": "a", "command": "uptime", "target": "node-9"})
    with opened(tmp_path, SUBJECTS) as app:
        workflow = read_definition(app, definition)
        with pytest.raises(NotFoundError, match="no target 'node-9'"):
            await add_workflow(app, workflow)
        known = await add_workflow(app, command_workflow(Action.shell("uptime", target="node-1")))
        assert subject_of(app, known) == "shop"
    with opened(tmp_path) as app:  # the subject is gone by now
        ended = await tick(app)
        assert ended is not None
        assert ended.state is WorkflowState.FAILED
        assert "No subject" in ended.reason


async def test_a_definition_is_told_with_all_its_mistakes(tmp_path: Path) -> None:
    path = tmp_path / "w.yaml"
    path.write_text("name: x\nsteps:\n  - id: a\n    tool: nothing\n  - id: a\n    command: ''\n")
    with opened(tmp_path) as app:
        with pytest.raises(UsageError, match=r"3 mistakes: line 4.*line 5.*line 6"):
            read_definition(app, path)
        path.write_bytes(b"\xff\xfe")
        with pytest.raises(UsageError, match="not UTF-8"):
            read_definition(app, path)
        with pytest.raises(UsageError, match="cannot be read"):
            read_definition(app, tmp_path / "gone.yaml")
        with pytest.raises(NotFoundError, match="no workflow"):
            show_workflow(app, "workflow-9")


async def test_a_typed_tool_is_a_step_like_any_other(tmp_path: Path) -> None:
    definition = _steps({"id": "knock", "tool": "check_port", "target": "node-1"})
    with opened(tmp_path, SUBJECTS) as app:
        ended = await run_workflow(app, read_definition(app, definition))
        assert ended.state is WorkflowState.COMPLETED, ended.reason
        assert ended.step("knock").exit_code == 0


async def test_a_defect_ends_the_workflow_and_not_the_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path) as app:
        added = await add_workflow(app, command_workflow(Action.shell("echo hi")))

        def broken(*words: object, **more: object) -> None:
            raise ZeroDivisionError

        monkeypatch.setattr("operator_sre.gate.permits.judge", broken)
        held = await app.store.workflow_claims.claim("w", lease_s=9.0, late_s_max=9.0)
        assert held is not None
        with pytest.raises(ZeroDivisionError):
            await carry_workflow(app, held)
        record = show_workflow(app, added.id).workflow
        assert record.state is WorkflowState.FAILED
        assert "ZeroDivisionError" in record.reason
        assert from_json(WorkflowState, "failed") is record.state
