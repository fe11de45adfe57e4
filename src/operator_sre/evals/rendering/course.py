"""Charts of what was read during a trial, with the fault, detection, actions and repair marked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from operator_sre.drawing import Chart, Mark, Point, Tick, charts, span
from operator_sre.evals.facts import Snapshot, TrialFacts
from operator_sre.evals.rendering.elements import EMPTY, Html, joined, paragraph, text

__all__ = ["course", "marks_of"]

CHARTS_MAX = 8
POINTS_MIN = 3
FIGURE_MAX = 1e300
MARKS_MAX = 20
TARGET_MISSING = "the target was not seen"
LEGEND = {
    "fault": "the fault",
    "detected": "ticket opened",
    "action": "something was changed",
    "proven": "proven",
    "repaired": "the last ticket ended",
}


def marks_of(trial: TrialFacts) -> tuple[Mark, ...]:
    """What happened when."""
    moments = trial.moments
    changed = [one for one in trial.commands if one.ran and one.changes]
    found: list[tuple[float | None, str, str]] = [
        (moments.fault_injected, "fault", f"{trial.scenario.fault} of {trial.hit}"),
        (moments.ticket_created, "detected", "ticket opened"),
        *((one.at_s, "action", one.text) for one in changed[:MARKS_MAX]),
        *((one.at_s, "proven", "it held") for one in trial.proofs[:MARKS_MAX] if one.held),
        (moments.resolved, "repaired", "the last ticket ended"),
    ]
    return tuple(Mark(at_s, kind, words) for at_s, kind, words in found if at_s is not None)


def course(trial: TrialFacts) -> Html:
    """The readings that moved: of the target that was hit first, those that moved most with it."""
    looks = [one for one in (trial.before, *trial.course, trial.after) if one is not None]
    looks.sort(key=lambda one: one.at_s)
    found = [one for one in _charts(looks) if _moved(one.chart)]
    found.sort(key=lambda one: (one.target != trial.hit, -_shift(one.chart, looks), one.chart.name))
    if not found:
        return paragraph(text("No reading moved, or none was kept."))
    marks = marks_of(trial)
    ends = [*(one.at_s for one in looks), *(one.at_s for one in marks)]
    since_s, until_s = min(ends), max(ends) + 0.001
    drawn = charts(
        [one.chart for one in found[:CHARTS_MAX]],
        marks,
        spans=(since_s, until_s),
        broken=_broken(looks, until_s),
        tick=Tick(f"{since_s:.0f} s", f"{until_s:.0f} s, {span(until_s - since_s)}"),
        legend=LEGEND,
    )
    more = len(found) - CHARTS_MAX
    rest = paragraph(text(f"{more} more readings moved.")) if more > 0 else EMPTY
    return joined(Html(f'<div class="course">{drawn}</div>'), rest)


@dataclass(frozen=True, slots=True)
class _Found:
    target: str
    chart: Chart


def _charts(looks: Sequence[Snapshot]) -> Iterator[_Found]:
    """Every reading that is figures or yes and no."""
    names = dict.fromkeys(
        (target, reading)
        for look in looks
        for target, readings in look.readings.items()
        for reading in readings
    )
    for target, reading in names:
        points = tuple(_points(looks, target, reading))
        if any(isinstance(one.value, str) for one in points):
            continue
        if sum(one.value is not None for one in points) >= POINTS_MIN:
            yield _Found(target, Chart(f"{target}: {reading}", points))


def _points(looks: Sequence[Snapshot], target: str, reading: str) -> Iterator[Point]:
    """A look that kept other readings of the target says nothing of this one."""
    for look in looks:
        readings = look.readings.get(target, {})
        if readings.get(reading) is not None:
            yield Point(look.at_s, readings[reading])
        elif not readings or reading in readings:
            yield Point(look.at_s, None, TARGET_MISSING)


def _moved(chart: Chart) -> bool:
    return len({one.value for one in chart.points if one.value is not None}) > 1


def _shift(chart: Chart, looks: Sequence[Snapshot]) -> float:
    """How far it was elsewhere while something was broken, as a share of all it moved."""
    broken = {one.at_s for one in looks if one.broken}
    known = [
        (one.at_s in broken, float(one.value))
        for one in chart.points
        if isinstance(one.value, int | float) and abs(one.value) <= FIGURE_MAX
    ]
    during = [value for bad, value in known if bad]
    other = [value for bad, value in known if not bad]
    if not during or not other:
        return 0.0
    reach = max(*during, *other) - min(*during, *other)
    return abs(fmean(during) - fmean(other)) / reach if reach else 0.0


def _broken(looks: Sequence[Snapshot], until_s: float) -> tuple[float, float] | None:
    """From the first look that found something broken to the first one after the last such."""
    found = [at for at, one in enumerate(looks) if one.broken]
    if not found:
        return None
    after = found[-1] + 1
    return looks[found[0]].at_s, looks[after].at_s if after < len(looks) else until_s
