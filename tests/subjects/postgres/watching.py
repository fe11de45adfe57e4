"""Looking at a rig of PostgreSQL in tests: until something holds, with a deadline."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from operator_lab import faults as lab
from operator_lab.rig import Rig
from operator_protocols.domain.action import Argument, Result
from operator_protocols.domain.health import Health
from operator_protocols.domain.observation import Finding, Observation
from operator_protocols.domain.target import Target
from operator_protocols.ports import Fault, Job, SubjectSettings
from operator_sre.app.secret_store import read_secret
from operator_sre.clock import SystemClock
from operator_sre.plugins import find_plugin
from operator_sre.subjects.postgres.rig import CANARY
from operator_sre.subjects.postgres.scenes import owner_of
from operator_sre.subjects.postgres.session import Session
from operator_sre.subjects.postgres.subject import Postgres

__all__ = ["QUICK", "Watch", "eventually", "fault_named"]

# As the defaults, only that nobody has to wait for them.
QUICK = {
    "canary": CANARY,
    "idle_transaction_s_max": 0.3,
    "lag_s_max": 1.0,
    "lock_wait_s_max": 0.3,
    "transaction_s_max": 1.0,
}
WITHIN_S = 30.0
TIMEOUT_S = 5.0


def fault_named(name: str) -> Fault:
    """One of the faults of the plug-in."""
    return next(fault for fault in find_plugin("postgres").faults if fault.name == name)


async def eventually(holds: Callable[[], Awaitable[object]]) -> None:
    """Return when it holds; fail with what it says when it does not in time."""
    ends = time.monotonic() + WITHIN_S
    while True:
        try:
            if await holds():
                return
            said = ""
        except AssertionError as problem:
            said = str(problem)
        assert time.monotonic() < ends, f"not within {WITHIN_S} s: {said}"
        await asyncio.sleep(0.1)


class Watch:
    """A rig with somebody who looks at it, breaks it, and uses its tools."""

    def __init__(
        self, rig: Rig, options: Mapping[str, Any] = QUICK, *, timeout_s: float = TIMEOUT_S
    ) -> None:
        self.rig = rig
        self.settings = SubjectSettings(
            "pg", rig.targets, SystemClock(), timeout_s, options, secret=read_secret
        )
        self.subject = Postgres(self.settings)

    def target(self, name: str) -> Target:
        """One of its parts as it is now."""
        return next(target for target in self.rig.targets() if target.name == name)

    async def look(self) -> tuple[Observation, dict[tuple[str, str], Finding]]:
        """One look, and what every invariant says of it."""
        seen = await self.subject.observe()
        found = [one for each in self.subject.invariants for one in each.check(seen)]
        return seen, {(one.invariant, one.target): one for one in found}

    async def until(
        self, holds: Callable[[Observation, dict[tuple[str, str], Finding]], object]
    ) -> tuple[Observation, dict[tuple[str, str], Finding]]:
        """Look again and again until it holds."""
        last: list[tuple[Observation, dict[tuple[str, str], Finding]]] = []

        async def look() -> bool:
            last[:] = [await self.look()]
            seen, found = last[0]
            told = {key: (one.health, one.detail) for key, one in found.items() if one.detail}
            assert holds(seen, found), str(told)
            return True

        await eventually(look)
        return last[0]

    async def broken(self, invariant: str, target: str) -> tuple[Observation, Finding]:
        """Look until it is broken there."""

        def holds(seen: Observation, found: dict[tuple[str, str], Finding]) -> bool:
            one = found.get((invariant, target))
            return one is not None and one.health is Health.BROKEN

        seen, found = await self.until(holds)
        return seen, found[invariant, target]

    async def healthy(self) -> None:
        """Look until nothing is broken or unknown."""

        def holds(seen: Observation, found: dict[tuple[str, str], Finding]) -> bool:
            return all(one.health is Health.HEALTHY for one in found.values())

        await self.until(holds)

    @asynccontextmanager
    async def hurt(self, name: str, target: str) -> AsyncIterator[Fault]:
        """Do a fault, and heal it at the end however that comes."""
        fault = fault_named(name)
        await lab.inject(self.rig, fault, target=target, rng=random.Random(1))
        try:
            assert await lab.is_over(self.rig, fault), f"{name} seems to be over at once"
            yield fault
        finally:
            await lab.heal(self.rig, fault, target=target)

    async def over(self, fault: Fault) -> str:
        """What is still wrong by the fault's own oracle."""
        return await lab.is_over(self.rig, fault)

    async def call(self, tool: str, **arguments: Argument) -> Result:
        """Use one of the tools of the plug-in."""
        make = find_plugin("postgres").tools
        assert make is not None
        found = next(one for one in make(self.settings) if one.spec.name == tool)
        return await found.call(arguments, Job("test"))

    @asynccontextmanager
    async def owner(self, name: str) -> AsyncIterator[Session]:
        """A session of the superuser."""
        async with owner_of(self.target(name)) as session:
            yield session
