"""How everything is, on one screen: what is broken, who watches, what moved, what happened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from operator_protocols.domain.entry import Kind
from operator_protocols.domain.health import Health, worst
from operator_protocols.domain.observation import Observation, key_of
from operator_protocols.domain.silence import Silence
from operator_protocols.domain.ticket import Ticket, TicketState
from operator_protocols.domain.watcher import Watcher
from operator_protocols.errors import OperatorError
from operator_protocols.kit.client import ALL_CHECKED, CLIENT_VIEW
from operator_protocols.ports import Condition
from operator_sre.app.silences import silences_now
from operator_sre.app.story import lines_of
from operator_sre.app.wiring import OWN, App

__all__ = [
    "HealthView",
    "RecentEvent",
    "SubjectHealth",
    "TargetHealth",
    "Trouble",
    "health_of",
    "live_tickets",
    "recent_events",
    "show_health",
    "sparks_of",
]

# A monitor writes every 5 seconds; after this long without a write it counts as gone.
SPOKE_S_MAX = 20.0
LIVE = tuple(state for state in TicketState if state.live)
LOOKS = 60
LATELY_S = 3600.0
# How many entries are searched for events; of more, the newest count.
ENTRIES_MAX = 400
# Beyond it, sums of figures are none any more.
FIGURE_MAX = 1e15
_QUIET = frozenset({Kind.OBSERVED, Kind.REASONING, Kind.VERDICT, Kind.PERMIT_MINTED})


@dataclass(frozen=True, slots=True)
class Trouble:
    """One invariant that does not hold at one target, or is not known to.

    `silenced` is the reason of a silence, `ticket` the number of its ticket.
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
    """The health of one subject. `problem` says why it is unknown, such as a missing monitor.

    `notes` say what its checks leave out on purpose, such as writes where no canary is configured.
    """

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
    notes: tuple[str, ...] = ()

    @property
    def fine(self) -> bool:
        """True when it is watched, and all that does not hold is kept quiet on purpose."""
        loud = [trouble for trouble in self.troubles if trouble.health is not Health.HEALTHY]
        return not self.problem and bool(self.targets) and all(trouble.silenced for trouble in loud)


@dataclass(frozen=True, slots=True)
class HealthView:
    """All subjects, the worst first."""

    at: datetime
    health: Health
    fine: bool
    subjects: tuple[SubjectHealth, ...]
    watchers: tuple[Watcher, ...]
    silences: tuple[Silence, ...]


@dataclass(frozen=True, slots=True)
class Spark:
    """How the liveliest reading of a target moved, oldest first; None where nothing was seen."""

    target: str
    reading: str
    values: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class RecentEvent:
    """Something that happened, in a sentence."""

    seq: int
    at: datetime
    text: str
    tone: str
    by: str
    ticket: int | None


def show_health(app: App) -> HealthView:
    """Every subject that is configured, has a rig, or has a ticket that lives."""
    now = app.clock.now()
    watchers = tuple(watcher for watcher in app.store.watchers.find() if _speaks(watcher, now))
    tickets = app.store.tickets.find(states=LIVE)
    own = [OWN for who in watchers for watch in who.watches if app.is_own(watch.subject)]
    names = dict.fromkeys([*app.subjects(), *own, *(ticket.subject for ticket in tickets)])
    found = [health_of(app, name) for name in names]
    found.sort(key=lambda health: (health.fine, -health.health.rank, health.subject))
    return HealthView(
        at=now,
        health=worst(view.health for view in found),
        fine=bool(found) and all(view.fine for view in found),
        subjects=tuple(found),
        watchers=watchers,
        silences=tuple(silences_now(app)),
    )


def health_of(app: App, subject: str) -> SubjectHealth:
    """The health of one subject by the store, without a new check."""
    now = app.clock.now()
    watched = [
        (who, watch)
        for who in app.store.watchers.find()
        for watch in who.watches
        if watch.subject == subject and _speaks(who, now)
    ]
    last = max((watcher.last_at for _, watcher in watched if watcher.last_at), default=None)
    interval_s = max((watcher.interval_s for _, watcher in watched), default=0.0)
    interval_s = interval_s or app.config.interval_of(subject)
    late_s = 2 * interval_s + 3 * app.config.number("timeout_s") + SPOKE_S_MAX
    problem, parts = "", []
    own = app.is_own(subject)
    if subject not in app.subjects() and not own:
        problem = "no longer configured, but has open tickets"
    else:
        try:
            parts = [target.name for target in app.targets_of(subject)]
        except OperatorError as error:
            problem = str(error)
    if problem:
        pass
    elif not watched:
        start = "service run" if own else f"monitor run --subject {subject}"
        problem = f"not monitored. Start: operator {start}"
    elif last is None:
        problem = "not checked yet"
    elif (age_s := (now - last).total_seconds()) > late_s:
        problem = f"last check {age_s:.0f} s ago"
    conditions = app.store.conditions.of(subject)
    tickets = app.store.tickets.find(states=LIVE, subject=subject)
    health = worst(condition.health for condition in conditions)
    worst_of: dict[str, Health] = {}
    for condition in conditions:
        worst_of[condition.target] = max(
            condition.health, worst_of.get(condition.target, condition.health)
        )
    newest = app.store.observations.newest(subject, limit=1)
    return SubjectHealth(
        subject=subject,
        # What was seen long ago says nothing about now.
        health=max(health, Health.UNKNOWN) if problem else health,
        targets=tuple(TargetHealth(name, worst_of.get(name, Health.UNKNOWN)) for name in parts),
        troubles=_find_troubles(conditions, tickets, silences_now(app, subject), now),
        tickets=tuple(tickets),
        watchers=tuple(who.worker for who, watch in watched if not watch.leader),
        last_look=last or (newest[0].at if newest else None),
        interval_s=interval_s,
        missed=sum(watcher.missed for _, watcher in watched),
        problem=problem,
        notes=tuple(
            f"{seen.target}: {view}"
            for seen in (newest[0].seen if newest else ())
            if isinstance(view := seen.readings.get(CLIENT_VIEW), str) and view != ALL_CHECKED
        ),
    )


