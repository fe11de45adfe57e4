"""Execute takes a Permit, never an Action."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from operator_protocols.domain.action import SHELL, TIMEOUT_S_MAX, Action, Outcome, Result
from operator_protocols.domain.category import FailureCategory
from operator_protocols.domain.entry import Entry
from operator_protocols.domain.limits import Limits
from operator_protocols.domain.permit import Permit
from operator_protocols.errors import OperatorError, PermitError
from operator_protocols.ports import Intents, Job, Shell, Tool

__all__ = ["Executor"]

# How often a running command asks how the kill switch stands.
FOLLOW_S = 0.25
Watch = Callable[[int, bytes], None]
KILLED = "The kill switch ended it; it may have done a part."
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Executor:
    """The hands. Nothing runs without a permit, and nothing runs twice.

    `generation` is that of the kill switch: when it changes, what runs is ended.
    """

    intents: Intents
    shell: Shell
    tools: Sequence[Tool]
    limits: Callable[[], Limits] = Limits
    generation: Callable[[], int] = lambda: 0

    async def execute(
        self, permit: Permit, *, watch: Watch | None = None
    ) -> tuple[Result, Entry | None]:
        """Use the permit up, run its action, and record what became of it.

        The intent is durable before anything starts, so a crash leaves a trace, never a repeat.
        """
        generation = self.generation()
        try:
            intent = await self.intents.begin(permit, self.limits())
        except PermitError as error:
            return Result(Outcome.REFUSED, stderr=str(error)), None
        try:
            result = await self._followed(permit, generation, watch)
        except asyncio.CancelledError:
            cancelled = Result(Outcome.CANCELLED, stderr="It was interrupted.")
            await asyncio.shield(self.intents.end(intent, cancelled))
            raise
        if not result.ok:
            log.warning(
                "%s: exit %s",
                result.outcome,
                result.exit_code,
                extra={
                    "ticket": permit.ticket,
                    "run": permit.run,
                    "target": permit.action.target,
                },
            )
        return result, await self.intents.end(intent, result)

    async def _followed(self, permit: Permit, generation: int, watch: Watch | None) -> Result:
        """Run it, and end it when the kill switch is turned on, here or by another process."""
        work = asyncio.ensure_future(self._run(permit, watch))
        try:
            while not work.done():
                await asyncio.wait({work}, timeout=FOLLOW_S)
                if not work.done() and self._switched(generation):
                    work.cancel()
                    await asyncio.wait({work})
        finally:
            if not work.done():
                work.cancel()
                await asyncio.wait({work})
        if work.cancelled():
            return Result(Outcome.CANCELLED, stderr=KILLED)
        result = work.result()
        if not result.ok and self._switched(generation):
            return replace(result, outcome=Outcome.CANCELLED, stderr=f"{result.stderr}{KILLED}")
        return result

    def _switched(self, generation: int) -> bool:
        try:
            return self.generation() != generation
        except OperatorError as error:  # the store may be back at the next look
            log.error("cannot ask for the kill switch: %s", error)
            return False

    async def _run(self, permit: Permit, watch: Watch | None) -> Result:
        action = permit.action
        job = Job(permit.fingerprint, min(action.timeout_s, TIMEOUT_S_MAX), watch)
        if action.tool == SHELL:
            return await self.shell.run(action, job)
        for tool in self.tools:
            if tool.spec.name == action.tool:
                return await self._call(tool, action, job)
        missing = f"There is no tool {action.tool!r}."
        return Result(
            Outcome.RAN, exit_code=127, stderr=missing, category=FailureCategory.NOT_FOUND
        )

    async def _call(self, tool: Tool, action: Action, job: Job) -> Result:
        try:
            async with asyncio.timeout(job.timeout_s):
                return await tool.call(action.arguments, job)
        except TimeoutError:
            return Result(
                Outcome.TIMED_OUT,
                exit_code=124,
                stderr=f"It took longer than {job.timeout_s:g} s.",
                duration_s=job.timeout_s,
                category=FailureCategory.TIMEOUT,
            )
