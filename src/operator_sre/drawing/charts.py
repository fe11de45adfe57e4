"""Readings over time as pictures: SVG without a script, a link or a style of its own. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from operator_protocols.domain.observation import Value
from operator_sre.drawing.html import escape_text, format_reading

__all__ = ["Chart", "Mark", "Point", "Tick", "charts"]

WIDTH, HEIGHT = 760, 150
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 26, 24
BAND_HEIGHT = 26
LABEL_CHARACTERS_MAX = 70
# Beyond it, sums and differences of two figures are none any more.
FIGURE_MAX = 1e300


@dataclass(frozen=True, slots=True)
class Point:
    """A value at a second; a `problem` where it could not be read."""

    at_s: float
    value: Value = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Chart:
    """One reading over time, oldest first."""

    name: str
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment that every chart shows: its text, and its kind for the colour."""

    at_s: float
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Tick:
    """The labels below the beginning and the end of a chart."""

    first: str
    last: str


@dataclass(frozen=True, slots=True)
class _Axis:
    """From seconds to pixels."""

    since_s: float
    until_s: float

    def x(self, at_s: float) -> float:
        share = (at_s - self.since_s) / max(0.001, self.until_s - self.since_s)
        return round(LEFT + min(1.0, max(0.0, share)) * (WIDTH - LEFT - RIGHT), 1)


def charts(
    some: Sequence[Chart],
    marks: Sequence[Mark],
    *,
    spans: tuple[float, float],
    broken: tuple[float, float] | None,
    tick: Tick,
    legend: Mapping[str, str],
) -> str:
    """All charts below each other, over the same time; empty where there is none.

    `spans` is the first and the last second, `broken` the time in which the subject was, `legend`
    the meaning of each kind of mark.
    """
    if not some:
        return ""
    axis, first, last = _Axis(*spans), escape_text(tick.first), escape_text(tick.last)
    keys = ['<span class="key broken"></span> broken '] if broken is not None else []
    for kind in dict.fromkeys(mark.kind for mark in marks):
        keys.append(f'<span class="key {kind}"></span> {escape_text(legend[kind])} ')
    parts = [f'<p class="legend">{"".join(keys)}</p>']
    for chart in some:
        name = escape_text(chart.name[:LABEL_CHARACTERS_MAX])
        band = all(isinstance(point.value, bool | None) for point in chart.points)
        height = TOP + BAND_HEIGHT + BOTTOM if band else HEIGHT
        floor, below = height - BOTTOM, height - 6
        parts += [
            "<figure>",
            f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{name}">',
            f'<text class="name" x="{LEFT}" y="14">{name}</text>',
        ]
        if broken is not None:  # a shade behind all else
            start, stop = axis.x(broken[0]), axis.x(broken[1])
            width = max(1.0, round(stop - start, 1))
            parts.append(
                f'<rect class="broken" x="{start}" y="{TOP - 6}" width="{width}"'
                f' height="{height - TOP - BOTTOM + 6}"/>'
            )
        parts += _draw_band(chart.points, axis) if band else _draw_curve(chart, axis, height)
        for mark in marks:
            x = axis.x(mark.at_s)
            parts.append(
                f'<line class="{mark.kind}" x1="{x}" x2="{x}" y1="{TOP - 6}" y2="{floor}">'
                f"<title>{escape_text(mark.text[:LABEL_CHARACTERS_MAX])}</title></line>"
            )
        parts += [
            f'<text class="tick" x="{LEFT}" y="{below}">{first}</text>',
            f'<text class="tick end" x="{WIDTH - RIGHT}" y="{below}">{last}</text>',
            "</svg>",
            "</figure>",
        ]
    return "\n".join(parts)


def _draw_band(points: Sequence[Point], axis: _Axis) -> Iterator[str]:
    """A boolean over time: each check holds until the next one."""
    half = BAND_HEIGHT // 2
    for at, point in enumerate(points):
        begin = axis.x(point.at_s)
        if point.value is None:
            yield _draw_cross(begin, TOP + half, point.problem)
            continue
        end = axis.x(points[at + 1].at_s) if at + 1 < len(points) else begin + 3
        # Above or below, so that it can be read without colour.
        kind, y = ("yes", TOP) if point.value is True else ("no", TOP + half)
        width = max(1.0, round(end - begin, 1))
        yield f'<rect class="{kind}" x="{begin}" y="{y}" width="{width}" height="{half}"/>'
    for word, y in (("yes", TOP + half - 3), ("no", TOP + BAND_HEIGHT - 2)):
        yield f'<text class="tick start" x="{LEFT - 6}" y="{y}">{word}</text>'


def _draw_cross(x: float, y: float, problem: str) -> str:
    """A cross where the reading failed."""
    path = f"M{round(x - 3, 1)} {y - 3}l6 6m0 -6l-6 6"
    return f'<path class="unseen" d="{path}"><title>{escape_text(problem)}</title></path>'


def _draw_curve(chart: Chart, axis: _Axis, height: int) -> Iterator[str]:
    """A line through the figures, and a cross where there was none."""
    points = chart.points
    known = [number for point in points if (number := _number(point.value)) is not None]
    low, high = min(known, default=0.0), max(known, default=0.0)
    room = (high - low) or max(abs(high), 1.0)
    floor, ceiling = low - room * 0.08, high + room * 0.08

    def y(value: float) -> float:
        share = (value - floor) / (ceiling - floor)
        return round(height - BOTTOM - share * (height - TOP - BOTTOM), 1)

    # Figures that follow each other without a gap are one line.
    for is_known, stretch in groupby(points, key=lambda point: _number(point.value) is not None):
        if not is_known:
            continue
        places = [(axis.x(point.at_s), y(_number(point.value) or 0.0)) for point in stretch]
        if len(places) == 1:
            yield f'<circle class="curve dot" cx="{places[0][0]}" cy="{places[0][1]}" r="2"/>'
        else:
            yield f'<polyline class="curve" points="{" ".join(f"{x},{y}" for x, y in places)}"/>'
    bottom = height - BOTTOM - 4
    for point in points:
        if _number(point.value) is None:
            yield _draw_cross(axis.x(point.at_s), bottom, point.problem)
    for value in dict.fromkeys((low, high) if known else ()):
        shown = escape_text(format_reading(chart.name, value))
        yield f'<text class="tick start" x="{LEFT - 6}" y="{y(value) + 4}">{shown}</text>'


def _number(value: Value) -> float | None:
    """A figure that a curve can go through; None for anything else."""
    if isinstance(value, int | float) and abs(value) <= FIGURE_MAX:
        return float(value)
    return None
