"""How everything is, on one screen: what is broken, who watches, and what is kept quiet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from operator_protocols.domain.health import Health, worst
from operator_protocols.domain.observation import key_of
from operator_protocols.domain.silence import Silence
from operator_protocols.domain.ticket import Ticket, TicketState
from operator_protocols.domain.watcher import Watch, Watcher
from operator_protocols.errors import OperatorError
from operator_protocols.ports import Condition
from operator_sre.app.silences import silences_now
from operator_sre.app.wiring import App

__all__ = ["HealthView", "SubjectHealth", "TargetHealth", "Trouble", "health_of", "show_health"]

# A monitor speaks every 5 seconds; one that has not for so long is not there any more.
SPOKE_S_MAX = 20.0
LIVE = tuple(state for state in TicketState if state.live)
_BEAT_MISSED = "nobody watches it"


@dataclass(frozen=True, slots=True)
class Trouble:
    """One invariant that does not hold at one target, or is not known to.

    `silenced` says why nobody is told, `ticket` is the number of the one that holds it.
    """

    target: str
    invariant: str
    health: Health
    since: datetime
    detail: str
    silenced: str = ""
    flapping: bool = False
    ticket: int | None = None


@dataclass(frozen=True, slots=True)
class TargetHealth:
    """The worst that is known of one target."""

    name: str
    health: Health


@dataclass(frozen=True, slots=True)
class SubjectHealth:
    """How one subject is. `problem` says why nobody can know, such as that nobody watches it."""

    subject: str
    health: Health
    targets: tuple[TargetHealth, ...]
    troubles: tuple[Trouble, ...]
    tickets: tuple[Ticket, ...]
    watchers: tuple[str, ...]
    last_look: datetime | None
    interval_s: float
    missed: int
    problem: str = ""

    @property
    def fine(self) -> bool:
        """True when it is watched, and all that does not hold is kept quiet on purpose."""
        loud = [one for one in self.troubles if one.health is not Health.HEALTHY]
        return not self.problem and bool(self.targets) and all(one.silenced for one in loud)


@dataclass(frozen=True, slots=True)
class HealthView:
    """All subjects, the worst first."""

    at: datetime
    health: Health
    fine: bool
    subjects: tuple[SubjectHealth, ...]
    watchers: tuple[Watcher, ...]
    silences: tuple[Silence, ...]


def show_health(app: App) -> HealthView:
    """Every subject that is configured, has a rig, or has a ticket that lives."""
    now = app.clock.now()
    watchers = tuple(one for one in app.store.watchers.find() if _speaks(one, now))
    tickets = app.store.tickets.find(states=LIVE)
    names = dict.fromkeys([*app.subjects(), *(one.subject for one in tickets)])
    found = [health_of(app, name) for name in names]
    found.sort(key=lambda one: (one.fine, -one.health.rank, one.subject))
    return HealthView(
        at=now,
        health=worst(one.health for one in found),
        fine=bool(found) and all(one.fine for one in found),
        subjects=tuple(found),
        watchers=watchers,
        silences=tuple(silences_now(app)),
    )


def health_of(app: App, subject: str) -> SubjectHealth:
    """One subject, by what the store knows of it; nobody looks at it now."""
    now = app.clock.now()
    watched = [(who, one) for who, one in _watches(app, subject) if _speaks(who, now)]
    last = max((one.last_at for _, one in watched if one.last_at), default=None)
    interval_s = max((one.interval_s for _, one in watched), default=0.0)
    interval_s = interval_s or app.config.interval_of(subject)
    problem, parts = _parts(app, subject)
    late_s = 2 * interval_s + 3 * app.config.number("timeout_s") + SPOKE_S_MAX
    problem = problem or _unwatched(app, subject, watched, last, now, late_s)
    conditions = app.store.conditions.of(subject)
    tickets = app.store.tickets.find(states=LIVE, subject=subject)
    health = worst(one.health for one in conditions)
    return SubjectHealth(
        subject=subject,
        # What was seen long ago says nothing about now.
        health=max(health, Health.UNKNOWN) if problem else health,
        targets=_targets(parts, conditions),
        troubles=_troubles(conditions, tickets, silences_now(app, subject), now),
        tickets=tuple(tickets),
        watchers=tuple(who.worker for who, _ in watched),
        last_look=last or _last_ever(app, subject),
        interval_s=interval_s,
        missed=sum(one.missed for _, one in watched),
        problem=problem,
    )


def _speaks(watcher: Watcher, now: datetime) -> bool:
    return (now - watcher.at).total_seconds() <= SPOKE_S_MAX


def _watches(app: App, subject: str) -> Sequence[tuple[Watcher, Watch]]:
    return [
        (who, one)
        for who in app.store.watchers.find()
        for one in who.watches
        if one.subject == subject
    ]


def _last_ever(app: App, subject: str) -> datetime | None:
    newest = app.store.observations.newest(subject, limit=1)
    return newest[0].at if newest else None


def _parts(app: App, subject: str) -> tuple[str, Sequence[str]]:
    if subject not in app.subjects():
        return "it is configured no more, and has tickets that live", ()
    try:
        return "", [target.name for target in app.targets_of(subject)]
    except OperatorError as error:
        return str(error), ()


def _unwatched(
    app: App,
    subject: str,
    watched: Sequence[tuple[Watcher, Watch]],
    last: datetime | None,
    now: datetime,
    late_s: float,
) -> str:
    if not watched:
        return f"{_BEAT_MISSED}: start operator monitor run --subject {subject}"
    if last is None:
        return "it has not been looked at yet"
    age_s = (now - last).total_seconds()
    if age_s > late_s:
        return f"its monitor has not looked for {age_s:.0f} s"
    return ""


def _targets(parts: Sequence[str], conditions: Sequence[Condition]) -> tuple[TargetHealth, ...]:
    known: dict[str, Health] = {}
    for one in conditions:
        known[one.target] = max(one.health, known.get(one.target, one.health))
    return tuple(TargetHealth(name, known.get(name, Health.UNKNOWN)) for name in parts)


def _troubles(
    conditions: Sequence[Condition],
    tickets: Sequence[Ticket],
    silences: Sequence[Silence],
    now: datetime,
) -> tuple[Trouble, ...]:
    filed = {violation.key: one.id for one in tickets for violation in one.violations}
    found = [
        Trouble(
            target=one.target,
            invariant=one.invariant,
            health=one.health,
            since=one.broken_since or one.since,
            detail=one.detail,
            silenced=_quiet(one, silences),
            flapping=one.flapping(now),
            ticket=filed.get(key_of(one.subject, one.target, one.invariant)),
        )
        for one in conditions
        if one.health is not Health.HEALTHY or one.flapping(now)
    ]
    found.sort(key=lambda one: (bool(one.silenced), -one.health.rank, one.since, one.target))
    return tuple(found)


def _quiet(one: Condition, silences: Sequence[Silence]) -> str:
    for silence in silences:
        if silence.covers(one.subject, one.target, one.invariant):
            return f"{silence.reason} ({silence.by}, until {silence.until:%Y-%m-%d %H:%M} UTC)"
    return ""
