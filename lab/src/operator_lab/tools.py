"""The typed tools of a rig: they act on its processes, and on no others."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from operator_lab.rig import AnyRig
from operator_protocols.domain.action import Argument, Outcome, Result
from operator_protocols.domain.category import FailureCategory
from operator_protocols.domain.precondition import Precondition
from operator_protocols.domain.target import Process
from operator_protocols.domain.tool import Parameter, ToolSource, ToolSpec
from operator_protocols.domain.verdict import Risk
from operator_protocols.errors import NotFoundError, OperatorError
from operator_protocols.ports import Job, Tool

__all__ = ["NO_PRECONDITIONS", "RESTART_NODE", "RESUME_NODE", "rig_tools"]

NO_PRECONDITIONS: Mapping[str, tuple[Precondition, ...]] = MappingProxyType({})

RESTART_NODE = ToolSpec(
    name="restart_node",
    sentence="Stop one process of the rig if it runs, start it again and wait until it answers.",
    parameters=(Parameter("target", "the name of the process to restart", infers="target"),),
    source=ToolSource.SUBJECT,
    risk=Risk.MEDIUM,
    changes=True,
    reversible=False,
    ends=("process_dead", "process_hung", "process_paused"),
)

RESUME_NODE = ToolSpec(
    name="resume_node",
    sentence="Wake one paused process of the rig (SIGCONT) and wait until it answers.",
    parameters=(Parameter("target", "the name of the process to resume", infers="target"),),
    source=ToolSource.SUBJECT,
    idempotent=True,
    risk=Risk.LOW,
    changes=True,
    reversible=True,
    ends=("process_paused",),
)


@dataclass(frozen=True, slots=True)
class _RigTool:
    """One verb of a rig as a Tool."""

    spec: ToolSpec
    done: str
    act: Callable[[str], Awaitable[Process]]

    async def call(self, arguments: Mapping[str, Argument], job: Job) -> Result:
        """Do it to the named target. A failure is a Result."""
        started = time.monotonic()
        unknown = sorted(set(arguments) - {parameter.name for parameter in self.spec.parameters})
        target = arguments.get("target")
        if unknown or not isinstance(target, str):
            return _make_failure(f"{self.spec.name} takes one argument, target.", started)
        try:
            process = await self.act(target)
        except NotFoundError as problem:
            return _make_failure(str(problem), started, category=FailureCategory.NOT_FOUND)
        except OperatorError as problem:
            return _make_failure(str(problem), started)
        took_s = time.monotonic() - started
        return Result(
            Outcome.RAN,
            exit_code=0,
            stdout=f"{target} {self.done} as pid {process.pid}, answering after {took_s:.1f} s",
            duration_s=took_s,
            data={"pid": process.pid},
        )


def rig_tools(
    rig: AnyRig, requires: Mapping[str, tuple[Precondition, ...]] = NO_PRECONDITIONS
) -> tuple[Tool, ...]:
    """All tools of one rig, with the preconditions that its subject has for them."""

    def spec_of(spec: ToolSpec) -> ToolSpec:
        return replace(spec, requires=requires.get(spec.name, ()))

    return (
        _RigTool(spec_of(RESTART_NODE), "restarted", rig.restart),
        _RigTool(spec_of(RESUME_NODE), "resumed", rig.resume),
    )


def _make_failure(
    why: str, started: float, *, category: FailureCategory = FailureCategory.RUNTIME
) -> Result:
    return Result(
        Outcome.RAN,
        exit_code=1,
        stderr=why,
        duration_s=time.monotonic() - started,
        category=category,
    )
