"""One rate limiter as the lab runs it, shared by the tests of a file."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from operator_lab.rig import Rig
from operator_protocols.domain.action import Argument, Result
from operator_protocols.domain.health import Health
from operator_protocols.domain.observation import Observation, Seen
from operator_protocols.domain.target import Target
from operator_protocols.ports import Job, Scene, Subject, SubjectSettings
from operator_sre.app.secret_store import read_secret
from operator_sre.clock import SystemClock
from operator_sre.plugins import find_plugin
from operator_sre.subjects.ratelimiter.faults import ask, read_file
from operator_sre.subjects.ratelimiter.nodes import api

__all__ = ["Stage", "stage"]

TIMEOUT_S = 3.0
Places = set[tuple[str, str]]


class Stage:
    """A rig, the subject that looks at it, and its tools."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        plugin = find_plugin("ratelimiter")
        settings = SubjectSettings(
            *("shop", rig.targets, SystemClock(), TIMEOUT_S, rig.manifest().spec.options),
            secret=read_secret,
            life=rig,
        )
        self.subject: Subject = plugin.subject(settings)
        assert plugin.tools is not None
        self.tools = {tool.spec.name: tool for tool in plugin.tools(settings)}
        self.faults = {fault.name: fault for fault in plugin.faults}

    def target(self, name: str) -> Target:
        """One part of the rig."""
        return next(one for one in self.rig.targets() if one.name == name)

    async def look(self) -> Observation:
        """One look."""
        return await self.subject.observe()

    def broken(self, observation: Observation) -> Places:
        """What is broken, and where."""
        return {
            (finding.invariant, finding.target)
            for invariant in self.subject.invariants
            for finding in invariant.check(observation)
            if finding.health is Health.BROKEN
        }

    async def until_seen(
        self, condition: Callable[[Observation], bool], *, within_s: float = 60.0
    ) -> Observation:
        """Look until what is seen is what is waited for."""
        ends = time.monotonic() + within_s
        while not condition(observation := await self.look()):
            assert time.monotonic() < ends, (self.broken(observation), observation)
        return observation

    async def until(self, condition: Callable[[Places], bool]) -> Observation:
        """Look until what is broken is what is waited for."""
        return await self.until_seen(lambda observation: condition(self.broken(observation)))

    async def until_breaks(self, invariant: str, target: str) -> Seen:
        """Look until this is broken there; what was seen of it."""
        found = await self.until(lambda broken: (invariant, target) in broken)
        return found.of(target)

    async def until_holds(self, *invariants: str) -> None:
        """Look until these are broken nowhere."""
        await self.until(lambda broken: not {name for name, _ in broken} & set(invariants))

    async def inject(self, fault: str, target: str) -> Scene:
        """Do a fault; the scene with what it noted."""
        targets = self.rig.targets()
        scene = Scene(self.target(target), targets, self.rig)
        notes = await self.faults[fault].inject(scene)
        scene = Scene(scene.target, targets, self.rig, notes)
        assert await self.faults[fault].oracle(scene), "the oracle sees nothing"
        return scene

    async def call(self, tool: str, **arguments: Argument) -> Result:
        """Call a tool that has to succeed."""
        result = await self.tools[tool].call(arguments, Job("job"))
        assert result.ok, result.stderr
        return result

    async def undo(self, result: Result) -> Result:
        """Take back what a tool did, by what it said about that."""
        assert result.undo is not None
        arguments: Mapping[str, Argument] = result.undo.arguments
        return await self.call(result.undo.tool, **arguments)

    async def api(self, node: str, method: str, path: str, body: Any = None) -> dict[str, Any]:
        """One request to a node."""
        return await api(self.target(node), method, path, secret=read_file, body=body)

    async def store(self, *words: str | int) -> Any:
        """One command at the store."""
        return await ask(self.target("store"), *words)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    """A rate limiter that is up and well."""
    directory: Path = tmp_path_factory.mktemp("rigs") / "ratelimiter"
    spec = find_plugin("ratelimiter").rig
    assert spec is not None
    rig = await Rig.up(spec(), directory, owned=True)
    try:
        yield Stage(rig)
    finally:
        await rig.down()
