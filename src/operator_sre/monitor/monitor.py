"""Checks of a subject, live or recorded, and the conditions that follow from them."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from operator import attrgetter

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
from operator_protocols.kit.changes import ChangeLog
from operator_protocols.kit.surroundings import Surroundings
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
from operator_sre.monitor.roles import OBSERVABLE, find_moved, find_settled

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

# How long Operator waits for a cancelled observation to stop.
STOP_S = 1.0
# The files and limits of more targets than these are not compared at every check.
SURVEYED_MAX = 50

log = logging.getLogger(__name__)

Place = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Watched:
    """One check with the conditions and violations that follow from it.

    It `began` before anything was observed. `targets` are the parts of the subject at that moment;
    none when they could not be read. A silence covers the violations in `silenced`.
    """

    check: CheckResult
    targets: tuple[Target, ...]
    conditions: tuple[Condition, ...]
    violations: tuple[Violation, ...]
    silenced: tuple[Violation, ...] = ()
    began: datetime | None = None


@dataclass(frozen=True, slots=True)
class Spell:
    """A period in which one invariant was broken at one target; `until` is None while it lasts.

    `ticket` is the end of the grace period; None when the spell was shorter.
    """

    invariant: str
    target: str
    since: datetime
    until: datetime | None = None
    ticket: datetime | None = None
    detail: str = ""


class Monitor:
    """Checks subjects and records since when each condition holds.

    `quiet` returns the silences of a subject, and `blind_graces` overrides `blind_grace_s`, the
    grace of a subject that cannot be observed. A gap between two checks that is longer than
    `gap_of` the subject does not count towards any grace.
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
        self._checked_at: dict[str, datetime] = {}
        self._surroundings: dict[str, tuple[Surroundings, ChangeLog]] = {}

    async def check(self, subject: Subject) -> CheckResult:
        """Observe once and check every invariant. Never raises for what the subject does."""
        return (await self._see(subject))[0]

    async def watch(self, subject: Subject) -> Watched:
        """Check once, and return what has been broken for longer than its grace."""
        # The last check may be that of another monitor.
        last, gap_s = self._checked_at.get(subject.name), self._gap_of(subject.name)
        if last is None or (self._clock.now() - last).total_seconds() > gap_s:
            newest = self._observations.newest(subject.name, limit=1) if gap_s < math.inf else ()
            last = newest[0].at if newest else last
        began = self._clock.now()
        check, targets = await self._see(subject, surveys=True)
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
        self._checked_at[subject.name] = at
        violations = violations_of(
            conditions, now=at, invariants=graces, blind_grace_s=blind_grace_s
        )
        silences = self._quiet(subject.name) if violations else ()
        quiet: list[Violation] = []
        loud: list[Violation] = []
        for violation in violations:
            place = (violation.subject, violation.target, violation.invariant)
            is_silent = any(silence.covers(*place) for silence in silences)
            (quiet if is_silent else loud).append(violation)
        return Watched(check, targets, conditions, tuple(loud), tuple(quiet), began)

    async def _remember(
        self,
        before: Sequence[Condition],
        after: tuple[Condition, ...],
        check: CheckResult,
        subject: Subject,
        targets: Sequence[Target],
    ) -> tuple[Condition, ...]:
        """Store the conditions that changed, and drop those of targets that are gone."""
        if targets and not check.observation.problem:
            here = [subject.name, *(target.name for target in targets)]
            seen = [sight.target for sight in check.observation.seen]
            spoken = {finding.invariant for finding in check.findings}
            names = {OBSERVABLE, *spoken, *(invariant.name for invariant in subject.invariants)}
            gone = (
                *find_departed(after, targets=[*here, *seen], invariants=names),
                *find_settled(after, check),
            )
            if gone:
                await self._conditions.forget(gone)
                left = set(gone)
                after = tuple(condition for condition in after if condition not in left)
        old = {(condition.invariant, condition.target): condition for condition in before}
        changed = [
            condition
            for condition in after
            if old.get((condition.invariant, condition.target)) is not condition
        ]
        await self._conditions.update(changed)
        return after

    async def _see(
        self, subject: Subject, *, surveys: bool = False
    ) -> tuple[CheckResult, tuple[Target, ...]]:
        check, targets = await run_check(subject, self._clock, timeout_s=self._timeout_s)
        at = check.observation.at
        if surveys:  # what an agent checks between two watches has nothing to be compared with
            kept = self._surroundings.setdefault(subject.name, (Surroundings(), ChangeLog()))
            await asyncio.to_thread(_survey, *kept, targets, at)
            changes = (*check.observation.changes, *kept[1].recent(at))
            check = replace(check, observation=replace(check.observation, changes=changes))
        if moved := find_moved(check, self._conditions.of(subject.name)):
            check = replace(check, findings=(*check.findings, *moved))
        await self._observations.add(check.observation)
        return check, targets


