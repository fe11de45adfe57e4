"""One look at a subject, whatever happens while looking."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import dataclass

from operator_protocols.domain.health import Health
from operator_protocols.domain.observation import Finding, Observation, Sighting, Violation
from operator_protocols.domain.target import Target
from operator_protocols.ports import Clock, Condition, Conditions, Invariant, Observations, Subject
from operator_sre.monitor.conditions import advance, violations_of

__all__ = ["OBSERVABLE", "Monitor", "Watched"]

OBSERVABLE = "observable"
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Watched:
    """What a look showed, since when, and what of it is a violation by now.

    `targets` are the subject's parts at that moment; none when they could not be read.
    """

    sighting: Sighting
    targets: tuple[Target, ...]
    conditions: tuple[Condition, ...]
    violations: tuple[Violation, ...]


class Monitor:
    """Looks at subjects and remembers since when each condition holds."""

    def __init__(
        self,
        *,
        clock: Clock,
        conditions: Conditions,
        observations: Observations,
        timeout_s: float,
        blind_grace_s: float,
    ) -> None:
        self._clock = clock
        self._conditions = conditions
        self._observations = observations
        self._timeout_s = timeout_s
        self._blind_grace_s = blind_grace_s

    async def look(self, subject: Subject) -> Sighting:
        """Observe once and check every invariant. Never raises for what the subject does."""
        return (await self._see(subject))[0]

    async def watch(self, subject: Subject) -> Watched:
        """Look once and say what has been broken for longer than its grace."""
        sighting, targets = await self._see(subject)
        conditions = advance(self._conditions.of(subject.name), sighting)
        await self._conditions.update(conditions)
        graces = {invariant.name: invariant for invariant in subject.invariants}
        violations = violations_of(
            conditions,
            now=sighting.observation.at,
            invariants=graces,
            blind_grace_s=self._blind_grace_s,
        )
        return Watched(sighting, targets, conditions, violations)

    async def _see(self, subject: Subject) -> tuple[Sighting, tuple[Target, ...]]:
        observation, targets = await self._observe(subject)
        await self._observations.add(observation)
        findings = [*_observable(subject, observation)]
        for invariant in subject.invariants:
            findings.extend(_check(invariant, observation))
        return Sighting(observation, tuple(findings)), targets

    async def _observe(self, subject: Subject) -> tuple[Observation, tuple[Target, ...]]:
        try:
            async with asyncio.timeout(self._timeout_s):
                return await subject.observe(), tuple(subject.targets())
        except TimeoutError:
            problem = f"it took longer than {self._timeout_s:g} s to look"
        except Exception as error:  # noqa: BLE001  whatever a plug-in raises, we saw nothing
            problem = f"{type(error).__name__}: {error}"
        log.warning("cannot observe", extra={"subject": subject.name, "problem": problem})
        return Observation(subject.name, self._clock.now(), problem=problem), ()


def _observable(subject: Subject, observation: Observation) -> Iterable[Finding]:
    """An observer that cannot see is a break of its own, so that silence opens a ticket."""
    blind = observation.problem
    yield Finding(
        OBSERVABLE,
        subject.name,
        Health.BROKEN if blind else Health.HEALTHY,
        f"it cannot be observed: {blind}" if blind else "",
    )
    if not blind:
        for seen in observation.seen:
            problem = f"it cannot be observed: {seen.problem}" if seen.problem else ""
            health = Health.BROKEN if problem else Health.HEALTHY
            yield Finding(OBSERVABLE, seen.target, health, problem)


def _check(invariant: Invariant, observation: Observation) -> Iterable[Finding]:
    if observation.problem:
        return ()
    try:
        return tuple(invariant.check(observation))
    except Exception as error:  # noqa: BLE001  a check that crashes knows nothing
        detail = f"the check of {invariant.name} failed: {type(error).__name__}: {error}"
        blind = Finding(OBSERVABLE, observation.subject, Health.BROKEN, detail)
        unknown = (
            Finding(invariant.name, seen.target, Health.UNKNOWN, detail)
            for seen in observation.seen
        )
        return blind, *unknown
