"""One look at a subject, whatever happens while looking, and looks that were recorded."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from operator_protocols.domain.health import Health, Severity
from operator_protocols.domain.observation import (
    CheckResult,
    Finding,
    Observation,
    Trouble,
    Violation,
    key_of,
)
from operator_protocols.domain.silence import Silence
from operator_protocols.domain.target import Target
from operator_protocols.domain.watcher import Watch
from operator_protocols.ports import (
    BREAKS_KEPT,
    FLAP_S,
    Clock,
    Condition,
    Conditions,
    Invariant,
    Observations,
    Subject,
)

__all__ = [
    "OBSERVABLE",
    "Monitor",
    "Spell",
    "WatchStats",
    "Watched",
    "advance",
    "find_departed",
    "findings_of",
    "replay",
    "run_check",
    "skip_gap",
    "violations_of",
]

OBSERVABLE = "observable"

# How long a look that was told to stop may take to do so, before nobody waits for it any more.
STOP_S = 1.0

log = logging.getLogger(__name__)

Place = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Watched:
    """What a look showed, since when, and what of it is a violation by now.

    `targets` are the subject's parts at that moment; none when they could not be read. `silenced`
    are violations too, and nobody is to be told of them now.
    """

    check: CheckResult
    targets: tuple[Target, ...]
    conditions: tuple[Condition, ...]
    violations: tuple[Violation, ...]
    silenced: tuple[Violation, ...] = ()


@dataclass(frozen=True, slots=True)
class Spell:
    """One invariant that was broken at one target for a while; `until` is None while it lasts.

    `ticket` is when it had outlasted its grace; None when it never did.
    """

    invariant: str
    target: str
    since: datetime
    until: datetime | None = None
    ticket: datetime | None = None
    detail: str = ""


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

    async def check(self, subject: Subject) -> CheckResult:
        """Observe once and check every invariant. Never raises for what the subject does."""
        return (await self._see(subject))[0]

    async def watch(self, subject: Subject) -> Watched:
        """Look once and say what has been broken for longer than its grace."""
        # When somebody looked last, we or another monitor.
        last, gap_s = self._looked.get(subject.name), self._gap_of(subject.name)
        if last is None or (self._clock.now() - last).total_seconds() > gap_s:
            newest = self._observations.newest(subject.name, limit=1) if gap_s < math.inf else ()
            last = newest[0].at if newest else last
        check, targets = await self._see(subject)
        at = check.observation.at
        graces = {invariant.name: invariant for invariant in subject.invariants}
        blind_grace_s = self._blind_graces.get(subject.name, self._blind_grace_s)
        known = before = self._conditions.of(subject.name)
        if last is not None and (at - last).total_seconds() > gap_s:
            before = skip_gap(
                known,
                last=last,
                now=at,
                grace_of=lambda name: graces[name].grace_s if name in graces else blind_grace_s,
            )
        conditions = await self._remember(known, advance(before, check), check, subject, targets)
        self._looked[subject.name] = at
        violations = violations_of(
            conditions, now=at, invariants=graces, blind_grace_s=blind_grace_s
        )
        silences = self._quiet(subject.name) if violations else ()
        quiet: list[Violation] = []
        loud: list[Violation] = []
        for one in violations:
            place = (one.subject, one.target, one.invariant)
            silent = any(silence.covers(*place) for silence in silences)
            (quiet if silent else loud).append(one)
        return Watched(check, targets, conditions, tuple(loud), tuple(quiet))

    async def _remember(
        self,
        before: Sequence[Condition],
        after: tuple[Condition, ...],
        check: CheckResult,
        subject: Subject,
        targets: Sequence[Target],
    ) -> tuple[Condition, ...]:
        """What holds since when, after this look; only what has changed is written."""
        if targets and not check.observation.problem:
            here = [subject.name, *(target.name for target in targets)]
            seen = [one.target for one in check.observation.seen]
            spoken = {finding.invariant for finding in check.findings}
            names = {OBSERVABLE, *spoken, *(invariant.name for invariant in subject.invariants)}
            gone = find_departed(after, targets=[*here, *seen], invariants=names)
            if gone:
                await self._conditions.forget(gone)
                left = set(gone)
                after = tuple(one for one in after if one not in left)
        old = {(one.invariant, one.target): one for one in before}
        changed = [one for one in after if old.get((one.invariant, one.target)) is not one]
        await self._conditions.update(changed)
        return after

    async def _see(self, subject: Subject) -> tuple[CheckResult, tuple[Target, ...]]:
        check, targets = await run_check(subject, self._clock, timeout_s=self._timeout_s)
        await self._observations.add(check.observation)
        return check, targets


async def run_check(
    subject: Subject, clock: Clock, *, timeout_s: float
) -> tuple[CheckResult, tuple[Target, ...]]:
    """Observe once and check every invariant; nothing is remembered."""
    targets: tuple[Target, ...] = ()
    try:
        observation = await _observe_within(subject, timeout_s)
        targets = tuple(subject.targets())
        problem = ""
    except TimeoutError:
        problem = f"observing took longer than {timeout_s:g} s"
    except Exception as error:  # noqa: BLE001  whatever a plug-in raises, we saw nothing
        problem = f"{type(error).__name__}: {error}"
    if problem:
        name = subject.name
        log.warning("cannot observe %s: %s", name, problem, extra={"subject": name})
        observation = Observation(name, clock.now(), problem=problem)
    return CheckResult(observation, findings_of(subject.invariants, observation)), targets


async def _observe_within(subject: Subject, timeout_s: float) -> Observation:
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
            # Whatever a look that nobody waits for came to, it is no news to anybody.
            looking.add_done_callback(lambda look: look.cancelled() or look.exception())


def findings_of(invariants: Iterable[Invariant], observation: Observation) -> tuple[Finding, ...]:
    """What every invariant says of a look, and whether it could be seen at all. Pure."""
    blind = observation.problem
    # An observer that cannot see is a break of its own, so that silence opens a ticket.
    seen: list[tuple[str, str, Trouble | None]] = [(observation.subject, blind, None)]
    if not blind:
        seen += [(part.target, part.problem, part.trouble) for part in observation.seen]
    findings = []
    for target, problem, trouble in seen:
        health = Health.BROKEN if problem else Health.HEALTHY
        detail = f"it cannot be observed: {problem}" if problem else ""
        findings.append(Finding(OBSERVABLE, target, health, detail, trouble=trouble))
    for invariant in () if blind else invariants:
        try:
            findings += tuple(invariant.check(observation))
        except Exception as error:  # noqa: BLE001  a check that crashes knows nothing
            detail = f"the check of {invariant.name} failed: {type(error).__name__}: {error}"
            crash = (OBSERVABLE, observation.subject, Health.BROKEN, detail)
            findings.append(Finding(*crash, trouble=Trouble.NOTHING))
            findings += [
                Finding(invariant.name, one.target, Health.UNKNOWN, detail)
                for one in observation.seen
            ]
    return tuple(findings)


def advance(before: Sequence[Condition], check: CheckResult) -> tuple[Condition, ...]:
    """The conditions after a look. What was not spoken of becomes UNKNOWN, never healthy."""
    known = {(one.invariant, one.target): one for one in before}
    at = check.observation.at
    subject = check.observation.subject
    worst: dict[Place, Finding] = {}
    for finding in check.findings:
        place = (finding.invariant, finding.target)
        other = worst.get(place)
        # Where two findings speak of one target, the worse one counts.
        if other is None or finding.health.rank > other.health.rank:
            worst[place] = finding
    after = [_next_condition(subject, known.get(place), one, at) for place, one in worst.items()]
    for place, one in known.items():
        if place not in worst:
            silent = Finding(
                *(one.invariant, one.target, Health.UNKNOWN, one.detail), trouble=one.trouble
            )
            after.append(_next_condition(subject, one, silent, at))
    return tuple(after)


def _next_condition(
    subject: str, before: Condition | None, finding: Finding, at: datetime
) -> Condition:
    health, detail = finding.health, finding.detail
    if before is None:
        broken = at if health is Health.BROKEN else None
        first = (at,) if broken else ()
        return Condition(
            *(subject, finding.invariant, finding.target, health, at, broken, detail, first),
            trouble=finding.trouble,
        )
    same = before.health is health
    unchanged = before.detail == detail and before.trouble is finding.trouble
    if same and unchanged and (before.broken_since or health is not Health.BROKEN):
        return before  # nearly always; and what is the same need not be written again
    broken_since, breaks = before.broken_since, before.breaks
    if health is Health.BROKEN and broken_since is None:
        broken_since = at
        recent = (one for one in (*breaks, at) if (at - one).total_seconds() <= FLAP_S)
        breaks = tuple(recent)[-BREAKS_KEPT:]
    elif health is Health.HEALTHY:
        broken_since = None
    # UNKNOWN keeps the clock of a break: not seeing it does not make it younger.
    return Condition(
        subject=subject,
        invariant=finding.invariant,
        target=finding.target,
        health=health,
        since=before.since if same else at,
        broken_since=broken_since,
        detail=detail,
        breaks=breaks,
        trouble=finding.trouble,
    )


def skip_gap(
    conditions: Sequence[Condition],
    *,
    last: datetime,
    now: datetime,
    grace_of: Callable[[str], float],
) -> tuple[Condition, ...]:
    """The conditions after a time in which nobody looked: it counts for no clock.

    What had outlasted its grace by the last look keeps the moment at which it broke.
    """
    gap = now - last

    def moved(one: Condition) -> Condition:
        begun = one.broken_since
        if begun is not None and (last - begun).total_seconds() >= grace_of(one.invariant):
            return one
        later = min(begun + gap, now) if begun is not None else None
        return replace(one, since=min(one.since + gap, now), broken_since=later)

    return tuple(moved(condition) for condition in conditions)


def find_departed(
    conditions: Iterable[Condition], *, targets: Iterable[str], invariants: Iterable[str]
) -> tuple[Condition, ...]:
    """Conditions of targets or invariants that are no more, and that nothing depends on.

    One that was broken when its target went away stays, as UNKNOWN: vanishing is no recovery.
    """
    here, known = set(targets), set(invariants)
    return tuple(
        condition
        for condition in conditions
        if condition.invariant not in known
        or (condition.target not in here and condition.broken_since is None)
    )


def violations_of(
    conditions: Sequence[Condition],
    *,
    now: datetime,
    invariants: Mapping[str, Invariant],
    blind_grace_s: float,
) -> tuple[Violation, ...]:
    """What is broken now and has been for longer than its grace."""
    found = []
    for one in conditions:
        if one.health is not Health.BROKEN or one.broken_since is None:
            continue
        invariant = invariants.get(one.invariant)
        grace_s = invariant.grace_s if invariant else blind_grace_s
        severity = invariant.severity if invariant else Severity.WARNING
        if (now - one.broken_since).total_seconds() >= grace_s:
            found.append(
                Violation(
                    subject=one.subject,
                    invariant=one.invariant,
                    target=one.target,
                    severity=severity,
                    detail=one.detail,
                    since=one.broken_since,
                    trouble=one.trouble,
                )
            )
    return tuple(found)


def replay(
    looks: Iterable[Observation], invariants: Sequence[Invariant], *, blind_grace_s: float
) -> list[Spell]:
    """Every break in recorded looks by the invariants of today, oldest first. Pure."""
    graces = {invariant.name: invariant for invariant in invariants}
    conditions: tuple[Condition, ...] = ()
    live: dict[str, Spell] = {}
    over: list[Spell] = []
    for look in looks:
        conditions = advance(conditions, CheckResult(look, findings_of(invariants, look)))
        for one in conditions:
            key = key_of(one.subject, one.target, one.invariant)
            if one.health is Health.BROKEN and one.broken_since is not None:
                begun = Spell(one.invariant, one.target, one.broken_since)
                live[key] = replace(live.get(key, begun), detail=one.detail)
            elif one.health is Health.HEALTHY and key in live:
                over.append(replace(live.pop(key), until=one.since))
        filed = violations_of(
            conditions, now=look.at, invariants=graces, blind_grace_s=blind_grace_s
        )
        for violation in filed:
            spell = live[violation.key]
            live[violation.key] = replace(spell, ticket=spell.ticket or look.at)
    return sorted([*over, *live.values()], key=lambda one: (one.since, one.target, one.invariant))


@dataclass(slots=True)
class WatchStats:
    """What one process has watched so far, by subject; written by one loop, read by anybody."""

    _watches: dict[str, Watch] = field(default_factory=dict)

    def begin(self, subject: str, interval_s: float) -> None:
        """A subject is watched from now on."""
        known = self._watches.get(subject) or Watch(subject, interval_s)
        self._watches[subject] = replace(known, interval_s=interval_s)

    def add_check(self, subject: str, at: datetime, took_s: float) -> None:
        """One look came to its end."""
        known = self._watches[subject]
        self._watches[subject] = replace(known, last_at=at, last_s=took_s, looks=known.looks + 1)

    def add_missed(self, subject: str, count: int) -> None:
        """So many looks that were due did not begin."""
        known = self._watches[subject]
        self._watches[subject] = replace(known, missed=known.missed + count)

    def add_failure(self, subject: str) -> None:
        """One look came to nothing at all, so that nobody knows how it is."""
        known = self._watches[subject]
        self._watches[subject] = replace(known, failed=known.failed + 1)

    def end(self, subject: str) -> None:
        """It is watched no more."""
        self._watches.pop(subject, None)

    def watches(self) -> Sequence[Watch]:
        """How every subject is watched, by name."""
        return [self._watches[name] for name in sorted(self._watches)]
