"""What was seen of a subject: series of readings, and what today's invariants say of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from fnmatch import fnmatchcase

from operator_protocols.domain.observation import Observation, Value
from operator_protocols.errors import UsageError
from operator_sre.app.silences import time_of
from operator_sre.app.subjects import subject_of
from operator_sre.app.wiring import App
from operator_sre.config import seconds_of
from operator_sre.monitor import Spell, replay

__all__ = ["HistoryView", "Point", "Replayed", "Series", "replay_history", "subject_history"]

PAGE = 500
SERIES_MAX = 200


@dataclass(frozen=True, slots=True)
class Point:
    """A value at a time; a `problem` where it could not be seen."""

    at: datetime
    value: Value = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Series:
    """What one reading of one target was over time, oldest first."""

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
        Series(*place, _merged(points, blank.get(place[0], ())))
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
    chosen = tuple(one for one in spells if fnmatchcase(one.target, target))
    return Replayed(name, begin, now, len(counted), chosen)


def _looks(app: App, subject: str, since: datetime) -> Iterator[Observation]:
    while page := app.store.observations.after(subject, since, limit=PAGE):
        yield from page
        since = page[-1].at


def _merged(points: Sequence[Point], blank: Sequence[Point]) -> tuple[Point, ...]:
    return tuple(sorted([*points, *blank], key=lambda one: one.at))


def since_of(text: str, now: datetime) -> datetime:
    """A moment: a span back from now (`1h`), or a time."""
    span = seconds_of(text)
    if span is None:
        return time_of(text)
    try:
        return now - timedelta(seconds=span)
    except OverflowError:
        raise UsageError(f"{text!r} is before all time.", next_step="Say --since 7d.") from None
