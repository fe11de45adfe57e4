"""Alerts as invariants: of a subject that Operator observes too, or that only sends alerts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from operator_protocols.domain.alert import Alert
from operator_protocols.domain.health import Health, Severity, worst
from operator_protocols.domain.observation import Finding, Observation, Seen, Trouble
from operator_protocols.domain.target import Target
from operator_protocols.ports import Alerts, Clock, Invariant, Prompting, Subject

__all__ = ["AlertInvariant", "AlertedSubject", "ObservedInvariant", "WithAlerts"]

FIRING_MAX = 10_000
CLEARED_MAX = 1_000
# How long a cleared alert is still reported, so that its ticket can be resolved.
CLEARED_KEPT = timedelta(days=30)
# Added to the text of an alert, so that its reader checks before acting.
UNCONFIRMED = "; Operator's own check finds nothing wrong"


@dataclass(frozen=True, slots=True)
class AlertInvariant:
    """No alert of this name fires. A cleared alert counts once our own check confirms it.

    `own` are the invariants of the subject itself; None where only the alert can tell.
    """

    name: str
    alerts: tuple[Alert, ...]
    own: tuple[Invariant, ...] | None = None
    severity: Severity = Severity.WARNING
    grace_s: float = 0.0

    def check(self, observation: Observation) -> Iterable[Finding]:
        """One finding for each target of an alert of this name."""
        ours: Callable[[str], Health] | None = None
        for target in dict.fromkeys(alert.target for alert in self.alerts):
            firing = [alert for alert in self.alerts if alert.target == target and alert.firing]
            if firing and self.own is None:
                yield Finding(self.name, target, Health.BROKEN, _quote_alerts(firing))
                continue
            ours = ours or self._judge_own(observation)
            if firing:
                own = ours(target)
                detail = f"{_quote_alerts(firing)}{UNCONFIRMED if own is Health.HEALTHY else ''}"
                trouble = Trouble.UNCONFIRMED if own is Health.HEALTHY else None
                yield Finding(self.name, target, Health.BROKEN, detail, own, trouble)
                continue
            confirmed = self.own is None or ours(target) is Health.HEALTHY
            # Not BROKEN: what fails at the target later has nothing to do with an alert that ended.
            health = Health.HEALTHY if confirmed else Health.UNKNOWN
            detail = "" if confirmed else "the alert cleared, but Operator's own check still fails"
            yield Finding(self.name, target, health, detail)

    def _judge_own(self, observation: Observation) -> Callable[[str], Health]:
        """The health of a target by our own checks; UNKNOWN where a check fails."""
        own = [invariant for invariant in self.own or () if invariant.name != self.name]
        try:
            found = [finding for invariant in own for finding in invariant.check(observation)]
        except Exception:  # noqa: BLE001  what a check of ours does must not hide an alert
            return lambda target: Health.UNKNOWN

        def health_of(target: str) -> Health:
            whole = target == observation.subject  # the alert is about the subject
            seen = observation.seen if whole else (observation.of(target),)
            looks = [Health.UNKNOWN if part.problem else Health.HEALTHY for part in seen]
            checks = [finding.health for finding in found if whole or finding.target == target]
            return worst([*looks, *checks])

        return health_of


@dataclass(frozen=True, slots=True)
class ObservedInvariant:
    """An invariant of the subject, which reports nothing when nothing could be observed."""

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
        """Its findings, where there was something to observe."""
        seen = observation.seen
        if len(seen) == 1 and seen[0].target == self.subject and seen[0].problem:
            return ()
        return self.inner.check(observation)


class WithAlerts:
    """A subject that other systems watch too: their alerts are further invariants."""

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
        """Its own invariants, and its alerts as invariants."""
        own = tuple(self._subject.invariants)
        known = self._known if self._known is not None else self._read_alerts()
        sighted = [ObservedInvariant(invariant, self.name) for invariant in own]
        return (*sighted, *_invariants(known, own=own))

    def targets(self) -> Sequence[Target]:
        """Its parts as they are now."""
        return self._subject.targets()

    async def wait_change(self) -> None:
        """Wait for a change that the subject learns of by itself."""
        if isinstance(self._subject, Prompting):
            await self._subject.wait_change()
        else:
            await asyncio.Event().wait()

    async def observe(self) -> Observation:
        """Observe once. Where nothing can be observed, the alerts count all the same."""
        self._known = self._read_alerts()
        if not any(alert.firing for alert in self._known):
            return await self._subject.observe()
        try:
            async with asyncio.timeout(self._timeout_s):
                observation = await self._subject.observe()
            problem = observation.problem
        except TimeoutError:
            problem = f"observing took longer than {self._timeout_s:g} s"
        except Exception as error:  # noqa: BLE001  whatever a plug-in raises, nothing was observed
            problem = f"{type(error).__name__}: {error}"
        if not problem:
            return observation
        # An observation with a problem of its own is not checked at all, and the alerts with it.
        blind = Seen(self.name, problem=problem)
        return Observation(self.name, self._clock.now(), (blind,))

    def _read_alerts(self) -> tuple[Alert, ...]:
        return _find_alerts(self._alerts, self.name, self._clock)


class AlertedSubject:
    """A subject that Operator does not observe: its alerts are all there is."""

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
        """None of its alerts fires."""
        known = self._known if self._known is not None else self._read_alerts()
        return _invariants(known, own=None)

    def targets(self) -> Sequence[Target]:
        """The targets of its alerts."""
        known = self._known if self._known is not None else self._read_alerts()
        return [Target(name, "alert") for name in dict.fromkeys(alert.target for alert in known)]

    async def observe(self) -> Observation:
        """The alerts as they are now."""
        self._known = self._read_alerts()
        seen: dict[str, dict[str, str]] = {}
        for alert in reversed(self._known):
            readings = seen.setdefault(alert.target, {})
            if alert.firing or alert.invariant not in readings:
                readings[alert.invariant] = _quote_alerts([alert]) if alert.firing else "over"
        parts = tuple(Seen(target, readings) for target, readings in seen.items())
        return Observation(self._name, self._clock.now(), parts)

    def _read_alerts(self) -> tuple[Alert, ...]:
        return _find_alerts(self._alerts, self._name, self._clock)


def _find_alerts(alerts: Alerts, subject: str, clock: Clock) -> tuple[Alert, ...]:
    firing = alerts.find(firing=True, subject=subject, limit=FIRING_MAX)
    oldest = clock.now() - CLEARED_KEPT
    over = alerts.find(firing=False, subject=subject, limit=CLEARED_MAX)
    return (*firing, *(alert for alert in over if alert.cleared_at and alert.cleared_at > oldest))


def _invariants(
    alerts: Sequence[Alert], *, own: tuple[Invariant, ...] | None
) -> tuple[AlertInvariant, ...]:
    named: dict[str, list[Alert]] = {}
    for alert in alerts:
        named.setdefault(alert.invariant, []).append(alert)
    ours = {invariant.name: invariant for invariant in own or ()}
    invariants = []
    for name, group in named.items():
        if mine := ours.get(name):
            # It stands for an invariant of ours, which decides when the alert has cleared, and
            # whose grace counts for both.
            firing = tuple(alert for alert in group if alert.firing)
            if firing:
                invariants.append(AlertInvariant(name, firing, own, mine.severity, mine.grace_s))
        else:
            severity = max(alert.severity for alert in group)
            invariants.append(AlertInvariant(name, tuple(group), own, severity))
    return tuple(invariants)


def _quote_alerts(alerts: Sequence[Alert]) -> str:
    first = alerts[0]
    more = f" (and {len(alerts) - 1} more)" if len(alerts) > 1 else ""
    return f"{first.trigger} says: {first.summary}{more}"
