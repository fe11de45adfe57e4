"""Readings around an incident as pictures, with what happened marked in each. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta

from operator_sre.app.reports.report import Report
from operator_sre.app.reports.wording import span, time_of_day
from operator_sre.app.subject_history import Series
from operator_sre.drawing import Chart, Mark, Point, Tick, charts

__all__ = ["charts_of", "marks_of"]

MARKS_MAX = 12
LEGEND = {"detected": "ticket opened", "action": "something was done", "proven": "proven"}


def marks_of(report: Report) -> tuple[Mark, ...]:
    """When it was detected, what was done when, and when it was proven."""
    found = [(report.clock.detected_at, "detected", "ticket opened")]
    acted = [one for one in report.done if one.outcome not in ("", "refused")]
    found += [(one.at, "action", one.command) for one in acted]
    if report.proof is not None:
        found.append((report.proof.at, "proven", "proven"))
    began_at = report.clock.began_at
    return tuple(Mark(_s(at, began_at), kind, text) for at, kind, text in found[:MARKS_MAX])


def charts_of(report: Report) -> str:
    """One picture below the other, all over the same time; empty when nothing was seen."""
    looked = [one for series in report.series for one in (series.points[0], series.points[-1])]
    if not looked:
        return ""
    marks, clock = marks_of(report), report.clock
    ends = [0.0, *(_s(one.at, clock.began_at) for one in looked), *(one.at_s for one in marks)]
    since_s, until_s = min(ends), max(ends) + 0.001
    over_at = clock.over_at or clock.ended_at
    over_s = until_s if over_at is None else _s(over_at, clock.began_at)
    first, last = (clock.began_at + timedelta(seconds=one) for one in (since_s, until_s))
    return charts(
        [_chart(one, clock.began_at) for one in report.series],
        marks,
        spans=(since_s, until_s),
        broken=(0.0, over_s),
        tick=Tick(
            time_of_day(first, clock.began_at),
            f"{time_of_day(last, clock.began_at)} UTC, {span(until_s - since_s)}",
        ),
        legend=LEGEND,
    )


def _chart(series: Series, began_at: datetime) -> Chart:
    points = (Point(_s(one.at, began_at), one.value, one.problem) for one in series.points)
    return Chart(f"{series.target}: {series.reading}", tuple(points))


def _s(at: datetime, began_at: datetime) -> float:
    return (at - began_at).total_seconds()
