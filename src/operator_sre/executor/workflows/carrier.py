"""Carry one claimed workflow to its end: what is ready runs, what failed is taken back."""

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
from operator_sre.executor.workflows.references import inserted, passed_on

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
# How often whoever runs a workflow asks whether somebody wants it to end.
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
    """The hands of one workflow. It decides when what is done; how is what it is given.

    `known` tells what the ledger holds of a run: None when it never began. `harmless` is what can
    be repeated; `wanted` is the record as it is now, with whoever wants it to end.
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
        """Run what is left of it. ConflictError when another worker has it by now.

        Whoever cancels this only parks it: it goes on with whoever claims it next.
        """
        if self.wanted().cancelled_by:
            self._stopped = "cancelled"
        watching = asyncio.ensure_future(self._watch())
        try:
            await self._forward()
            if self._stopped == "lost":
                raise ConflictError(f"Workflow {self.record.id} has changed hands.")
            progress, failed, wanted = self.progress, self.progress.failed, self.wanted()
            if wanted.cancelled_by and not progress.done:
                why = f"cancelled by {wanted.cancelled_by}"
                why += f": {wanted.reason}" if wanted.reason else ""
                more = await self._take_back() if wanted.undoes else ""
                return await self._over(WorkflowState.CANCELLED, f"{why}{more}")
            if progress.done:
                return await self._over(WorkflowState.COMPLETED, "")
            assert failed is not None, "a workflow that is neither done nor failed goes on"
            why = f"step {failed.step}: {failed.reason}"
            if progress.unknown:
                look = "nobody knows what became of it, so that nothing was taken back; look first"
                return await self._over(WorkflowState.FAILED, f"unknown: {why}; {look}")
            return await self._over(WorkflowState.FAILED, f"{why}{await self._take_back()}")
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
            except OperatorError as error:  # the store may be back at the next look
                log.error("cannot look after workflow %s: %s", self.record.id, error)

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
                    await _ended(running)
                for task in [task for task in running if task.done()]:
                    del running[task]
                    if not task.cancelled():
                        task.result()
        finally:
            stop.cancel()
            await _ended(running)

    async def _step(self, name: str) -> None:
        step, progress = self.progress.workflow.step(name), self.progress
        begun = progress.begun(name)
        attempt, not_before = progress.next_attempt(name)
        attempt = begun.attempt if begun else attempt
        try:
            if not_before is not None:
                await self._until((not_before - self.clock.now()).total_seconds())
            while not await self._attempt(step, attempt, resumed=begun is not None):
                begun, attempt = None, attempt + 1
        except asyncio.CancelledError:
            if self._stopped != "cancelled":
                raise  # parked: whoever goes on with it finds what became of it
            known = progress.notes.get(name)
            last = known.attempt if known else attempt
            run = run_of(self.record.id, name, last)
            cancelled = WorkflowState.CANCELLED
            outcome = Outcome.CANCELLED
            await self._note(StepNote(name, cancelled, last, run, outcome, reason="cancelled"))

    async def _attempt(self, step: WorkflowStep, attempt: int, *, resumed: bool) -> bool:
        """Make one attempt and note what became of it; False when another follows."""
        run = run_of(self.record.id, step.id, attempt)
        action = inserted(step.action, self.progress.passed())
        if not resumed:
            await self._note(StepNote(step.id, WorkflowState.IN_PROGRESS, attempt, run))
        if isinstance(action, str):
            acted = StepResult(Result(Outcome.REFUSED, stderr=action))
        else:
            acted = await self._done(StepAction(action, run, step.id), resumed=resumed)
        result = acted.result
        harmless = isinstance(action, Action) and self.harmless(action)
        if result.ok:
            await self._note(self._completed(step, attempt, run, acted))
            return True
        if not may_try_again(result, attempt, step.attempts_max, harmless=harmless):
            await self._note(_failed(step.id, attempt, run, acted))
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

    async def _done(self, action: StepAction, *, resumed: bool) -> StepResult:
        """What has begun is never begun again: what became of it is looked up."""
        known = await self.known(action.run) if resumed else None
        return await self.act(action) if known is None else known

    def _completed(self, step: WorkflowStep, attempt: int, run: str, acted: StepResult) -> StepNote:
        result = acted.result
        told = passed_on(self.progress.workflow, step.id, result)
        passed = None if isinstance(told, str) else told
        kept = {"passed": to_json(passed), "undo": to_json(result.undo)}
        return StepNote(
            step.id,
            WorkflowState.COMPLETED,
            attempt,
            run,
            result.outcome,
            result.exit_code,
            acted.seq,
            reason=told if isinstance(told, str) else "",
            passed=passed,
            undo=result.undo,
            digest=digest_of(kept),
        )

    async def _over(self, state: WorkflowState, reason: str) -> WorkflowRecord:
        return await self.claims.end(self.record, state, reason=reason)

    async def _take_back(self) -> str:
        """Undo what is completed, the last first; it stops where that fails. What to say of it."""
        for name, action in self.progress.to_undo():
            run, begun = undo_run_of(self.record.id, name), self.progress.undoing.get(name)
            filled = inserted(action, self.progress.passed())
            if begun is None:
                begins = StepNote(name, WorkflowState.IN_PROGRESS, 1, run, undoes=True)
                await self._note(begins)
            if isinstance(filled, str):
                acted = StepResult(Result(Outcome.REFUSED, stderr=filled))
            else:
                undoing = StepAction(filled, run, name, undoes=True)
                acted = await self._done(undoing, resumed=begun is not None)
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
                left = ", ".join(one for one, _ in self.progress.to_undo())
                more = f", and left as they are: {left}" if left else ""
                return f"; step {name} could not be taken back ({note.reason}){more}"
        back = [
            name
            for name, note in self.progress.undoing.items()
            if note.state is WorkflowState.COMPLETED
        ]
        kept = [
            name for name in self.progress.completed if name not in back and self._changes(name)
        ]
        told = f"; taken back: {', '.join(back)}" if back else ""
        return told + (f"; has no undo: {', '.join(kept)}" if kept else "")

    def _changes(self, name: str) -> bool:
        action = inserted(self.progress.workflow.step(name).action, self.progress.passed())
        return isinstance(action, str) or not self.harmless(action)

    async def _note(self, note: StepNote) -> None:
        await self.claims.note(self.record, note)
        self.progress.take(note)

    async def _until(self, seconds: float) -> None:
        if seconds > 0:
            await self.clock.sleep(seconds)


async def _ended(running: dict[asyncio.Task[None], str]) -> None:
    """Cancel them, and wait until they have cleaned up."""
    for task in running:
        task.cancel()
    if running:
        await asyncio.wait(running)


def _failed(step: str, attempt: int, run: str, acted: StepResult) -> StepNote:
    result = acted.result
    cancelled = result.outcome is Outcome.CANCELLED
    state = WorkflowState.CANCELLED if cancelled else WorkflowState.FAILED
    seq, why = acted.seq, _why(result)
    return StepNote(step, state, attempt, run, result.outcome, result.exit_code, seq, why)


def _why(result: Result) -> str:
    said = result.stderr.strip().splitlines()
    last = said[-1][:REASON_CHARS_MAX] if said else ""
    how = f"exit {result.exit_code}" if result.outcome is Outcome.RAN else str(result.outcome)
    return f"{how}: {last}" if last else how


def back_off_s(attempt: int, chance: float) -> float:
    """How long to wait behind this attempt; `chance` from 0 to 1 spreads those who fail at once."""
    wait_s = min(LONGEST_S, FIRST_S * BASE ** (attempt - 1))
    return min(LONGEST_S, wait_s * (1.0 + JITTER_MAX * chance))


def may_try_again(result: Result, attempt: int, attempts_max: int, *, harmless: bool) -> bool:
    """Whether one more attempt may follow. `harmless` is what can be repeated without asking.

    `attempts_max` is what its definition says, 0 where it says nothing. What was refused stays so;
    of what nobody knows only the harmless is done again.
    """
    allowed = attempts_max or (ATTEMPTS_MAX if harmless else 1)
    if attempt >= allowed or result.ok or result.outcome is Outcome.REFUSED:
        return False
    if result.outcome in (Outcome.UNKNOWN, Outcome.CANCELLED):
        return harmless
    return result.category not in _HOPELESS
