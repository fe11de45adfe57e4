"""Carry one claimed workflow to its end: run ready steps, roll back after a failure."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta

from operator_protocols.domain.action import Action, Outcome, Result, digest_of
from operator_protocols.domain.category import FailureCategory
from operator_protocols.domain.workflow import (
    StepNote,
    WorkflowRecord,
    WorkflowState,
    WorkflowStep,
    run_of,
    undo_run_of,
)
from operator_protocols.errors import ConflictError, OperatorError
from operator_protocols.ports import Clock, WorkflowClaims
from operator_sre.codec import to_json
from operator_sre.executor.workflows.progress import Progress
from operator_sre.executor.workflows.references import insert_data, passed_on

__all__ = [
    "ATTEMPTS_MAX",
    "AT_ONCE_MAX",
    "LEASE_S",
    "Carrier",
    "StepAction",
    "StepResult",
    "back_off_s",
    "may_try_again",
]

AT_ONCE_MAX = 4
LEASE_S = 30.0
# How often a running workflow checks whether it was cancelled.
FOLLOW_S = 0.25
REASON_CHARS_MAX = 500
ATTEMPTS_MAX = 3
FIRST_S, LONGEST_S, BASE, JITTER_MAX = 1.0, 60.0, 2.0, 0.5
# Another attempt would say the same.
_HOPELESS = (FailureCategory.SYNTAX, FailureCategory.NOT_FOUND, FailureCategory.PERMISSION)
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StepAction:
    """One action of a step, and the run under which the ledger holds it."""

    action: Action
    run: str
    step: str
    undoes: bool = False


@dataclass(frozen=True, slots=True)
class StepResult:
    """What became of the action of a step, and the entry that holds it."""

    result: Result
    seq: int | None = None


@dataclass(slots=True)
class Carrier:
    """Runs one workflow. It decides when a step runs; its callables decide how.

    `known` tells what the ledger holds of a run: None when it never began. `harmless` is what can
    be repeated; `wanted` reads the current record, with the user who cancelled it.
    """

    record: WorkflowRecord
    progress: Progress
    claims: WorkflowClaims
    clock: Clock
    act: Callable[[StepAction], Awaitable[StepResult]]
    known: Callable[[str], Awaitable[StepResult | None]]
    harmless: Callable[[Action], bool]
    wanted: Callable[[], WorkflowRecord]
    chance: Callable[[], float] = random.random
    lease_s: float = LEASE_S
    _stopped: str = field(default="", init=False)
    _stop: asyncio.Event = field(default_factory=asyncio.Event, init=False)

    async def carry(self) -> WorkflowRecord:
        """Run the remaining steps. ConflictError when another worker has claimed it.

        Cancelling this coroutine only parks the workflow: the next claim continues it.
        """
        if self.wanted().cancelled_by:
            self._stopped = "cancelled"
        watching = asyncio.ensure_future(self._watch())
        try:
            await self._forward()
            if self._stopped == "lost":
                raise ConflictError(
                    f"Workflow {self.record.id} is now carried out by another process."
                )
            progress, failed, wanted = self.progress, self.progress.failed, self.wanted()
            if wanted.cancelled_by and not progress.done:
                why = f"cancelled by {wanted.cancelled_by}"
                why += f": {wanted.reason}" if wanted.reason else ""
                more = await self._roll_back() if wanted.undoes else ""
                return await self._over(WorkflowState.CANCELLED, f"{why}{more}")
            if progress.done:
                return await self._over(WorkflowState.COMPLETED, "")
            assert failed is not None, "a workflow that is neither done nor failed goes on"
            why = f"step {failed.step}: {failed.reason}"
            if progress.unknown:
                look = "its outcome is unknown, so nothing was rolled back; check it first"
                return await self._over(WorkflowState.FAILED, f"unknown: {why}; {look}")
            return await self._over(WorkflowState.FAILED, f"{why}{await self._roll_back()}")
        finally:
            watching.cancel()

    async def _watch(self) -> None:
        """Keep the claim, and notice when it is lost or when the workflow is to end."""
        renewed = self.clock.monotonic()
        while True:
            await self.clock.sleep(FOLLOW_S)
            try:
                if not self._stopped and self.wanted().cancelled_by:
                    self._stopped = "cancelled"
                    self._stop.set()
                if self.clock.monotonic() - renewed >= self.lease_s / 3:
                    renewed = self.clock.monotonic()
                    if not await self.claims.renew(self.record, lease_s=self.lease_s):
                        self._stopped = "lost"
                        self._stop.set()
                        return
            except OperatorError as error:  # the store may be available again at the next check
                log.error("cannot continue workflow %s: %s", self.record.id, error)

    async def _forward(self) -> None:
        running: dict[asyncio.Task[None], str] = {}
        stop = asyncio.ensure_future(self._stop.wait())
        try:
            while True:
                if not self._stopped and self.progress.failed is None:
                    free = AT_ONCE_MAX - len(running)
                    for name in self.progress.ready(running.values())[:free]:
                        running[asyncio.create_task(self._step(name))] = name
                if not running:
                    return
                await asyncio.wait({stop, *running}, return_when=asyncio.FIRST_COMPLETED)
                if self._stopped:
                    await _cancel_all(running)
                for task in [task for task in running if task.done()]:
                    del running[task]
                    if not task.cancelled():
                        task.result()
        finally:
            stop.cancel()
            await _cancel_all(running)

    async def _step(self, name: str) -> None:
        step, progress = self.progress.workflow.step(name), self.progress
        started = progress.open_attempt(name)
        attempt, not_before = progress.next_attempt(name)
        attempt = started.attempt if started else attempt
        try:
            if not_before is not None:
                await self._until((not_before - self.clock.now()).total_seconds())
            while not await self._attempt(step, attempt, resumed=started is not None):
                started, attempt = None, attempt + 1
        except asyncio.CancelledError:
            if self._stopped != "cancelled":
                raise  # parked: the next worker looks up the outcome
            known = progress.notes.get(name)
            last = known.attempt if known else attempt
            run = run_of(self.record.id, name, last)
            cancelled = WorkflowState.CANCELLED
            outcome = Outcome.CANCELLED
            await self._note(StepNote(name, cancelled, last, run, outcome, reason="cancelled"))

    async def _attempt(self, step: WorkflowStep, attempt: int, *, resumed: bool) -> bool:
        """Make one attempt and note what became of it; False when another follows."""
        run = run_of(self.record.id, step.id, attempt)
        action = insert_data(step.action, self.progress.passed_data())
        if not resumed:
            await self._note(StepNote(step.id, WorkflowState.IN_PROGRESS, attempt, run))
        if isinstance(action, str):
            acted = StepResult(Result(Outcome.REFUSED, stderr=action))
        else:
            acted = await self._act_once(StepAction(action, run, step.id), resumed=resumed)
        result = acted.result
        harmless = isinstance(action, Action) and self.harmless(action)
        if result.ok:
            data = passed_on(self.progress.workflow, step.id, result)
            passed, reason = (None, data) if isinstance(data, str) else (data, "")
            kept = {"passed": to_json(passed), "undo": to_json(result.undo)}
            completion_note = StepNote(
                step.id,
                WorkflowState.COMPLETED,
                attempt,
                run,
                result.outcome,
                result.exit_code,
                acted.seq,
                reason=reason,
                passed=passed,
                undo=result.undo,
                digest=digest_of(kept),
            )
            await self._note(completion_note)
            return True
        if not may_try_again(result, attempt, step.attempts_max, harmless=harmless):
            cancelled = result.outcome is Outcome.CANCELLED
            state = WorkflowState.CANCELLED if cancelled else WorkflowState.FAILED
            failure_note = StepNote(
                step.id,
                state,
                attempt,
                run,
                result.outcome,
                result.exit_code,
                acted.seq,
                _why(result),
            )
            await self._note(failure_note)
            return True
        wait_s = back_off_s(attempt, self.chance())
        again = StepNote(
            step.id,
            WorkflowState.PENDING,
            attempt,
            run,
            result.outcome,
            result.exit_code,
            acted.seq,
            f"{_why(result)}; attempt {attempt + 1} follows in {wait_s:.1f} s",
            self.clock.now() + timedelta(seconds=wait_s),
        )
        await self._note(again)
        await self._until(wait_s)
        return False

    async def _act_once(self, action: StepAction, *, resumed: bool) -> StepResult:
        """Never start an action twice: the outcome of a started one is looked up."""
        known = await self.known(action.run) if resumed else None
        return await self.act(action) if known is None else known

    async def _over(self, state: WorkflowState, reason: str) -> WorkflowRecord:
        return await self.claims.end(self.record, state, reason=reason)

    async def _roll_back(self) -> str:
        """Undo what is completed, the last first; it stops where that fails. What to say of it."""
        for name, action in self.progress.to_undo():
            run, started = undo_run_of(self.record.id, name), self.progress.undoing.get(name)
            filled = insert_data(action, self.progress.passed_data())
            if started is None:
                begins = StepNote(name, WorkflowState.IN_PROGRESS, 1, run, undoes=True)
                await self._note(begins)
            if isinstance(filled, str):
                acted = StepResult(Result(Outcome.REFUSED, stderr=filled))
            else:
                undoing = StepAction(filled, run, name, undoes=True)
                acted = await self._act_once(undoing, resumed=started is not None)
            result = acted.result
            note = StepNote(
                name,
                WorkflowState.COMPLETED if result.ok else WorkflowState.FAILED,
                1,
                run,
                result.outcome,
                result.exit_code,
                acted.seq,
                "" if result.ok else _why(result),
                undoes=True,
            )
            await self._note(note)
            if note.state is not WorkflowState.COMPLETED:
                left = ", ".join(each for each, _ in self.progress.to_undo())
                more = f", and left as they are: {left}" if left else ""
                return f"; step {name} could not be rolled back ({note.reason}){more}"
        back = [
            name
            for name, note in self.progress.undoing.items()
            if note.state is WorkflowState.COMPLETED
        ]
        kept = [
            name for name in self.progress.completed if name not in back and self._changes(name)
        ]
        passed_on_or_reason = f"; rolled back: {', '.join(back)}" if back else ""
        return passed_on_or_reason + (f"; has no undo: {', '.join(kept)}" if kept else "")

    def _changes(self, name: str) -> bool:
        action = insert_data(self.progress.workflow.step(name).action, self.progress.passed_data())
        return isinstance(action, str) or not self.harmless(action)

    async def _note(self, note: StepNote) -> None:
        await self.claims.note(self.record, note)
        self.progress.take(note)

    async def _until(self, seconds: float) -> None:
        if seconds > 0:
            await self.clock.sleep(seconds)


async def _cancel_all(running: dict[asyncio.Task[None], str]) -> None:
    """Cancel them, and wait until they have cleaned up."""
    for task in running:
        task.cancel()
    if running:
        await asyncio.wait(running)


def _why(result: Result) -> str:
    lines = result.stderr.strip().splitlines()
    last = lines[-1][:REASON_CHARS_MAX] if lines else ""
    how = f"exit {result.exit_code}" if result.outcome is Outcome.RAN else str(result.outcome)
    return f"{how}: {last}" if last else how


def back_off_s(attempt: int, chance: float) -> float:
    """How long to wait after this attempt; `chance` from 0 to 1 spreads retries."""
    wait_s = min(LONGEST_S, FIRST_S * BASE ** (attempt - 1))
    return min(LONGEST_S, wait_s * (1.0 + JITTER_MAX * chance))


def may_try_again(result: Result, attempt: int, attempts_max: int, *, harmless: bool) -> bool:
    """Whether one more attempt may follow. `harmless` is what can be repeated without asking.

    `attempts_max` is what its definition says, 0 where it says nothing. What was refused stays so;
    of unknown outcomes only harmless actions are repeated.
    """
    allowed = attempts_max or (ATTEMPTS_MAX if harmless else 1)
    if attempt >= allowed or result.ok or result.outcome is Outcome.REFUSED:
        return False
    if result.outcome in (Outcome.UNKNOWN, Outcome.CANCELLED):
        return harmless
    return result.category not in _HOPELESS
