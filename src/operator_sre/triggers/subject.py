"""Alerts as invariants: a subject that others watch too, and one that only others see."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from operator_protocols.domain.alert import Alert
from operator_protocols.domain.health import Health, Severity, worst
from operator_protocols.domain.observation import Finding, Observation, Seen
from operator_protocols.domain.target import Target
from operator_protocols.ports import Alerts, Clock, Invariant, Subject

__all__ = ["AlertInvariant", "AlertedSubject", "ObservedInvariant", "WithAlerts"]

FIRING_MAX = 10_000
CLEARED_MAX = 1_000
# How long an alert that is over is still spoken of, so that its ticket can be resolved.
CLEARED_KEPT = timedelta(days=30)
# What is added to the words of an alert, so that whoever reads them looks before they act.
UNCONFIRMED = "; Operator's own check finds nothing wrong"


@dataclass(frozen=True, slots=True)
class AlertInvariant:
    """No alert of this name fires. One that is over counts only as far as our own look confirms it.

    `own` are the invariants of the subject itself; None where nobody but the alert can tell.
    """

    name: str
    alerts: tuple[Alert, ...]
    own: tuple[Invariant, ...] | None = None
    severity: Severity = Severity.WARNING
    grace_s: float = 0.0

    def check(self, observation: Observation) -> Iterable[Finding]:
        """One finding for each target that an alert of this name was ever told of."""
        ours: Callable[[str], Health] | None = None
        for target in dict.fromkeys(alert.target for alert in self.alerts):
            firing = [alert for alert in self.alerts if alert.target == target and alert.firing]
            if firing and self.own is None:
                yield Finding(self.name, target, Health.BROKEN, _quote_alert(firing))
                continue
            ours = ours or self._ours(observation)
            if firing:
                own = ours(target)
                detail = f"{_quote_alert(firing)}{UNCONFIRMED if own is Health.HEALTHY else ''}"
                yield Finding(self.name, target, Health.BROKEN, detail, own=own)
                continue
            health = Health.HEALTHY if self.own is None else ours(target)
            detail = (
                ""
                if health is Health.HEALTHY
                else "the alert cleared, but Operator's own check still fails"
            )
            yield Finding(self.name, target, health, detail)

    def _ours(self, observation: Observation) -> Callable[[str], Health]:
        """What our own look says of a target; UNKNOWN where a check of ours fails."""
        own = [one for one in self.own or () if one.name != self.name]
        try:
            found = [finding for invariant in own for finding in invariant.check(observation)]
        except Exception:  # noqa: BLE001  what a check of ours does must not hide an alert
            return lambda target: Health.UNKNOWN

        def health_of(target: str) -> Health:
            whole = target == observation.subject  # the alert is about the subject
            seen = observation.seen if whole else (observation.of(target),)
            looks = [Health.UNKNOWN if one.problem else Health.HEALTHY for one in seen]
            checks = [one.health for one in found if whole or one.target == target]
            return worst([*looks, *checks])

        return health_of


@dataclass(frozen=True, slots=True)
class ObservedInvariant:
    """An invariant of a subject's own, which says nothing of a look that showed nothing."""

    inner: Invariant
    subject: str

    @property
    def name(self) -> str:
        """Its name in tickets and policies."""
        return self.inner.name

    @property
    def severity(self) -> Severity:
        """How urgent a break is."""
        return self.inner.severity

    @property
    def grace_s(self) -> float:
        """How long it must be broken before a ticket opens."""
        return self.inner.grace_s

    def check(self, observation: Observation) -> Iterable[Finding]:
        """What it says, where there was something to see."""
        seen = observation.seen
        if len(seen) == 1 and seen[0].target == self.subject and seen[0].problem:
            return ()
        return self.inner.check(observation)


