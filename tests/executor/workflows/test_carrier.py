"""A workflow is carried to its end: in order, some at once, again, back, and after a crash."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from operator_protocols.domain.action import Action, Outcome, Result, digest_of
from operator_protocols.domain.entry import Actor
from operator_protocols.domain.workflow import (
    StepNote,
    Workflow,
    WorkflowRecord,
    WorkflowState,
    WorkflowStep,
    run_of,
    undo_run_of,
)
from operator_protocols.errors import ConflictError
from operator_sre.codec import to_json
from operator_sre.executor.workflows import Carrier, StepAction, StepResult
from operator_sre.executor.workflows.carrier import AT_ONCE_MAX, FOLLOW_S, LEASE_S
from operator_sre.executor.workflows.progress import Progress
from operator_sre.store import Store, open_store
from tests.contract.clock import HeldClock
from tests.contract.samples import workflow_record

pytestmark = pytest.mark.asyncio
OK = Result(Outcome.RAN, 0)
BAD = Result(Outcome.RAN, 1, stderr="no\n")
UNKNOWN = Result(Outcome.UNKNOWN, stderr="Nobody saw how it ended.")
CREATED = Action.shell("mkdir zz")


def _step(name: str, *needs: str, **more: object) -> WorkflowStep:
    return WorkflowStep(name, Action.shell(f"do {name}"), needs, **more)  # type: ignore[arg-type]


class Bench:
    """A workflow in a real store, whose actions end as the test says."""

    def __init__(self, folder: Path) -> None:
        self.clock = HeldClock()
        self.store: Store = open_store(folder / "operator.db", clock=self.clock)
        self.ends: dict[str, list[Result]] = {}
        self.acted: list[str] = []
        self.recorded: dict[str, Result] = {}
        self.gates: dict[str, asyncio.Event] = {}
        self.interrupted: list[str] = []
        self.harmless = False
        self.chance = 0.0
        self.record = workflow_record()

    async def given(self, *steps: WorkflowStep, worker: str = "worker") -> WorkflowRecord:
        workflow = Workflow("w", steps)
        digest = digest_of(to_json(workflow))
        record = replace(workflow_record(), workflow=workflow, digest=digest)
        self.record = await self.store.workflows.add(record, worker=worker, lease_s=LEASE_S)
        return self.record

    async def act(self, action: StepAction) -> StepResult:
        self.acted.append(action.run.partition("/")[2])
        try:
            if action.step in self.gates:
                await self.gates[action.step].wait()
        except asyncio.CancelledError:
            self.interrupted.append(action.step)
            raise
        key = f"undo {action.step}" if action.undoes else action.step
        return StepResult(self.ends.get(key, [OK]).pop(0) if self.ends.get(key) else OK, 1)

    async def known(self, run: str) -> StepResult | None:
        found = self.recorded.get(run)
        return StepResult(found, 5) if found else None

    def carrier(self) -> Carrier:
        entries = self.store.entries.after(0, limit=9999, run=self.record.id)
        return Carrier(
            record=self.record,
            progress=Progress.of(entries),
            claims=self.store.workflow_claims,
            clock=self.clock,
            act=self.act,
            known=self.known,
            harmless=lambda action: self.harmless,
            wanted=lambda: self.store.workflows.get(self.record.id) or self.record,
            chance=lambda: self.chance,
        )

    async def carried(self) -> WorkflowRecord:
        return await self.carrier().carry()

    async def noted(self, *notes: StepNote) -> None:
        for note in notes:
            await self.store.workflow_claims.note(self.record, note)

    def states(self) -> list[str]:
        record = self.store.workflows.get(self.record.id)
        assert record is not None
        return [step.state.value for step in record.steps]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """An empty bench."""
    bench = Bench(tmp_path)
    yield bench
    bench.store.close()


async def _until(holds: Callable[[], bool]) -> None:
    """Let everybody have their turns until something holds."""
    async with asyncio.timeout(10.0):
        while not holds():  # noqa: ASYNC110  it may be the work of a thread
            await asyncio.sleep(0)


async def test_steps_run_in_their_order_and_it_is_completed(bench: Bench) -> None:
    await bench.given(_step("c", "b"), _step("a"), _step("b", "a"))
    ended = await bench.carried()
    assert bench.acted == ["a/1", "b/1", "c/1"]
    assert (ended.state, ended.reason) == (WorkflowState.COMPLETED, "")
    assert bench.states() == ["completed"] * 3


async def test_what_is_independent_runs_at_once_but_not_all_of_it(bench: Bench) -> None:
    names = [f"s{number}" for number in range(6)]
    bench.gates = {name: asyncio.Event() for name in names}
    await bench.given(*map(_step, names))
    work = asyncio.ensure_future(bench.carried())
    await _until(lambda: len(bench.acted) == AT_ONCE_MAX)
    bench.gates["s0"].set()
    await _until(lambda: bench.states()[0] == "completed")
    await _until(lambda: len(bench.acted) > AT_ONCE_MAX)
    assert (AT_ONCE_MAX, len(bench.acted)) == (4, 5)
    for gate in bench.gates.values():
        gate.set()
    assert (await work).state is WorkflowState.COMPLETED


async def test_a_harmless_step_is_tried_three_times_with_growing_waits(bench: Bench) -> None:
    bench.harmless, bench.chance = True, 0.5
    bench.ends["a"] = [BAD, BAD, OK]
    await bench.given(_step("a"))
    work = asyncio.ensure_future(bench.carried())
    await bench.clock.asleep(for_s=1.25)
    assert bench.states() == ["pending"]
    bench.clock.advance(1.25)
    await bench.clock.asleep(for_s=2.5)
    bench.clock.advance(2.5)
    assert (await work).state is WorkflowState.COMPLETED
    assert bench.acted == ["a/1", "a/2", "a/3"]


async def test_what_changes_something_is_tried_once_unless_it_says_retry(bench: Bench) -> None:
    bench.ends = {"a": [BAD], "b": [BAD, OK]}
    await bench.given(_step("a"))
    assert (await bench.carried()).state is WorkflowState.FAILED
    assert bench.acted == ["a/1"]


async def test_retry_on_purpose(bench: Bench) -> None:
    bench.ends["b"] = [BAD, OK]
    await bench.given(_step("b", attempts_max=2))
    work = asyncio.ensure_future(bench.carried())
    await bench.clock.asleep(for_s=1.0)
    bench.clock.advance(1.0)
    assert (await work).state is WorkflowState.COMPLETED


async def test_a_failure_is_taken_back_the_last_first(bench: Bench) -> None:
    undone = replace(OK, undo=Action.shell("undo a"))
    bench.ends = {"a": [undone], "d": [BAD]}
    await bench.given(
        _step("a"),
        _step("b", "a", undo=Action.shell("rmdir zz")),
        _step("c", "b"),
        _step("d", "c"),
        _step("e", "d"),
    )
    ended = await bench.carried()
    assert bench.acted == ["a/1", "b/1", "c/1", "d/1", "b/undo", "a/undo"]
    assert ended.state is WorkflowState.FAILED
    assert ended.reason == "step d: exit 1: no; rolled back: b, a; has no undo: c"
    assert bench.states() == ["completed", "completed", "completed", "failed", "cancelled"]
    assert ended.step("b").undone is WorkflowState.COMPLETED


async def test_taking_back_stops_where_it_fails(bench: Bench) -> None:
    undo = Action.shell("rmdir zz")
    bench.ends = {"c": [BAD], "undo b": [BAD]}
    await bench.given(_step("a", undo=undo), _step("b", "a", undo=undo), _step("c", "b"))
    ended = await bench.carried()
    assert bench.acted[-1] == "b/undo"
    assert "step b could not be rolled back (exit 1: no), and left as they are: a" in ended.reason
    assert ended.step("b").undone is WorkflowState.FAILED


async def test_those_that_run_beside_a_failure_come_to_their_end(bench: Bench) -> None:
    bench.ends["a"] = [BAD]
    bench.gates["b"] = asyncio.Event()
    await bench.given(_step("a"), _step("b", undo=Action.shell("ls")), _step("c", "b"))
    work = asyncio.ensure_future(bench.carried())
    await _until(lambda: bench.states()[0] == "failed" and "b/1" in bench.acted)
    bench.gates["b"].set()
    ended = await work
    assert bench.acted == ["a/1", "b/1", "b/undo"]
    assert ended.state is WorkflowState.FAILED


async def test_a_refused_step_fails_and_is_not_tried_again(bench: Bench) -> None:
    bench.harmless = True
    bench.ends["a"] = [Result(Outcome.REFUSED, stderr="Blocked: it never runs.")]
    await bench.given(_step("a"))
    ended = await bench.carried()
    assert ended.reason == "step a: refused: Blocked: it never runs."
    assert ended.step("a").outcome is Outcome.REFUSED


async def test_data_is_passed_on_and_what_cannot_be_fails_the_step_behind(bench: Bench) -> None:
    bench.ends["a"] = [replace(OK, stdout="x", truncated=True)]
    wants = WorkflowStep("b", Action.shell("echo ${steps.a.stdout}"), ("a",))
    await bench.given(_step("a"), wants)
    ended = await bench.carried()
    assert bench.acted == ["a/1"]
    assert ended.reason.startswith("step b: refused: step 'a' has no stdout to pass on.")
    assert "was truncated" in ended.step("a").reason


async def test_what_a_crash_interrupted_is_looked_up_and_not_begun_again(bench: Bench) -> None:
    record = await bench.given(_step("a"), _step("b", "a"))
    run = run_of(record.id, "a", 1)
    await bench.noted(StepNote("a", WorkflowState.IN_PROGRESS, 1, run))
    bench.recorded[run] = OK
    ended = await bench.carried()
    assert bench.acted == ["b/1"]
    assert ended.state is WorkflowState.COMPLETED
    assert ended.step("a").seq == 5


async def test_a_step_that_never_began_begins_under_the_same_name(bench: Bench) -> None:
    record = await bench.given(_step("a"))
    await bench.noted(StepNote("a", WorkflowState.IN_PROGRESS, 1, run_of(record.id, "a", 1)))
    assert (await bench.carried()).state is WorkflowState.COMPLETED
    assert bench.acted == ["a/1"]


async def test_what_nobody_knows_fails_the_workflow_and_takes_nothing_back(bench: Bench) -> None:
    record = await bench.given(
        _step("a", undo=Action.shell("ls")), _step("b", "a", attempts_max=3), _step("c", "b")
    )
    done = StepNote("a", WorkflowState.COMPLETED, 1, run_of(record.id, "a", 1), Outcome.RAN, 0)
    run = run_of(record.id, "b", 1)
    await bench.noted(done, StepNote("b", WorkflowState.IN_PROGRESS, 1, run))
    bench.recorded[run] = UNKNOWN
    ended = await bench.carried()
    assert bench.acted == []
    assert ended.state is WorkflowState.FAILED
    assert ended.reason.startswith("unknown: step b: unknown: Nobody saw how it ended.")
    assert ended.step("b").outcome is Outcome.UNKNOWN


async def test_what_nobody_knows_is_done_again_where_that_does_no_harm(bench: Bench) -> None:
    bench.harmless = True
    record = await bench.given(_step("a"))
    run = run_of(record.id, "a", 1)
    await bench.noted(StepNote("a", WorkflowState.IN_PROGRESS, 1, run))
    bench.recorded[run] = UNKNOWN
    work = asyncio.ensure_future(bench.carried())
    await bench.clock.asleep(for_s=1.0)
    bench.clock.advance(1.0)
    assert (await work).state is WorkflowState.COMPLETED
    assert bench.acted == ["a/2"]


async def test_a_wait_that_a_crash_interrupted_is_waited_out(bench: Bench) -> None:
    bench.harmless = True
    bench.ends["a"] = [BAD, OK]
    await bench.given(_step("a"))
    first = asyncio.ensure_future(bench.carried())
    await bench.clock.asleep(for_s=1.0)
    first.cancel()
    await asyncio.wait({first})
    bench.clock.advance(0.25)
    second = asyncio.ensure_future(bench.carried())
    await bench.clock.asleep(for_s=0.75)
    bench.clock.advance(0.75)
    assert (await second).state is WorkflowState.COMPLETED
    assert bench.acted == ["a/1", "a/2"]


async def test_taking_back_goes_on_after_a_crash_where_it_was(bench: Bench) -> None:
    undo = Action.shell("rmdir zz")
    record = await bench.given(_step("a", undo=undo), _step("b", "a", undo=undo), _step("c", "b"))
    done = [StepNote(name, WorkflowState.COMPLETED, 1, run_of(record.id, name, 1)) for name in "ab"]
    failed = StepNote("c", WorkflowState.FAILED, 1, run_of(record.id, "c", 1), Outcome.RAN, 1)
    back = undo_run_of(record.id, "b")
    began = StepNote("b", WorkflowState.IN_PROGRESS, 1, back, undoes=True)
    await bench.noted(*done, failed, began)
    bench.recorded[back] = OK
    ended = await bench.carried()
    assert bench.acted == ["a/undo"]
    assert "rolled back: b, a" in ended.reason


async def test_cancelling_ends_what_runs_and_begins_no_more(bench: Bench) -> None:
    bench.gates["b"] = asyncio.Event()
    await bench.given(_step("a", undo=Action.shell("ls")), _step("b", "a"), _step("c", "b"))
    work = asyncio.ensure_future(bench.carried())
    await bench.clock.asleep(for_s=FOLLOW_S)
    await _until(lambda: "b/1" in bench.acted)
    by = Actor("ada", "user")
    await bench.store.workflows.cancel(bench.record.id, by=by, reason="enough")
    bench.clock.advance(FOLLOW_S)
    ended = await work
    assert bench.interrupted == ["b"]
    assert bench.acted == ["a/1", "b/1"]
    assert (ended.state, ended.reason) == (WorkflowState.CANCELLED, "cancelled by ada: enough")
    assert bench.states() == ["completed", "cancelled", "cancelled"]


async def test_cancelling_takes_back_only_when_told_to(bench: Bench) -> None:
    record = await bench.given(_step("a", undo=Action.shell("ls")), _step("b", "a"))
    done = StepNote("a", WorkflowState.COMPLETED, 1, run_of(record.id, "a", 1), Outcome.RAN, 0)
    await bench.noted(done)
    by = Actor("ada", "user")
    await bench.store.workflows.cancel(record.id, by=by, reason="", undo=True)
    ended = await bench.carried()
    assert bench.acted == ["a/undo"]
    assert (ended.state, ended.reason) == (
        *(WorkflowState.CANCELLED, "cancelled by ada; rolled back: a"),
    )


async def test_a_claim_that_is_lost_ends_the_work_without_a_word(bench: Bench) -> None:
    bench.gates["a"] = asyncio.Event()
    await bench.given(_step("a"))
    work = asyncio.ensure_future(bench.carried())
    await bench.clock.asleep(for_s=FOLLOW_S)
    await _until(lambda: "a/1" in bench.acted)
    await bench.store.workflow_claims.renew(bench.record, lease_s=0.0)
    other = await bench.store.workflow_claims.claim("other", lease_s=30.0, late_s_max=600.0)
    assert other is not None
    bench.clock.advance(LEASE_S / 3)
    with pytest.raises(ConflictError, match="carried out by another process"):
        await work
    assert bench.interrupted == ["a"]
    assert bench.states() == ["in_progress"]


async def test_whoever_works_long_keeps_the_claim(bench: Bench) -> None:
    bench.gates["a"] = asyncio.Event()
    await bench.given(_step("a"))
    work = asyncio.ensure_future(bench.carried())
    await _until(lambda: "a/1" in bench.acted)
    for _ in range(20):
        await bench.clock.asleep(for_s=FOLLOW_S)
        bench.clock.advance(LEASE_S / 4)
        taken = await bench.store.workflow_claims.claim("other", lease_s=30.0, late_s_max=600.0)
        assert taken is None
    bench.gates["a"].set()
    assert (await work).state is WorkflowState.COMPLETED


async def test_what_redaction_took_away_is_not_passed_on(bench: Bench) -> None:
    bench.ends["a"] = [replace(OK, stdout="password")]
    wants = WorkflowStep("b", Action.shell("echo ${steps.a.stdout}"), ("a",))
    await bench.given(_step("a"), wants)
    await bench.carried()
    entries = list(bench.store.entries.after(0, limit=99, run=bench.record.id))
    assert Progress.of(entries).passed_data()["a"].stdout == "password"
    for at, entry in enumerate(entries):
        note = entry.payload.get("note")
        if note and note["passed"]:
            redacted = {**note, "passed": {**note["passed"], "stdout": "***"}}
            entries[at] = replace(entry, payload={"note": redacted})
    assert Progress.of(entries).passed_data()["a"].stdout is None
    record = entries[0].payload["record"]
    other = {**record, "workflow": {**record["workflow"], "name": "***"}}
    entries[0] = replace(entries[0], payload={"record": other})
    assert not Progress.of(entries).intact
