"""Execute takes a Permit, never an Action."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from operator_protocols.domain.action import SHELL, Action, Outcome, Result
from operator_protocols.domain.category import FailureCategory
from operator_protocols.domain.entry import Entry
from operator_protocols.domain.permit import Permit
from operator_protocols.errors import PermitError
from operator_protocols.ports import Intents, Shell, Tool

__all__ = ["Executor"]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Executor:
    """The hands. Nothing runs without a permit, and nothing runs twice."""

    intents: Intents
    shell: Shell
    tools: Sequence[Tool]

    async def execute(self, permit: Permit) -> tuple[Result, Entry | None]:
        """Use the permit up, run its action, and record what became of it.

        The intent is durable before anything starts, so a crash leaves a trace, never a repeat.
        """
        try:
            await self.intents.begin(permit)
        except PermitError as error:
            return Result(Outcome.REFUSED, stderr=str(error)), None
        try:
            result = await self._run(permit.action)
        except asyncio.CancelledError:
            cancelled = Result(Outcome.CANCELLED, stderr="It was interrupted.")
            await asyncio.shield(self.intents.end(permit, cancelled))
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
        return result, await self.intents.end(permit, result)

    async def _run(self, action: Action) -> Result:
        if action.tool == SHELL:
            return await self.shell.run(action)
        for tool in self.tools:
            if tool.spec.name == action.tool:
                return await self._call(tool, action)
        missing = f"There is no tool {action.tool!r}."
        return Result(
            Outcome.RAN, exit_code=127, stderr=missing, category=FailureCategory.NOT_FOUND
        )

    async def _call(self, tool: Tool, action: Action) -> Result:
        try:
            async with asyncio.timeout(action.timeout_s):
                return await tool.call(action.arguments)
        except TimeoutError:
            return Result(
                Outcome.TIMED_OUT,
                exit_code=124,
                stderr=f"It took longer than {action.timeout_s:g} s.",
                duration_s=action.timeout_s,
                category=FailureCategory.TIMEOUT,
            )
