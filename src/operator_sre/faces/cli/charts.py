"""Readings over time, as lines of blocks that fit any terminal."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from operator_sre.faces.cli.output import clean, print_lines, print_table

if TYPE_CHECKING:
    from operator_sre.app.subject_history import HistoryView, Point, Replayed, Series

__all__ = ["print_history", "print_spells", "sparkline"]

WIDTH = 60
BLOCKS = "▁▂▃▄▅▆▇█"
NOT_SEEN = "×"
TEXT_CHARACTERS_MAX = 40


def print_history(view: HistoryView) -> None:
    """A line for each series: its chart, its least, its last and its greatest value."""
    span = f"{view.since:%m-%d %H:%M:%S} to {view.until:%m-%d %H:%M:%S} UTC"
    print_lines([f"{clean(view.subject)}: {view.looks} looks, {span}"])
    if not view.looks:
        print_lines(["Nothing was recorded then. Watch it with: operator monitor run"])
        return
    rows = [
        (
            one.target,
            one.reading or "(not seen)",
            _chart(one, view.since, view.until),
            _figures(one),
        )
        for one in view.series
    ]
    print_table(("target", "reading", "over time", "least / last / most"), rows)
    if view.left_out:
        print_lines([f"{view.left_out} more series: narrow it with --target and --reading."])


def print_spells(view: Replayed) -> None:
    """A line for each break: from when to when, and when a ticket would have been opened."""
    print_lines([f"{clean(view.subject)}: today's invariants over {view.looks} recorded looks"])
    if not view.spells:
        print_lines(["None of them would have been broken."])
        return
    rows = [
        (
            one.target,
            one.invariant,
            _moment(one.since),
            _moment(one.until) if one.until else "still",
            _moment(one.ticket) if one.ticket else "within grace",
            one.detail,
        )
        for one in view.spells
    ]
    print_table(("target", "invariant", "from", "to", "ticket", "because"), rows)


def _moment(at: datetime) -> str:
    return f"{at:%m-%d %H:%M:%S}"


def sparkline(points: Sequence[tuple[float, float | None]], *, width: int = WIDTH) -> str:
    """Blocks for (place from 0 to 1, value); the greatest where several meet; None: not seen."""
    cells: list[list[float | None]] = [[] for _ in range(width)]
    for place, value in points:
        cells[min(width - 1, max(0, int(place * width)))].append(value)
    values = [value for _, value in points if value is not None]
    low, high = min(values, default=0.0), max(values, default=0.0)
    return "".join(_block(cell, low, high) for cell in cells).rstrip()


def _block(cell: Sequence[float | None], low: float, high: float) -> str:
    if not cell:
        return " "
    known = [value for value in cell if value is not None]
    if not known:
        return NOT_SEEN
    if high == low:
        return BLOCKS[-1] if high else BLOCKS[0]
    return BLOCKS[round((max(known) - low) / (high - low) * (len(BLOCKS) - 1))]


def _chart(series: Series, since: datetime, until: datetime) -> str:
    whole = max((until - since).total_seconds(), 1.0)
    first = series.points[0].at if series.points else since
    # What was recorded fills the line, even where it is younger than what was asked for.
    begin = max(since, first)
    span = max((until - begin).total_seconds(), 1.0) if begin > since else whole
    points = [((one.at - begin).total_seconds() / span, _number(one)) for one in series.points]
    return sparkline(points)


def _number(point: Point) -> float | None:
    value = point.value
    if point.problem or value is None:
        return None
    if isinstance(value, str):
        return 1.0
    # What is no number at all (nan, inf) has no place in a chart.
    number = float(value)
    return number if number == number and abs(number) != float("inf") else None


def _figures(series: Series) -> str:
    values = [one.value for one in series.points if not one.problem and one.value is not None]
    if not values:
        return series.points[-1].problem if series.points else "-"
    if all(isinstance(one, int | float) and not isinstance(one, bool) for one in values):
        figures = [float(one) for one in values if not isinstance(one, str)]
        return f"{min(figures):g} / {figures[-1]:g} / {max(figures):g}"
    different = list(dict.fromkeys(str(one) for one in values))
    shown = str(values[-1])[:TEXT_CHARACTERS_MAX]
    return shown if len(different) == 1 else f"{shown} ({len(different)} different)"
