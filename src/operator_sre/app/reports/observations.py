"""What was seen around an incident, and which readings went another way while it lasted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

import msgspec

from operator_protocols.domain.entry import Entry, Kind
from operator_protocols.domain.observation import Observation, Seen, Value
from operator_sre.app.reports.report import ReadingChange
from operator_sre.app.subjects import Point, Series
from operator_sre.codec import from_json
from operator_sre.drawing import figure, format_reading

if TYPE_CHECKING:
    from operator_sre.app.wiring import App

__all__ = ["changes_of", "looks_around", "series_of"]

PAGE = 500
LOOKS_MAX = 2000
SAMPLES_MAX = 1000
MARGIN_S_MIN = 60.0
MARGIN_S_MAX = 1800.0
CHANGES_MAX = 16
CHANGES_OF_TARGET_MAX = 4
SERIES_MAX = 8
POINTS_MAX = 400


def looks_around(
    app: App, subject: str, entries: Sequence[Entry], *, since: datetime, until: datetime
) -> tuple[Observation, ...]:
    """The looks from a while before until a while after, oldest first.

    Observations that runs cite stay in the ledger when the others are deleted.
    """
    lasted_s = (until - since).total_seconds()
    margin = timedelta(seconds=min(MARGIN_S_MAX, max(MARGIN_S_MIN, lasted_s)))
    begin, end = since - margin, until + margin
    looks: dict[datetime, Observation] = {}
    for entry in entries:
        if entry.kind is Kind.OBSERVED:
            # What an older version wrote is no less of a story.
            with suppress(msgspec.ValidationError):
                cited = from_json(Observation, entry.payload.get("observation"))
                looks[cited.at] = cited
    # Every observation of the first minutes; of the rest, some at even distances.
    after, start, count = app.store.observations.after, begin, 0
    while count < LOOKS_MAX:
        page = after(subject, start, limit=PAGE)
        looks |= {look.at: look for look in page}
        if len(page) < PAGE or page[-1].at > end:
            break
        start, count = page[-1].at, count + len(page)
    else:
        step = (end - start) / SAMPLES_MAX
        for at in range(SAMPLES_MAX):
            looks |= {look.at: look for look in after(subject, start + at * step, limit=1)}
    return tuple(looks[at] for at in sorted(looks) if begin <= at <= end)


def series_of(
    looks: Sequence[Observation], targets: Iterable[str], changes: Sequence[ReadingChange]
) -> tuple[Series, ...]:
    """What is worth a chart: whether each affected target was seen, and the figures that moved."""
    if len(looks) > POINTS_MAX:  # few enough for a chart; the first and the last stay
        step = (len(looks) - 1) / (POINTS_MAX - 1)
        looks = [looks[round(at * step)] for at in range(POINTS_MAX)]
    found = []
    for target in dict.fromkeys(targets):
        points = []
        for look, seen in _looks_at(looks, target):
            problem = seen.problem or look.problem
            reachable = seen.readings.get("reachable", not problem)
            points.append(Point(look.at, bool(reachable) and not problem, problem))
        found.append(Series(target, "answers", tuple(points)))
    for change in changes:
        points = []
        for look, seen in _looks_at(looks, change.target):
            value = _number(seen.readings.get(change.reading))
            problem = "" if value is not None else seen.problem or "it could not be read"
            points.append(Point(look.at, value, problem))
        if any(point.value is not None for point in points):
            found.append(Series(change.target, change.reading, tuple(points)))
    return tuple(series for series in found if series.points)[:SERIES_MAX]


def _looks_at(looks: Sequence[Observation], target: str) -> Iterator[tuple[Observation, Seen]]:
    for look in looks:
        if any(seen.target == target for seen in look.seen):
            yield look, look.of(target)


def changes_of(
    looks: Sequence[Observation], targets: Sequence[str], *, since: datetime, until: datetime | None
) -> tuple[ReadingChange, ...]:
    """Readings that were steady before the incident and different during it.

    Affected targets come first, the root before the others. The number is limited for each target
    and in all. Readings that always grow, such as an uptime, are left out.
    """
    early = [look for look in looks if look.at < since]
    before = _values_of(early)
    during = _values_of(
        look for look in looks if look.at >= since and (until is None or look.at < until)
    )
    after = _values_of(
        look for look in looks if look.at >= since and until is not None and look.at >= until
    )
    found = []
    for (target, reading), broken in during.items():
        calm = before.get((target, reading), [])
        if early and _has_moved(calm, broken):
            later = after.get((target, reading), [])
            texts = [_range(reading, values) for values in (calm, broken, later[-1:])]
            rank = targets.index(target) if target in targets else len(targets)
            is_figure = not any(isinstance(value, bool | str) for value in broken)
            found.append((rank, is_figure, reading, ReadingChange(target, reading, *texts)))
    found.sort(key=lambda item: item[:3])
    count: Counter[str] = Counter()
    kept = []
    for *_, change in found:
        if count[change.target] < CHANGES_OF_TARGET_MAX and count.total() < CHANGES_MAX:
            count[change.target] += 1
            kept.append(change)
    return tuple(kept)


def _values_of(looks: Iterable[Observation]) -> dict[tuple[str, str], list[Value]]:
    """The values of each reading of each target, oldest first, without empty ones."""
    values: dict[tuple[str, str], list[Value]] = {}
    for look in looks:
        for seen in look.seen:
            for name, value in seen.readings.items():
                if value is not None and value != "":
                    values.setdefault((seen.target, name), []).append(value)
    return values


def _has_moved(calm: Sequence[Value], broken: Sequence[Value]) -> bool:
    """Whether a reading changed; figures have to leave their range by a quarter."""
    if not calm or not broken:
        return not calm and any(value is True or isinstance(value, str) for value in broken)
    old, new = _numbers(calm), _numbers(broken)
    if len(old) < len(calm) or len(new) < len(broken):
        return not set(map(str, broken)) <= set(map(str, calm))
    # A counter or an uptime never goes down, and hardly stands still.
    steps = [after - before for before, after in pairwise([*old, *new])]
    if steps and min(steps) >= 0 and sum(step > 0 for step in steps) * 2 > len(steps):
        return False
    room = max(abs(min(old)), abs(max(old))) / 4
    return min(new) < min(old) - room or max(new) > max(old) + room


def _numbers(values: Sequence[Value]) -> list[float]:
    return [number for number in map(_number, values) if number is not None]


def _number(value: Value) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if value == value and abs(value) != float("inf") else None


def _range(reading: str, values: Sequence[Value]) -> str:
    """One figure, or the least and the most; the different words of a text."""
    if not values:
        return "-"
    numbers = _numbers(values)
    if len(numbers) == len(values):
        low, high = (format_reading(reading, each(numbers)) for each in (min, max))
        return low if low == high else f"{low} to {high}"
    words = list(dict.fromkeys(figure(value) for value in values))
    return ", ".join(words[:3]) + (", ..." if len(words) > 3 else "")
