"""What may be done about a server. Only the executor calls it, and only with a permit."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from operator_protocols.domain.action import Argument, Outcome, Result
from operator_protocols.domain.category import FailureCategory
from operator_protocols.domain.target import Target
from operator_protocols.domain.tool import Parameter, ToolSource, ToolSpec
from operator_protocols.domain.verdict import Risk
from operator_protocols.errors import ObservationError
from operator_protocols.ports import Job, SubjectSettings, Tool
from operator_subject_redis.resp import ask

__all__ = ["redis_tools"]

_TARGET = (Parameter("target", "the name of the server", infers="target"),)

UNPAUSE = ToolSpec(
    name="unpause_clients",
    sentence="Let clients go on that were told to wait.",
    parameters=_TARGET,
    risk=Risk.LOW,
    changes=True,
    reversible=True,
    source=ToolSource.SUBJECT,
    idempotent=True,
    expected="writes are served again",
)
PURGE = ToolSpec(
    name="purge_memory",
    sentence="Ask the allocator to give back pages that hold nothing.",
    parameters=_TARGET,
    risk=Risk.LOW,
    changes=True,
    reversible=True,
    source=ToolSource.SUBJECT,
    idempotent=True,
    expected="less memory is resident; no key is touched",
)


@dataclass(frozen=True, slots=True)
class _Command:
    """One command to one server."""

    spec: ToolSpec
    words: tuple[str, ...]
    settings: SubjectSettings

    async def call(self, arguments: Mapping[str, Argument], job: Job) -> Result:
        """Send it. A failure is a Result."""
        named = arguments.get("target")
        known = {target.name: target for target in self.settings.targets()}
        if set(arguments) != {"target"} or named not in known:
            names = ", ".join(sorted(known)) or "none"
            return _failed(f"{self.spec.name} takes a target; there are: {names}.")
        return await self._send(known[str(named)], job)

    async def _send(self, target: Target, job: Job) -> Result:
        path = target.access.password_file if target.access else ""
        try:
            password = self.settings.secret(path) if path else ""
            async with asyncio.timeout(min(job.timeout_s, self.settings.timeout_s)):
                said = await ask(target, *self.words, password=password)
        except (TimeoutError, OSError) as error:
            why = str(error) or "it does not answer in time"
            return _failed(f"{target.name}: {why}.", category=FailureCategory.NETWORK)
        except (ObservationError, ValueError, EOFError) as error:
            return _failed(f"{target.name}: {error}.")
        return Result(Outcome.RAN, exit_code=0, stdout=f"{target.name} answered {said}\n")


def redis_tools(settings: SubjectSettings) -> Sequence[Tool]:
    """All tools of one subject."""
    return (
        _Command(UNPAUSE, ("CLIENT", "UNPAUSE"), settings),
        _Command(PURGE, ("MEMORY", "PURGE"), settings),
    )


def _failed(why: str, *, category: FailureCategory = FailureCategory.RUNTIME) -> Result:
    return Result(Outcome.RAN, exit_code=1, stderr=why, category=category)
