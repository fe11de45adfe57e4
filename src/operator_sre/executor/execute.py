"""Execute takes a Permit, never an Action. Recovery ends intents whose process is gone."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

from operator_protocols.domain.action import SHELL, TIMEOUT_S_MAX, Action, Argument, Outcome, Result
from operator_protocols.domain.category import FailureCategory
from operator_protocols.domain.entry import Entry
from operator_protocols.domain.limits import BUSY, Limits
from operator_protocols.domain.observation import Observation
from operator_protocols.domain.permit import Permit
from operator_protocols.domain.precondition import find_unmet
from operator_protocols.domain.target import Initiator, Process, Target
from operator_protocols.errors import OperatorError, PermitError
from operator_protocols.ports import Intents, Job, Shell, Tool
from operator_sre.codec import from_json
from operator_sre.executor.tools.parameters import check_arguments
from operator_sre.processes.identity import alive

__all__ = ["Executor", "Prepared", "Preparing", "Recovering", "Recovery", "is_abandoned"]

# How often a running command asks how the kill switch stands.
FOLLOW_S = 0.25
# What ends sooner is recorded with its process when it has ended.
STARTED_AFTER_S = 0.05
LATE_S_MAX = 2.0
INTERRUPTED = "The action was interrupted."
NOT_BEGUN = "The action was interrupted before it started."
KILLED = "The kill switch stopped this action. It may be partly done."
ELSEWHERE = (
    "This action was started on another machine, and only that machine knows the outcome. Check "
    "its effect before you repeat it."
)
LOST = "Operator was interrupted while this action ran. Check its effect before you repeat it."
Watch = Callable[[int, bytes], None]
Settle = Callable[[Job], Awaitable[Result]]
log = logging.getLogger(__name__)


@runtime_checkable
class Recovering(Protocol):
    """A tool that knows what became of a call whose operator is gone."""

    async def recover(self, arguments: Mapping[str, Argument], job: Job) -> Result:
        """Wait for it where it still runs; it starts nothing."""
        ...


class Prepared(Protocol):
    """A command that a shell is ready to start, once."""

    async def run(self, job: Job) -> Result:
        """Start it, and do all that `Shell.run` does."""
        ...

    def drop(self) -> None:
        """It is not to start."""
        ...


@runtime_checkable
class Preparing(Protocol):
    """A shell that can get ready for a command while its intent is being written."""

    def prepare(self, action: Action, job: Job) -> Prepared | None:
        """Get ready without starting anything; None where that is not possible at once."""
        ...


@dataclass(frozen=True, slots=True)
class Executor:
    """The hands. Nothing runs without a permit, and nothing runs twice.

    `generation` is that of the kill switch: when it changes, what runs is ended. `initiator` is who
    we are, `settle` waits for the programs that a tool of an operator that is gone left running.
    `observe` shows the subject and its targets just before a tool with preconditions runs, and
    `get_ready` does what the first command of an incident would otherwise wait for.
    """

    intents: Intents
    shell: Shell
    tools: Sequence[Tool]
    limits: Callable[[], Limits] = Limits
    generation: Callable[[], int] = lambda: 0
    initiator: Initiator | None = None
    settle: Settle | None = None
    observe: Callable[[], Awaitable[tuple[Observation, Sequence[Target]]]] | None = None
    get_ready: Callable[[], Awaitable[None]] | None = None

    async def execute(
        self, permit: Permit, *, watch: Watch | None = None
    ) -> tuple[Result, Entry | None]:
        """Use the permit up, run its action, and record what became of it.

        The intent is durable before anything starts, so a crash leaves a trace, never a repeat.
        """
        generation = self.generation()
        action = permit.action
        timeout_s = min(action.timeout_s, TIMEOUT_S_MAX)
        job = Job(permit.fingerprint, timeout_s, watch, confinement=permit.confinement)
        prepared = None
        if action.tool == SHELL and isinstance(self.shell, Preparing):
            prepared = self.shell.prepare(action, job)
        try:
            # The intent is durable, and a cancellation while it is written leaves none open.
            beginning = asyncio.ensure_future(
                self.intents.begin(permit, self.limits(), initiator=self.initiator)
            )

            async def take_back() -> None:
                with contextlib.suppress(OperatorError):  # without an intent there is no end
                    cancelled = Result(Outcome.CANCELLED, stderr=NOT_BEGUN)
                    await self.intents.end(await beginning, cancelled)

            try:
                intent = await asyncio.shield(beginning)
            except BaseException as error:
                if prepared is not None:
                    prepared.drop()
                if isinstance(error, asyncio.CancelledError):
                    await asyncio.shield(take_back())
                raise
        except PermitError as error:
            data = {BUSY: True} if error.busy else {}
            return Result(Outcome.REFUSED, stderr=str(error), data=data), None
        try:
            async with self._noting(intent, job) as noted:
                work = self._run(action, noted) if prepared is None else prepared.run(noted)
                result = await self._follow(work, generation)
        except asyncio.CancelledError:
            cancelled = Result(Outcome.CANCELLED, stderr=INTERRUPTED)
            await asyncio.shield(self.intents.end(intent, cancelled))
            raise
        except Exception as error:  # noqa: BLE001  an intent without an end would stay open
            log.error("%s broke: %s", action.tool, type(error).__name__)
            why = (
                f"{action.tool} failed ({type(error).__name__}). Check its effect before you "
                "repeat it."
            )
            result = Result(Outcome.UNKNOWN, stderr=why)
        if not result.ok:
            where = {"ticket": intent.ticket, "run": intent.run, "target": action.target}
            log.warning(
                "%s: %s, exit code %s",
                action.command,
                result.outcome,
                result.exit_code,
                extra=where,
            )
        return result, await self.intents.end(intent, result)

    async def recover(self, intent: Entry) -> tuple[Result, Entry]:
        """Find out what became of an intent whose operator is gone, and record it.

        It starts nothing. It waits for commands that still run, within their limits. If the
        end was not observed, the outcome is unknown, and the command is never repeated.
        """
        action = from_json(Action, intent.payload["action"])
        timeout_s = min(action.timeout_s, TIMEOUT_S_MAX)
        job = Job(intent.payload["permit"], timeout_s, started_at=intent.at)
        doer = intent.payload.get("doer")
        is_elsewhere = bool(doer and self.initiator and doer["host"] != self.initiator.host)
        if is_elsewhere:
            result = Result(Outcome.UNKNOWN, stderr=ELSEWHERE)
        elif action.tool == SHELL:
            result = await self._follow(self.shell.recover(action, job), self.generation())
        else:
            # The tool itself may know its outcome; otherwise it is unknown.
            tool: object = next(
                (each for each in self.tools if each.spec.name == action.tool), None
            )
            if isinstance(tool, Recovering):
                result = await tool.recover(action.arguments, job)
            else:
                if self.settle is not None:
                    await self.settle(job)
                result = Result(Outcome.UNKNOWN, stderr=LOST)
        log.warning("an interrupted %s: %s", action.tool, result.outcome)
        return result, await self.intents.end(intent, result)

    @asynccontextmanager
    async def _noting(self, intent: Entry, job: Job) -> AsyncIterator[Job]:
        """A job whose process is recorded, unless it ends at once."""
        tasks: list[asyncio.Task[None]] = []

        async def record(process: Process) -> None:
            await asyncio.sleep(STARTED_AFTER_S)
            with contextlib.suppress(OperatorError):  # the outcome tells of it as well
                await asyncio.shield(self.intents.record_start(intent, process))

        def note_start(process: Process) -> None:
            tasks.append(asyncio.ensure_future(record(process)))

        try:
            yield replace(job, started=note_start)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _follow(self, doing: Awaitable[Result], generation: int) -> Result:
        """Run it, and end it when the kill switch is turned on, here or by another process."""
        work = asyncio.ensure_future(doing)
        try:
            while not work.done():
                await asyncio.wait({work}, timeout=FOLLOW_S)
                if not work.done() and self._is_switched(generation):
                    work.cancel()
                    await asyncio.wait({work})
        finally:
            if not work.done():
                work.cancel()
                await asyncio.wait({work})
        if work.cancelled():
            return Result(Outcome.CANCELLED, stderr=KILLED)
        result = work.result()
        if not result.ok and self._is_switched(generation):
            return replace(result, outcome=Outcome.CANCELLED, stderr=f"{result.stderr}{KILLED}")
        return result

    def _is_switched(self, generation: int) -> bool:
        try:
            return self.generation() != generation
        except OperatorError as error:  # the store may be available again at the next check
            log.error("cannot read the kill switch: %s", error)
            return False

    async def _refuse_unmet(self, tool: Tool, action: Action) -> Result | None:
        """The refusal of a tool whose precondition is known not to hold, also to a person.

        A missing answer stops agents before they get here; a person may know better.
        """
        if not tool.spec.requires or self.observe is None:
            return None
        observation, targets = await self.observe()
        target = str(action.arguments.get("target") or action.target)
        unmet = find_unmet(tool.spec.requires, target, targets, observation)
        if why := " ".join(each.sentence for each in unmet if each.known):
            return Result(Outcome.REFUSED, stderr=f"{action.tool} at {target} is refused: {why}")
        return None

    async def _run(self, action: Action, job: Job) -> Result:
        if action.tool == SHELL:
            return await self.shell.run(action, job)
        for tool in self.tools:
            if tool.spec.name == action.tool:
                given = check_arguments(tool.spec, action.arguments)
                if isinstance(given, Result):
                    return given
                if refused := await self._refuse_unmet(tool, action):
                    return refused
                try:
                    # A tool that limits itself gets a moment to tell what it has.
                    async with asyncio.timeout(job.timeout_s + LATE_S_MAX):
                        result = await tool.call(given.arguments, job)
                        undo = result.undo
                        return replace(result, undo=undo and replace(undo, target=action.target))
                except TimeoutError:
                    return Result(
                        Outcome.TIMED_OUT,
                        exit_code=124,
                        stderr=f"The action timed out after {job.timeout_s:g} s.",
                        duration_s=job.timeout_s,
                        category=FailureCategory.TIMEOUT,
                    )
        missing = f"There is no tool {action.tool!r}."
        return Result(
            Outcome.RAN, exit_code=127, stderr=missing, category=FailureCategory.NOT_FOUND
        )


def is_abandoned(intent: Entry, here: Initiator) -> bool:
    """True if its process on this machine is gone. Intents of other machines are not ours."""
    payload = intent.payload.get("doer")
    if payload is None:
        return False
    initiator = from_json(Initiator, payload)
    if initiator.host != here.host:
        return False
    return initiator.boot != here.boot or not alive(initiator.process)


@dataclass(frozen=True, slots=True)
class Recovery:
    """Looks after what was left open. `executor` is the one for the subject of an intent."""

    intents: Intents
    initiator: Initiator
    executor: Callable[[Entry], Executor]

    def open(self) -> list[Entry]:
        """The intents whose operator is gone."""
        return [each for each in self.intents.open() if is_abandoned(each, self.initiator)]

    async def settle(self, *, wait_s: float) -> dict[int, Result | None]:
        """Record what became of each, by its entry; None where it still runs after `wait_s`.

        A command that still runs is left alone: its limits apply, and the next check finds it.
        """
        looks = {each.seq: asyncio.ensure_future(self._look(each)) for each in self.open()}
        if not looks:
            return {}
        _, waiting = await asyncio.wait(looks.values(), timeout=wait_s)
        for look in waiting:
            look.cancel()
        if waiting:
            await asyncio.wait(waiting)
        return {seq: None if look.cancelled() else look.result() for seq, look in looks.items()}

    async def _look(self, intent: Entry) -> Result | None:
        try:
            result, _ = await self.executor(intent).recover(intent)
        except OperatorError as error:  # its subject may be gone; the next check may succeed
            log.error("cannot recover the action of entry %d: %s", intent.seq, error)
            return None
        return result
