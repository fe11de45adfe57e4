"""What was seen around an incident, and which readings went another way while it lasted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

import msgspec

from operator_protocols.domain.entry import Entry, Kind
from operator_protocols.domain.observation import Observation, Value
from operator_sre.app.reports.report import Change
from operator_sre.app.reports.wording import figure
from operator_sre.app.subject_history import Point, Series
from operator_sre.codec import from_json

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

    Those that runs cite are in the ledger, and stay there when the others are forgotten.
    """
    lasted_s = (until - since).total_seconds()
    margin = timedelta(seconds=min(MARGIN_S_MAX, max(MARGIN_S_MIN, lasted_s)))
    begin, end = since - margin, until + margin
    found = {one.at: one for one in (*_recorded(entries), *_stored(app, subject, begin, end))}
    return tuple(found[at] for at in sorted(found) if begin <= at <= end)


def _stored(app: App, subject: str, since: datetime, until: datetime) -> Iterator[Observation]:
    """Every look of the first while; of what lasted longer, some of the rest at even distances."""
    after, count = app.store.observations.after, 0
    while count < LOOKS_MAX:
        page = after(subject, since, limit=PAGE)
        yield from page
        if len(page) < PAGE or page[-1].at > until:
            return
        since, count = page[-1].at, count + len(page)
    step = (until - since) / SAMPLES_MAX
    for at in range(SAMPLES_MAX):
        yield from after(subject, since + at * step, limit=1)


def _recorded(entries: Iterable[Entry]) -> Iterator[Observation]:
    for entry in entries:
        if entry.kind is Kind.OBSERVED:
            try:
                yield from_json(Observation, entry.payload.get("observation"))
            except msgspec.ValidationError:  # what an older version wrote is no less of a story
                continue


def series_of(
    looks: Sequence[Observation], targets: Iterable[str], changes: Sequence[Change]
) -> tuple[Series, ...]:
    """What is worth a chart: whether each affected target was seen, and the figures that moved."""
    looks = _thinned(looks)
    found = [_seen(looks, target) for target in dict.fromkeys(targets)]
    for one in changes:
        points = _points(looks, one.target, one.reading)
        if any(_number(point.value) is not None for point in points):
            found.append(Series(one.target, one.reading, points))
    return tuple(one for one in found if one.points)[:SERIES_MAX]


def _seen(looks: Sequence[Observation], target: str) -> Series:
    """Whether a target answered, look by look; nothing where it was never looked at."""
    points = []
    for look in looks:
        if not any(one.target == target for one in look.seen):
            continue
        seen = look.of(target)
        problem = seen.problem or look.problem
        reachable = seen.readings.get("reachable", not problem)
        points.append(Point(look.at, bool(reachable) and not problem, problem))
    return Series(target, "answers", tuple(points))


def _points(looks: Sequence[Observation], target: str, reading: str) -> tuple[Point, ...]:
    points = []
    for look in looks:
        if not any(one.target == target for one in look.seen):
            continue
        value = _number(look.of(target).readings.get(reading))
        problem = "" if value is not None else look.of(target).problem or "it could not be read"
        points.append(Point(look.at, value, problem))
    return tuple(points)


def _thinned(looks: Sequence[Observation]) -> Sequence[Observation]:
    """Few enough for a chart; the first and the last stay."""
    if len(looks) <= POINTS_MAX:
        return looks
    step = (len(looks) - 1) / (POINTS_MAX - 1)
    return [looks[round(at * step)] for at in range(POINTS_MAX)]


def changes_of(
    looks: Sequence[Observation], targets: Sequence[str], *, since: datetime, until: datetime | None
) -> tuple[Change, ...]:
    """Readings that were steady before, and something else while it was broken.

    Those of affected targets come first. What goes up all the time, such as an uptime, is no news.
    """
    before, during, after = _Readings(), _Readings(), _Readings()
    for look in looks:
        if look.at < since:
            before.take(look)
        elif until is None or look.at < until:
            during.take(look)
        else:
            after.take(look)
    found = []
    for (target, reading), told in during.values.items():
        calm = before.values.get((target, reading), [])
        if before.looks and _moved(calm, told):
            later = after.values.get((target, reading), [])
            change = Change(target, reading, _range(calm), _range(told), _range(later[-1:]))
            found.append((not _is_text(told), change))
    found.sort(key=lambda one: (_rank(one[1].target, targets), one[0], one[1].reading))
    return tuple(_few([change for _, change in found]))


class _Readings:
    """What each reading of each target was in some looks, oldest first; what is empty is none."""

    def __init__(self) -> None:
        self.looks = 0
        self.values: dict[tuple[str, str], list[Value]] = {}

    def take(self, look: Observation) -> None:
        self.looks += 1
        for one in look.seen:
            for name, value in one.readings.items():
                if value is not None and value != "":
                    self.values.setdefault((one.target, name), []).append(value)


def _rank(target: str, targets: Sequence[str]) -> int:
    """The root comes first, then what else is affected, then all others."""
    return targets.index(target) if target in targets else len(targets)


def _few(changes: Sequence[Change]) -> Iterator[Change]:
    """Not too many of one target, and not too many in all."""
    count: Counter[str] = Counter()
    for one in changes:
        if count[one.target] < CHANGES_OF_TARGET_MAX and count.total() < CHANGES_MAX:
            count[one.target] += 1
            yield one


def _moved(calm: Sequence[Value], told: Sequence[Value]) -> bool:
    """Whether something was otherwise; figures have to leave what they were by a quarter."""
    if not calm or not told:
        return not calm and any(one is True or isinstance(one, str) for one in told)
    old, new = _numbers(calm), _numbers(told)
    if len(old) < len(calm) or len(new) < len(told):
        return not set(map(str, told)) <= set(map(str, calm))
    if _climbs([*old, *new]):
        return False
    room = max(abs(min(old)), abs(max(old))) / 4
    return min(new) < min(old) - room or max(new) > max(old) + room


def _climbs(known: Sequence[float]) -> bool:
    """A counter or an uptime: it never goes down, and hardly stands still."""
    steps = [after - before for before, after in pairwise(known)]
    return bool(steps) and min(steps) >= 0 and sum(one > 0 for one in steps) * 2 > len(steps)


def _numbers(values: Sequence[Value]) -> list[float]:
    return [one for one in map(_number, values) if one is not None]


def _is_text(values: Sequence[Value]) -> bool:
    return any(isinstance(one, bool | str) for one in values)


def _number(value: Value) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if value == value and abs(value) != float("inf") else None


def _range(values: Sequence[Value]) -> str:
    """One figure, or the least and the most; the different words of a text."""
    if not values:
        return "-"
    numbers = _numbers(values)
    if len(numbers) == len(values):
        low, high = figure(min(numbers)), figure(max(numbers))
        return low if low == high else f"{low} to {high}"
    words = list(dict.fromkeys(figure(one) for one in values))
    return ", ".join(words[:3]) + (", ..." if len(words) > 3 else "")
