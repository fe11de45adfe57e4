"""One look at a subject, whatever happens while looking."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from operator_protocols.domain.health import Health
from operator_protocols.domain.observation import Finding, Observation, Sighting, Violation
from operator_protocols.domain.silence import Silence
from operator_protocols.domain.target import Target
from operator_protocols.ports import Clock, Condition, Conditions, Invariant, Observations, Subject
from operator_sre.monitor.conditions import advance, departed, unwatched, violations_of

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
    not be seen, where that is not `blind_grace_s`. When nobody has looked at a subject for longer
    than `gap_of` says, that time counts for no clock.
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
        gap_of: Callable[[str], float] = lambda subject: math.inf,
    ) -> None:
        self._clock = clock
        self._conditions = conditions
        self._observations = observations
        self._timeout_s = timeout_s
        self._blind_grace_s = blind_grace_s
        self._quiet = quiet
        self._blind_graces = blind_graces or {}
        self._gap_of = gap_of
        self._looked: dict[str, datetime] = {}

    async def look(self, subject: Subject) -> Sighting:
        """Observe once and check every invariant. Never raises for what the subject does."""
        return (await self._see(subject))[0]

    async def watch(self, subject: Subject) -> Watched:
        """Look once and say what has been broken for longer than its grace."""
        last = self._last(subject.name)
        sighting, targets = await self._see(subject)
        at = sighting.observation.at
        graces = {invariant.name: invariant for invariant in subject.invariants}
        blind_grace_s = self._blind_graces.get(subject.name, self._blind_grace_s)
        known = before = self._conditions.of(subject.name)
        if last is not None and (at - last).total_seconds() > self._gap_of(subject.name):
            before = unwatched(
                known,
                last=last,
                now=at,
                grace_of=lambda name: graces[name].grace_s if name in graces else blind_grace_s,
            )
        conditions = await self._remember(
            known, advance(before, sighting), sighting, subject, targets
        )
        self._looked[subject.name] = at
        violations = violations_of(
            conditions, now=at, invariants=graces, blind_grace_s=blind_grace_s
        )
        silences = self._quiet(subject.name) if violations else ()
        quiet = tuple(one for one in violations if _silent(one, silences))
        loud = tuple(one for one in violations if not _silent(one, silences))
        return Watched(sighting, targets, conditions, loud, quiet)

    def _last(self, subject: str) -> datetime | None:
        """When somebody looked last, we or another monitor."""
        last, gap_s = self._looked.get(subject), self._gap_of(subject)
        if last is not None and (self._clock.now() - last).total_seconds() <= gap_s:
            return last
        newest = self._observations.newest(subject, limit=1) if gap_s < math.inf else ()
        return newest[0].at if newest else last

    async def _remember(
        self,
        before: Sequence[Condition],
        after: tuple[Condition, ...],
        sighting: Sighting,
        subject: Subject,
        targets: Sequence[Target],
    ) -> tuple[Condition, ...]:
        """What holds since when, after this look; only what has changed is written."""
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
