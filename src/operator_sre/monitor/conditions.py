"""Since when each invariant holds or not: pure, so that clocks survive a restart as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from operator_protocols.domain.health import Health, Severity
from operator_protocols.domain.observation import Finding, Sighting, Violation
from operator_protocols.ports import Condition, Invariant

__all__ = ["advance", "violations_of"]


def advance(before: Sequence[Condition], sighting: Sighting) -> tuple[Condition, ...]:
    """The conditions after a look. What was not spoken of becomes UNKNOWN, never healthy."""
    known = {(one.invariant, one.target): one for one in before}
    at = sighting.observation.at
    subject = sighting.observation.subject
    after: dict[tuple[str, str], Condition] = {}
    # The worst is taken last, so that it stands where two findings speak of one target.
    for finding in sorted(sighting.findings, key=lambda finding: finding.health.rank):
        place = (finding.invariant, finding.target)
        after[place] = _next(subject, known.get(place), finding, at)
    for place, one in known.items():
        if place not in after:
            silent = Finding(one.invariant, one.target, Health.UNKNOWN, one.detail)
            after[place] = _next(subject, one, silent, at)
    return tuple(after.values())


def _next(subject: str, before: Condition | None, finding: Finding, at: datetime) -> Condition:
    same = before is not None and before.health is finding.health
    broken_since = before.broken_since if before else None
    if finding.health is Health.BROKEN:
        broken_since = broken_since or at
    elif finding.health is Health.HEALTHY:
        broken_since = None
    # UNKNOWN keeps the clock of a break: not seeing it does not make it younger.
    return Condition(
        subject=subject,
        invariant=finding.invariant,
        target=finding.target,
        health=finding.health,
        since=before.since if same and before else at,
        broken_since=broken_since,
        detail=finding.detail,
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