def _survey(
    surroundings: Surroundings, log: ChangeLog, targets: Sequence[Target], at: datetime
) -> None:
    """Note what became different around targets on this machine."""
    for target in targets[:SURVEYED_MAX]:
        for source, state in surroundings.survey(target).items():
            log.note(target.name, source, state, at)


async def run_check(
    subject: Subject, clock: Clock, *, timeout_s: float
) -> tuple[CheckResult, tuple[Target, ...]]:
    """Observe once and check every invariant; stores nothing."""
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
    """One observation, or TimeoutError; an observation that ignores its cancellation is left."""
    observing = asyncio.ensure_future(subject.observe())
    try:
        done, _ = await asyncio.wait([observing], timeout=timeout_s)
        if done:
            return observing.result()
        raise TimeoutError
    finally:
        if not observing.done():
            observing.cancel()
            await asyncio.wait([observing], timeout=STOP_S)
            observing.add_done_callback(lambda late: late.cancelled() or late.exception())


def findings_of(invariants: Iterable[Invariant], observation: Observation) -> tuple[Finding, ...]:
    """The findings of every invariant, and whether the subject was observable. Pure."""
    blind = observation.problem
    # An observer that cannot see is a break of its own, so that silence opens a ticket.
    seen: list[tuple[str, str, Trouble | None]] = [(observation.subject, blind, None)]
    for part in () if blind else observation.seen:
        seen.append((part.target, part.problem or part.gaps, part.trouble))
    findings = []
    partly = {part.target for part in observation.seen if not part.problem}
    for target, problem, trouble in seen:
        health = Health.BROKEN if problem else Health.HEALTHY
        part_of = "a part of it" if target in partly else "it"
        detail = f"{part_of} cannot be observed: {problem}" if problem else ""
        findings.append(Finding(OBSERVABLE, target, health, detail, trouble=trouble))
    for invariant in () if blind else invariants:
        try:
            findings += tuple(invariant.check(observation))
        except Exception as error:  # noqa: BLE001  a check that crashes knows nothing
            detail = f"the check of {invariant.name} failed: {type(error).__name__}: {error}"
            crash = (OBSERVABLE, observation.subject, Health.BROKEN, detail)
            findings.append(Finding(*crash, trouble=Trouble.NOTHING))
            findings += [
                Finding(invariant.name, sight.target, Health.UNKNOWN, detail)
                for sight in observation.seen
            ]
    return tuple(findings)


def advance(before: Sequence[Condition], check: CheckResult) -> tuple[Condition, ...]:
    """The conditions after a check. Without a finding a condition is UNKNOWN, never healthy."""
    known = {(condition.invariant, condition.target): condition for condition in before}
    at = check.observation.at
    subject = check.observation.subject
    worst: dict[Place, Finding] = {}
    for finding in check.findings:
        place = (finding.invariant, finding.target)
        other = worst.get(place)
        # Where two findings speak of one target, the worse one counts.
        if other is None or finding.health.rank > other.health.rank:
            worst[place] = finding
    after = [
        _next_condition(subject, known.get(place), finding, at) for place, finding in worst.items()
    ]
    for place, condition in known.items():
        if place not in worst:
            missing = Finding(*place, Health.UNKNOWN, condition.detail, trouble=condition.trouble)
            after.append(_next_condition(subject, condition, missing, at))
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
        recent = (start for start in (*breaks, at) if (at - start).total_seconds() <= FLAP_S)
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
    """The conditions after a time without checks, which does not count towards any grace.

    A condition whose grace had ended by the last check keeps the moment at which it broke.
    """
    gap = now - last
    after = []
    for condition in conditions:
        start = condition.broken_since
        if start is None or (last - start).total_seconds() < grace_of(condition.invariant):
            later = min(start + gap, now) if start is not None else None
            since = min(condition.since + gap, now)
            condition = replace(condition, since=since, broken_since=later)
        after.append(condition)
    return tuple(after)


