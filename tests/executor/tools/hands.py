"""The Docker tools as an app calls them: proposed first, then called."""

from __future__ import annotations

from collections.abc import Mapping

from operator_protocols.domain.action import Action, Argument, Result
from operator_protocols.ports import Job, Tool
from operator_sre.executor.docker import Address, Engine
from operator_sre.executor.tools.docker import docker_tools
from operator_sre.executor.tools.registry import Registry

__all__ = ["Hands", "hands_on"]


class Hands:
    """Tools by name."""

    def __init__(self, tools: tuple[Tool, ...]) -> None:
        self.registry = Registry(tools)

    async def propose(self, tool: str, **arguments: Argument) -> Action:
        """The call as it would be judged, bound to what it is for."""
        found = await self.registry.propose(Action(tool, arguments))
        assert isinstance(found, Action), found
        return found

    async def call(self, action: Action, *, job: Job | None = None) -> Result:
        """What a tool answers to a call that was proposed."""
        return await self.bare(action.tool, action.arguments, job=job)

    async def bare(
        self, tool: str, arguments: Mapping[str, Argument], *, job: Job | None = None
    ) -> Result:
        """What a tool answers to these very arguments."""
        return await self.registry.get_tool(tool).call(arguments, job or Job(timeout_s=60.0))

    async def do(self, tool: str, *, timeout_s: float = 60.0, **arguments: Argument) -> Result:
        """Propose it and call it."""
        action = await self.propose(tool, **arguments)
        return await self.call(action, job=Job(timeout_s=timeout_s))


def hands_on(socket: str) -> Hands:
    """The tools over an engine at a Unix socket."""
    return Hands(docker_tools(lambda: Engine(Address(socket=socket))))
