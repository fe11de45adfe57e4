"""Since when each invariant holds or not: pure, so that clocks survive a restart as data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from operator_protocols.domain.health import Health, Severity
from operator_protocols.domain.observation import Finding, Sighting, Violation
from operator_protocols.ports import BREAKS_KEPT, FLAP_S, Condition, Invariant

__all__ = ["advance", "departed", "unwatched", "violations_of"]

Place = tuple[str, str]


def advance(before: Sequence[Condition], sighting: Sighting) -> tuple[Condition, ...]:
    """The conditions after a look. What was not spoken of becomes UNKNOWN, never healthy."""
    known = {(one.invariant, one.target): one for one in before}
    at = sighting.observation.at
    subject = sighting.observation.subject
    worst: dict[Place, Finding] = {}
    for finding in sighting.findings:
        place = (finding.invariant, finding.target)
        other = worst.get(place)
        # Where two findings speak of one target, the worse one counts.
        if other is None or finding.health.rank > other.health.rank:
            worst[place] = finding
    after = [_next(subject, known.get(place), one, at) for place, one in worst.items()]
    for place, one in known.items():
        if place not in worst:
            silent = Finding(one.invariant, one.target, Health.UNKNOWN, one.detail)
            after.append(_next(subject, one, silent, at))
    return tuple(after)


def _next(subject: str, before: Condition | None, finding: Finding, at: datetime) -> Condition:
    health, detail = finding.health, finding.detail
    if before is None:
        broken = at if health is Health.BROKEN else None
        first = (at,) if broken else ()
        return Condition(
            subject, finding.invariant, finding.target, health, at, broken, detail, first
        )
    same = before.health is health
    if same and before.detail == detail and (before.broken_since or health is not Health.BROKEN):
        return before  # nearly always; and what is the same need not be written again
    broken_since, breaks = before.broken_since, before.breaks
    if health is Health.BROKEN and broken_since is None:
        broken_since = at
        breaks = _recent((*breaks, at), at)
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
    )


def _recent(breaks: Iterable[datetime], at: datetime) -> tuple[datetime, ...]:
    return tuple(one for one in breaks if (at - one).total_seconds() <= FLAP_S)[-BREAKS_KEPT:]


def unwatched(
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

    return tuple(moved(one) for one in conditions)


def departed(
    conditions: Iterable[Condition], *, targets: Iterable[str], invariants: Iterable[str]
) -> tuple[Condition, ...]:
    """Conditions of targets or invariants that are no more, and that nothing depends on.

    One that was broken when its target went away stays, as UNKNOWN: vanishing is no recovery.
    """
    here, known = set(targets), set(invariants)
    return tuple(
        one
        for one in conditions
        if one.invariant not in known or (one.target not in here and one.broken_since is None)
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
                )
            )
    return tuple(found)