def find_departed(
    conditions: Iterable[Condition], *, targets: Iterable[str], invariants: Iterable[str]
) -> tuple[Condition, ...]:
    """Conditions of targets or invariants that no longer exist.

    A condition that was broken when its target went away stays as UNKNOWN, because a target that
    disappears has not recovered.
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
    """The violations: conditions that have been broken for longer than their grace."""
    violations = []
    for condition in conditions:
        if condition.health is not Health.BROKEN or condition.broken_since is None:
            continue
        invariant = invariants.get(condition.invariant)
        grace_s = invariant.grace_s if invariant else blind_grace_s
        severity = invariant.severity if invariant else Severity.WARNING
        if (now - condition.broken_since).total_seconds() >= grace_s:
            violations.append(
                Violation(
                    subject=condition.subject,
                    invariant=condition.invariant,
                    target=condition.target,
                    severity=severity,
                    detail=condition.detail,
                    since=condition.broken_since,
                    trouble=condition.trouble,
                )
            )
    return tuple(violations)


def replay(
    observations: Iterable[Observation], invariants: Sequence[Invariant], *, blind_grace_s: float
) -> list[Spell]:
    """Every spell in recorded observations by the current invariants, oldest first. Pure."""
    graces = {invariant.name: invariant for invariant in invariants}
    conditions: tuple[Condition, ...] = ()
    live: dict[str, Spell] = {}
    ended: list[Spell] = []
    for observation in observations:
        conditions = advance(
            conditions, CheckResult(observation, findings_of(invariants, observation))
        )
        for condition in conditions:
            key = key_of(condition.subject, condition.target, condition.invariant)
            if condition.health is Health.BROKEN and condition.broken_since is not None:
                spell = Spell(condition.invariant, condition.target, condition.broken_since)
                live[key] = replace(live.get(key, spell), detail=condition.detail)
            elif condition.health is Health.HEALTHY and key in live:
                ended.append(replace(live.pop(key), until=condition.since))
        violations = violations_of(
            conditions, now=observation.at, invariants=graces, blind_grace_s=blind_grace_s
        )
        for violation in violations:
            spell = live[violation.key]
            live[violation.key] = replace(spell, ticket=spell.ticket or observation.at)
    return sorted([*ended, *live.values()], key=attrgetter("since", "target", "invariant"))


@dataclass(slots=True)
class WatchStats:
    """Counts of what one process has watched, by subject. One loop writes them."""

    _watches: dict[str, Watch] = field(default_factory=dict)

    def begin(self, subject: str, interval_s: float) -> None:
        """Start to count for a subject."""
        known = self._watches.get(subject) or Watch(subject, interval_s)
        self._watches[subject] = replace(known, interval_s=interval_s)

    def add_check(self, subject: str, at: datetime, took_s: float) -> None:
        """Count a completed check."""
        known = self._watches[subject]
        self._watches[subject] = replace(
            known, last_at=at, last_s=took_s, looks=known.looks + 1, leader=""
        )

    def follow(self, subject: str, leader: str, last_at: datetime | None) -> None:
        """Note that another monitor checks a subject, and when it did last."""
        self._watches[subject] = replace(self._watches[subject], last_at=last_at, leader=leader)

    def add_missed(self, subject: str, count: int) -> None:
        """Count checks that were due and did not start."""
        known = self._watches[subject]
        self._watches[subject] = replace(known, missed=known.missed + count)

    def add_failure(self, subject: str) -> None:
        """Count a check that failed without a result."""
        known = self._watches[subject]
        self._watches[subject] = replace(known, failed=known.failed + 1)

    def end(self, subject: str) -> None:
        """Forget a subject that is no longer watched."""
        self._watches.pop(subject, None)

    def watches(self) -> Sequence[Watch]:
        """The counts, sorted by subject."""
        return [self._watches[name] for name in sorted(self._watches)]
