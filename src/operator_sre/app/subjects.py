"""Subjects: what there is, what it is made of, how it looks now, and what was seen of it before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from fnmatch import fnmatchcase

from operator_protocols.domain.health import Health, Severity
from operator_protocols.domain.observation import CheckResult, Observation, Value
from operator_protocols.domain.target import Target
from operator_protocols.domain.tool import ToolSource
from operator_protocols.domain.verdict import Risk
from operator_protocols.errors import UsageError
from operator_protocols.ports import Invariant, Subject
from operator_sre.app.health import SubjectHealth, health_of
from operator_sre.app.silences import time_of
from operator_sre.app.wiring import App
from operator_sre.config import seconds_of
from operator_sre.monitor import Spell, replay, run_check

__all__ = [
    "HistoryView",
    "Point",
    "Replayed",
    "Series",
    "SubjectLine",
    "SubjectView",
    "check_subject",
    "list_subjects",
    "observe_subject",
    "replay_history",
    "show_subject",
    "subject_history",
    "subject_of",
]

PAGE = 500
SERIES_MAX = 200


@dataclass(frozen=True, slots=True)
class SubjectLine:
    """A subject on one line; `problem` says why it cannot be had."""

    name: str
    plugin: str
    targets: int
    health: Health
    last_look: datetime | None
    rig: bool
    problem: str = ""


@dataclass(frozen=True, slots=True)
class InvariantView:
    """What must hold, how urgent a break is, and how long it may last before a ticket opens."""

    name: str
    severity: Severity
    grace_s: float
    sentence: str


@dataclass(frozen=True, slots=True)
class ToolView:
    """What can be done about it."""

    name: str
    sentence: str
    risk: Risk
    changes: bool


@dataclass(frozen=True, slots=True)
class FaultLine:
    """How the lab can break it."""

    name: str
    sentence: str
    breaks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SubjectView:
    """All stored facts about a subject, without a check."""

    name: str
    plugin: str
    sentence: str
    rig: bool
    interval_s: float
    targets: tuple[Target, ...]
    invariants: tuple[InvariantView, ...]
    tools: tuple[ToolView, ...]
    faults: tuple[FaultLine, ...]
    causes: tuple[str, ...]
    notes: str
    state: SubjectHealth


@dataclass(frozen=True, slots=True)
class Point:
    """A value at a time; a `problem` where it could not be seen."""

    at: datetime
    value: Value = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Series:
    """The history of one reading of one target, oldest first."""

    target: str
    reading: str
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class HistoryView:
    """The series of a subject; `left_out` are more than anybody could read."""

    subject: str
    since: datetime
    until: datetime
    looks: int
    series: tuple[Series, ...]
    left_out: int


@dataclass(frozen=True, slots=True)
class Replayed:
    """When each invariant would have been broken in what was recorded."""

    subject: str
    since: datetime
    until: datetime
    looks: int
    spells: tuple[Spell, ...]


def list_subjects(app: App) -> Sequence[SubjectLine]:
    """Every subject that is configured or has a rig."""
    plugins = {subject.name: subject.plugin for subject in app.config.subjects}
    return [
        SubjectLine(
            name=health.subject,
            plugin=plugins.get(health.subject, health.subject),
            targets=len(health.targets),
            health=health.health,
            last_look=health.last_look,
            rig=app.is_rig(health.subject),
            problem=health.problem,
        )
        for health in (health_of(app, name) for name in app.subjects())
    ]


def show_subject(app: App, name: str) -> SubjectView:
    """What it is made of. NotFoundError lists the subjects there are."""
    (chosen,) = app.choose([name])
    plugin, controls = app.plugin_of(chosen), app.controls(chosen)
    subject = subject_of(app, chosen)
    return SubjectView(
        name=chosen,
        plugin=plugin.name,
        sentence=plugin.sentence,
        rig=app.is_rig(chosen),
        interval_s=app.config.interval_of(chosen),
        targets=tuple(subject.targets()),
        invariants=tuple(
            InvariantView(
                invariant.name,
                invariant.severity,
                invariant.grace_s,
                _sentence_of(invariant),
            )
            for invariant in subject.invariants
        ),
        # `operator tools list` lists the tools of every subject.
        tools=tuple(
            ToolView(spec.name, spec.sentence, spec.risk, spec.changes)
            for spec in controls.registry.specs
            if spec.source is ToolSource.SUBJECT
        ),
        faults=tuple(
            FaultLine(fault.name, fault.sentence, fault.breaks) for fault in plugin.faults
        ),
        causes=tuple(cause.name for cause in controls.causes),
        notes=controls.notes,
        state=health_of(app, chosen),
    )


def _sentence_of(invariant: Invariant) -> str:
    """What an invariant demands, on one line."""
    own = str(getattr(invariant, "sentence", ""))
    text = own or next(iter((type(invariant).__doc__ or "").strip().splitlines()), "")
    return " ".join(text.split())


def subject_of(app: App, name: str) -> Subject:
    """The subject itself, as its plug-in makes it."""
    settings = app.controls(name).settings
    assert settings is not None
    return app.plugin_of(name).subject(settings)


async def observe_subject(app: App, names: Sequence[str]) -> Sequence[Observation]:
    """Look once at these, or at the only one there is; nothing is remembered."""
    return [checked.observation for checked in await check_subject(app, names)]


async def check_subject(app: App, names: Sequence[str]) -> Sequence[CheckResult]:
    """Look once and check every invariant; nothing is remembered."""
    timeout_s = app.config.check_timeout_s
    found = []
    for name in app.choose(names):
        check, _ = await run_check(subject_of(app, name), app.clock, timeout_s=timeout_s)
        found.append(check)
    return found


def subject_history(
    app: App, subject: str, *, target: str, reading: str, since: str
) -> HistoryView:
    """Every reading that matches these patterns, since a time or for a span back from now."""
    (name,) = app.choose([subject])
    begin, now, looks = since_of(since, app.clock.now()), app.clock.now(), 0
    blank: dict[str, list[Point]] = {}
    found: dict[tuple[str, str], list[Point]] = {}
    left_out: set[tuple[str, str]] = set()
    for look in _looks(app, name, begin):
        looks += 1
        for seen in look.seen:
            if not fnmatchcase(seen.target, target):
                continue
            if seen.problem and not seen.readings:
                blank.setdefault(seen.target, []).append(Point(look.at, None, seen.problem))
            for key, value in seen.readings.items():
                if not fnmatchcase(key, reading):
                    continue
                place = (seen.target, key)
                if place not in found and len(found) >= SERIES_MAX:
                    left_out.add(place)
                    continue
                found.setdefault(place, []).append(Point(look.at, value))
    series = [
        Series(
            *place, tuple(sorted([*points, *blank.get(place[0], ())], key=lambda change: change.at))
        )
        for place, points in sorted(found.items())
    ]
    lost = sorted(set(blank) - {of for of, _ in found})
    series += [Series(of, "", tuple(blank[of])) for of in lost]
    return HistoryView(name, begin, now, looks, tuple(series), len(left_out))


def replay_history(app: App, subject: str, *, target: str, since: str) -> Replayed:
    """Today's invariants over what was recorded since then."""
    (name,) = app.choose([subject])
    begin, now = since_of(since, app.clock.now()), app.clock.now()
    counted: list[datetime] = []

    def looks() -> Iterator[Observation]:
        for look in _looks(app, name, begin):
            counted.append(look.at)
            yield look

    invariants = subject_of(app, name).invariants
    spells = replay(looks(), invariants, blind_grace_s=2 * app.config.interval_of(name))
    chosen = tuple(spell for spell in spells if fnmatchcase(spell.target, target))
    return Replayed(name, begin, now, len(counted), chosen)


def _looks(app: App, subject: str, since: datetime) -> Iterator[Observation]:
    while page := app.store.observations.after(subject, since, limit=PAGE):
        yield from page
        since = page[-1].at


def since_of(text: str, now: datetime) -> datetime:
    """A moment: a span back from now (`1h`), or a time."""
    span = seconds_of(text)
    if span is None:
        return time_of(text)
    try:
        return now - timedelta(seconds=span)
    except OverflowError:
        raise UsageError(f"{text!r} is too long ago.", next_step="Use --since 7d.") from None
