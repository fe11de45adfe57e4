"""Subjects that a test can hurt: real implementations of the ports, small enough to steer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from operator_protocols.domain.health import Health, Severity
from operator_protocols.domain.observation import Finding, Observation, Seen, Value
from operator_protocols.domain.target import Target
from operator_protocols.ports import Clock, Invariant

__all__ = ["Plant", "Up"]


@dataclass(frozen=True, slots=True)
class Up:
    """Every target says that it is up."""

    name: str = "up"
    severity: Severity = Severity.CRITICAL
    grace_s: float = 0.0
    error: Exception | None = None

    def check(self, observation: Observation) -> Iterable[Finding]:
        """Read from what was seen, as every invariant does."""
        if self.error is not None:
            raise self.error
        for seen in observation.seen:
            if seen.problem:
                yield Finding(self.name, seen.target, Health.UNKNOWN, seen.problem)
            elif seen.readings["up"]:
                yield Finding(self.name, seen.target, Health.HEALTHY)
            else:
                yield Finding(self.name, seen.target, Health.BROKEN, "it is down")


class Plant:
    """A subject whose targets are up or down as the test says; `None` cannot be looked at."""

    def __init__(
        self,
        clock: Clock,
        *,
        name: str = "shop",
        needs: Mapping[str, tuple[str, ...]] | None = None,
        invariants: Sequence[Invariant] = (Up(),),
    ) -> None:
        self._clock = clock
        self.name = name
        self.invariants = invariants
        self._needs = needs or {"node-1": (), "node-2": ()}
        self.up: dict[str, bool | None] = dict.fromkeys(self._needs, True)
        self.error: BaseException | None = None
        self.hangs = False
        self.begun = asyncio.Event()
        self.looks = 0
        self.readings: dict[str, dict[str, Value]] = {}

    def targets(self) -> Sequence[Target]:
        """Its parts."""
        return [Target(name, "node", depends_on=needs) for name, needs in self._needs.items()]

    async def observe(self) -> Observation:
        """Look once, or fail as the test wants it."""
        self.looks += 1
        self.begun.set()
        if self.hangs:
            await asyncio.Event().wait()
        if self.error is not None:
            raise self.error
        return Observation(self.name, self._clock.now(), tuple(map(self._seen, self.up)))

    def _seen(self, name: str) -> Seen:
        up = self.up[name]
        return (
            Seen(name, problem="it answered 500")
            if up is None
            else Seen(name, {"up": up, **self.readings.get(name, {})})
        )
