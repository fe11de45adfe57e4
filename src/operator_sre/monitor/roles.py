"""Conditions that no longer apply to a target: it answers, and another has its role. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from operator_protocols.domain.health import Health
from operator_protocols.domain.observation import CheckResult, Finding, Observation, Value
from operator_protocols.ports import Condition

__all__ = ["OBSERVABLE", "find_moved", "find_settled"]

OBSERVABLE = "observable"
# Readings that tell which duty a target has among its peers.
ROLE_READINGS = ("role", "in_use", "is_leader")


def _find_clear(check: CheckResult) -> frozenset[str]:
    """The targets that answer, at which nothing is broken or unknown."""
    health: dict[str, set[Health]] = {}
    for finding in check.findings:
        if finding.invariant != OBSERVABLE:
            health.setdefault(finding.target, set()).add(finding.health)
    answering = {seen.target for seen in check.observation.seen if not (seen.problem or seen.gaps)}
    return frozenset(name for name in answering if health.get(name) == {Health.HEALTHY})


def find_moved(check: CheckResult, conditions: Iterable[Condition]) -> tuple[Finding, ...]:
    """What was broken at a target for a role that another one has now, where it holds.

    A target that is down, or at which something is unknown, has not handed over anything.
    """
    if check.observation.problem:
        return ()
    judged: dict[str, dict[str, Health]] = {}
    for finding in check.findings:
        judged.setdefault(finding.invariant, {})[finding.target] = finding.health
    clear = _find_clear(check)
    moved = []
    for condition in conditions:
        here = judged.get(condition.invariant, {})
        if condition.target in here or condition.target not in clear or not here:
            continue
        role = _role_of(check.observation, condition.target)
        others = {_role_of(check.observation, name) for name in here}
        if None in (role, *others) or role in others or set(here.values()) != {Health.HEALTHY}:
            continue
        detail = f"it is checked at {', '.join(sorted(here))} now"
        moved.append(Finding(condition.invariant, condition.target, Health.HEALTHY, detail))
    return tuple(moved)


def _role_of(observation: Observation, target: str) -> tuple[Value, ...] | None:
    """The duty of a target by its readings; None where they do not tell."""
    readings = observation.of(target).readings
    role = tuple(readings.get(name) for name in ROLE_READINGS)
    return None if role == (None,) * len(ROLE_READINGS) else role


def find_settled(conditions: Iterable[Condition], check: CheckResult) -> tuple[Condition, ...]:
    """Conditions that were never broken, and are not checked at their target any more.

    They came up while it did not answer and its role was unknown.
    """
    clear = _find_clear(check)
    judged = {(finding.invariant, finding.target) for finding in check.findings}
    return tuple(
        condition
        for condition in conditions
        if condition.broken_since is None
        and condition.target in clear
        and (condition.invariant, condition.target) not in judged
    )
