"""One look at a subject, whatever happens while looking."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from operator_protocols.domain.health import Health
from operator_protocols.domain.observation import Finding, Observation, Sighting, Violation
from operator_protocols.domain.silence import Silence
from operator_protocols.domain.target import Target
from operator_protocols.ports import Clock, Condition, Conditions, Invariant, Observations, Subject
from operator_sre.monitor.conditions import advance, departed, violations_of

__all__ = ["OBSERVABLE", "Monitor", "Watched", "findings_of", "sight"]

OBSERVABLE = "observable"
# How long a look that was told to stop may take to do so, before nobody waits for it any more.
STOP_S = 1.0
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Watched:
    """What a look showed, since when, and what of it is a violation by now.

    `targets` are the subject's parts at that moment; none when they could not be read. `silenced`
    are violations too, and nobody is to be told of them now.
    """

    sighting: Sighting
    targets: tuple[Target, ...]
    conditions: tuple[Condition, ...]
    violations: tuple[Violation, ...]
    silenced: tuple[Violation, ...] = ()


class Monitor:
    """Looks at subjects and remembers since when each condition holds.

    `quiet` says which silences hold for a subject now, `blind_graces` how long some subjects may
    not be seen, where that is not `blind_grace_s`.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        conditions: Conditions,
        observations: Observations,
        timeout_s: float,
        blind_grace_s: float,
        quiet: Callable[[str], Sequence[Silence]] = lambda subject: (),
        blind_graces: Mapping[str, float] | None = None,
    ) -> None:
        self._clock = clock
        self._conditions = conditions
        self._observations = observations
        self._timeout_s = timeout_s
        self._blind_grace_s = blind_grace_s
        self._quiet = quiet
        self._blind_graces = blind_graces or {}

    async def look(self, subject: Subject) -> Sighting:
        """Observe once and check every invariant. Never raises for what the subject does."""
        return (await self._see(subject))[0]

    async def watch(self, subject: Subject) -> Watched:
        """Look once and say what has been broken for longer than its grace."""
        sighting, targets = await self._see(subject)
        before = self._conditions.of(subject.name)
        conditions = await self._remember(before, sighting, subject, targets)
        graces = {invariant.name: invariant for invariant in subject.invariants}
        violations = violations_of(
            conditions,
            now=sighting.observation.at,
            invariants=graces,
            blind_grace_s=self._blind_graces.get(subject.name, self._blind_grace_s),
        )
        silences = self._quiet(subject.name) if violations else ()
        quiet = tuple(one for one in violations if _silent(one, silences))
        loud = tuple(one for one in violations if not _silent(one, silences))
        return Watched(sighting, targets, conditions, loud, quiet)

    async def _remember(
        self,
        before: Sequence[Condition],
        sighting: Sighting,
        subject: Subject,
        targets: Sequence[Target],
    ) -> tuple[Condition, ...]:
        """What holds since when, after this look; only what has changed is written."""
        after = advance(before, sighting)
        if targets and not sighting.observation.problem:
            here = [subject.name, *(one.name for one in targets)]
            seen = [one.target for one in sighting.observation.seen]
            spoken = {one.invariant for one in sighting.findings}
            names = {OBSERVABLE, *spoken, *(one.name for one in subject.invariants)}
            gone = departed(after, targets=[*here, *seen], invariants=names)
            if gone:
                await self._conditions.forget(gone)
                left = set(gone)
                after = tuple(one for one in after if one not in left)
        old = {(one.invariant, one.target): one for one in before}
        changed = [one for one in after if old.get((one.invariant, one.target)) is not one]
        await self._conditions.update(changed)
        return after

    async def _see(self, subject: Subject) -> tuple[Sighting, tuple[Target, ...]]:
        sighting, targets = await sight(subject, self._clock, timeout_s=self._timeout_s)
        await self._observations.add(sighting.observation)
        return sighting, targets


async def sight(
    subject: Subject, clock: Clock, *, timeout_s: float
) -> tuple[Sighting, tuple[Target, ...]]:
    """Observe once and check every invariant; nothing is remembered."""
    observation, targets = await _observe(subject, clock, timeout_s)
    return Sighting(observation, findings_of(subject.invariants, observation)), targets


async def _observe(
    subject: Subject, clock: Clock, timeout_s: float
) -> tuple[Observation, tuple[Target, ...]]:
    try:
        return await _within(subject, timeout_s), tuple(subject.targets())
    except TimeoutError:
        problem = f"it took longer than {timeout_s:g} s to look"
    except Exception as error:  # noqa: BLE001  whatever a plug-in raises, we saw nothing
        problem = f"{type(error).__name__}: {error}"
    log.warning("cannot observe %s: %s", subject.name, problem, extra={"subject": subject.name})
    return Observation(subject.name, clock.now(), problem=problem), ()


async def _within(subject: Subject, timeout_s: float) -> Observation:
    """One look, or TimeoutError; a look that does not stop when it is told to is left behind."""
    looking = asyncio.ensure_future(subject.observe())
    try:
        done, _ = await asyncio.wait([looking], timeout=timeout_s)
        if done:
            return looking.result()
        raise TimeoutError
    finally:
        if not looking.done():
            looking.cancel()
            await asyncio.wait([looking], timeout=STOP_S)
            looking.add_done_callback(_forget)


def _forget(looking: asyncio.Future[Observation]) -> None:
    """Whatever a look that nobody waits for came to, it is no news to anybody."""
    if not looking.cancelled():
        looking.exception()


def _silent(violation: Violation, silences: Iterable[Silence]) -> bool:
    place = (violation.subject, violation.target, violation.invariant)
    return any(one.covers(*place) for one in silences)


def findings_of(invariants: Iterable[Invariant], observation: Observation) -> tuple[Finding, ...]:
    """What every invariant says of a look, and whether it could be seen at all. Pure."""
    findings = [*_observable(observation)]
    for invariant in invariants:
        findings.extend(_check(invariant, observation))
    return tuple(findings)


def _observable(observation: Observation) -> Iterable[Finding]:
    """An observer that cannot see is a break of its own, so that silence opens a ticket."""
    blind = observation.problem
    yield Finding(
        OBSERVABLE,
        observation.subject,
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