def _speaks(watcher: Watcher, now: datetime) -> bool:
    return (now - watcher.at).total_seconds() <= SPOKE_S_MAX


def _find_troubles(
    conditions: Sequence[Condition],
    tickets: Sequence[Ticket],
    silences: Sequence[Silence],
    now: datetime,
) -> tuple[Trouble, ...]:
    filed = {violation.key: ticket.id for ticket in tickets for violation in ticket.violations}
    troubles = []
    for condition in conditions:
        if condition.health is Health.HEALTHY and not condition.flapping(now):
            continue
        place = (condition.subject, condition.target, condition.invariant)
        silenced = next(
            (
                f"{quiet.reason} ({quiet.by}, until {quiet.until:%Y-%m-%d %H:%M} UTC)"
                for quiet in silences
                if quiet.covers(*place)
            ),
            "",
        )
        troubles.append(
            Trouble(
                target=condition.target,
                invariant=condition.invariant,
                health=condition.health,
                since=condition.broken_since or condition.since,
                detail=condition.detail,
                silenced=silenced,
                flapping=condition.flapping(now),
                ticket=filed.get(key_of(*place)),
            )
        )
    troubles.sort(
        key=lambda trouble: (
            bool(trouble.silenced),
            -trouble.health.rank,
            trouble.since,
            trouble.target,
        )
    )
    return tuple(troubles)


def sparks_of(app: App, subject: str, *, looks: int = LOOKS) -> Sequence[Spark]:
    """For each target of a subject the reading that moved most in the last looks."""
    seen = app.store.observations.newest(subject, limit=looks)[::-1]
    targets = dict.fromkeys(sighting.target for look in seen for sighting in look.seen)
    return [_spark(name, seen) for name in targets]


def live_tickets(app: App, *, limit: int) -> Sequence[Ticket]:
    """Unresolved tickets, the most urgent and oldest first."""
    states = [state for state in TicketState if state.live]
    return app.store.tickets.find(states=states, limit=limit)


def recent_events(app: App, *, limit: int, within_s: float = LATELY_S) -> Sequence[RecentEvent]:
    """Recent events for people, newest first."""
    since = app.clock.now() - timedelta(seconds=within_s)
    found: list[RecentEvent] = []
    for entry in app.store.entries.newest(limit=ENTRIES_MAX):
        if entry.at < since or len(found) >= limit:
            break
        if entry.kind not in _QUIET and (line := next(iter(lines_of(entry)), None)):
            by = entry.actor.id if entry.actor.type == "user" else ""
            found.append(RecentEvent(entry.seq, entry.at, line.text, line.tone, by, entry.ticket))
    return found


def _spark(target: str, looks: Sequence[Observation]) -> Spark:
    seen = [look.of(target) for look in looks]
    names = dict.fromkeys(name for sighting in seen for name in sighting.readings)
    series: dict[str, tuple[float | None, ...]] = {}
    for name in names:
        values: list[float | None] = []
        for sighting in seen:
            value = sighting.readings.get(name)
            if isinstance(value, bool) or not isinstance(value, int | float):
                values.append(None)
            else:
                values.append(float(value) if abs(value) <= FIGURE_MAX else None)
        known = [reading for reading in values if reading is not None]
        if len(known) < 3 or known[0] == known[-1] or sorted(known) != known:
            series[name] = tuple(values)
        else:  # a counter: its growth at each check
            series[f"{name} per check"] = tuple(
                None if before is None or after is None else after - before
                for before, after in pairwise(values)
            )
    chosen = max(sorted(series), key=lambda name: _liveliness(series[name]), default="")
    return Spark(target, chosen, series.get(chosen, tuple(None for _ in seen)))


def _liveliness(values: Sequence[float | None]) -> float:
    """How much it goes up and down for its size; what was not seen at all comes last."""
    known = [value for value in values if value is not None]
    if len(known) < 2:
        return -1.0 if not known else 0.0
    reach, seen = max(known) - min(known), len(known) / len(values)
    return seen * (reach / max(abs(max(known)), abs(min(known))) if reach else 0.1)