class WithAlerts:
    """A subject that others watch too: what they say is one more invariant of it."""

    def __init__(self, subject: Subject, alerts: Alerts, *, clock: Clock, timeout_s: float) -> None:
        self._subject = subject
        self._alerts = alerts
        self._clock = clock
        self._timeout_s = timeout_s
        self._known: tuple[Alert, ...] | None = None

    @property
    def name(self) -> str:
        """Its name in configuration and tickets."""
        return self._subject.name

    @property
    def invariants(self) -> Sequence[Invariant]:
        """What must hold, and what others say does not."""
        own = tuple(self._subject.invariants)
        known = self._known if self._known is not None else self._look_up()
        sighted = [ObservedInvariant(one, self.name) for one in own]
        return (*sighted, *_invariants(known, own=own))

    def targets(self) -> Sequence[Target]:
        """Its parts as they are now."""
        return self._subject.targets()

    async def observe(self) -> Observation:
        """Look once. Where nothing can be seen, what others say counts all the same."""
        self._known = self._look_up()
        if not any(one.firing for one in self._known):
            return await self._subject.observe()
        try:
            async with asyncio.timeout(self._timeout_s):
                observation = await self._subject.observe()
            problem = observation.problem
        except TimeoutError:
            problem = f"observing took longer than {self._timeout_s:g} s"
        except Exception as error:  # noqa: BLE001  whatever a plug-in raises, we saw nothing
            problem = f"{type(error).__name__}: {error}"
        if not problem:
            return observation
        # An observation with a problem of its own is not checked at all, and the alerts with it.
        blind = Seen(self.name, problem=problem)
        return Observation(self.name, self._clock.now(), (blind,))

    def _look_up(self) -> tuple[Alert, ...]:
        return _find_alerts(self._alerts, self.name, self._clock)


class AlertedSubject:
    """A subject that nobody but a trigger sees: its alerts are all there is to observe."""

    def __init__(self, name: str, alerts: Alerts, *, clock: Clock) -> None:
        self._name = name
        self._alerts = alerts
        self._clock = clock
        self._known: tuple[Alert, ...] | None = None

    @property
    def name(self) -> str:
        """Its name in configuration and tickets."""
        return self._name

    @property
    def invariants(self) -> Sequence[Invariant]:
        """That none of its alerts fires."""
        known = self._known if self._known is not None else self._look_up()
        return _invariants(known, own=None)

    def targets(self) -> Sequence[Target]:
        """What its alerts were told of."""
        known = self._known if self._known is not None else self._look_up()
        return [Target(name, "alert") for name in dict.fromkeys(one.target for one in known)]

    async def observe(self) -> Observation:
        """What its alerts say now."""
        self._known = self._look_up()
        seen: dict[str, dict[str, str]] = {}
        for one in reversed(self._known):
            readings = seen.setdefault(one.target, {})
            if one.firing or one.invariant not in readings:
                readings[one.invariant] = _quote_alert([one]) if one.firing else "over"
        parts = tuple(Seen(target, readings) for target, readings in seen.items())
        return Observation(self._name, self._clock.now(), parts)

    def _look_up(self) -> tuple[Alert, ...]:
        return _find_alerts(self._alerts, self._name, self._clock)


def _find_alerts(alerts: Alerts, subject: str, clock: Clock) -> tuple[Alert, ...]:
    firing = alerts.find(firing=True, subject=subject, limit=FIRING_MAX)
    oldest = clock.now() - CLEARED_KEPT
    over = alerts.find(firing=False, subject=subject, limit=CLEARED_MAX)
    return (*firing, *(one for one in over if one.cleared_at and one.cleared_at > oldest))


def _invariants(
    alerts: Sequence[Alert], *, own: tuple[Invariant, ...] | None
) -> tuple[AlertInvariant, ...]:
    named: dict[str, list[Alert]] = {}
    for one in alerts:
        named.setdefault(one.invariant, []).append(one)
    ours = {one.name: one for one in own or ()}
    invariants = []
    for name, group in named.items():
        if mine := ours.get(name):
            # It stands for an invariant of ours, which speaks for itself when the alert is over,
            # and whose grace counts for both.
            firing = tuple(one for one in group if one.firing)
            if firing:
                invariants.append(AlertInvariant(name, firing, own, mine.severity, mine.grace_s))
        else:
            severity = max(one.severity for one in group)
            invariants.append(AlertInvariant(name, tuple(group), own, severity))
    return tuple(invariants)


def _quote_alert(alerts: Sequence[Alert]) -> str:
    first = alerts[0]
    more = f" (and {len(alerts) - 1} more)" if len(alerts) > 1 else ""
    return f"{first.trigger} says: {first.summary}{more}"
