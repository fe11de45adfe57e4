"""Small pictures in tables: sparklines and bars of time, without a style of their own. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import groupby

from markupsafe import Markup

from operator_sre.drawing import format_reading, span, visible

__all__ = ["bar", "spark"]

WIDTH, HEIGHT, MARGIN = 120.0, 28.0, 3.0
BAR_WIDTH, BAR_HEIGHT = 240.0, 14.0
# A short break stays visible.
NARROWEST = 1.5
_RECT = Markup('<rect class="{}" x="{}" y="0" width="{}" height="{}"/>')


def spark(name: str, values: Sequence[float | None]) -> Markup:
    """A sparkline of a reading; a shade where it is unknown."""
    known = [value for value in values if value is not None]
    if known:
        ends = (known[-1], min(known), max(known))
        newest, least, most = (format_reading(name, value) for value in ends)
        label = f"{name}: {newest}, between {least} and {most}"
    else:
        label = f"{name}: not observed" if name else "not observed"
    step = WIDTH / max(1, len(values) - 1)
    low, high = min(known, default=0.0), max(known, default=0.0)

    def y(value: float | None) -> float:
        share = ((value or 0.0) - low) / (high - low) if high > low else 0.5
        return round(HEIGHT - MARGIN - share * (HEIGHT - 2 * MARGIN), 1)

    pieces = []
    for is_known, group in groupby(enumerate(values), key=lambda item: item[1] is not None):
        piece = list(group)
        first, last = piece[0][0] * step, piece[-1][0] * step
        if not is_known:
            width = round(max(step, last - first), 1)
            pieces.append(_RECT.format("unknown", round(first, 1), width, int(HEIGHT)))
            continue
        # One value alone is a short stroke, so that it is visible at all.
        stroke = piece if len(piece) > 1 else [piece[0], (piece[0][0] + 0.5, piece[0][1])]
        points = " ".join(f"{round(at * step, 1)},{y(value)}" for at, value in stroke)
        pieces.append(Markup('<polyline points="{}"/>').format(points))
    return _draw("spark", (WIDTH, HEIGHT), label, pieces)


def bar(
    name: str,
    spells: Iterable[tuple[datetime, datetime | None]],
    ends: tuple[datetime, datetime],
    seen: tuple[datetime, datetime] | None,
) -> Markup:
    """A strip from the first to the last of `ends`; a spell without an end lasts until then.

    Only the time from the first to the last check counts as checked.
    """
    begin, until = ends
    whole_s = max(1.0, (until - begin).total_seconds())
    pieces, broken_s = [], 0.0
    for since, over in spells:
        first = max(0.0, (since - begin).total_seconds())
        last = min(whole_s, ((over or until) - begin).total_seconds())
        broken_s += max(0.0, last - first)
        width = max(NARROWEST, (last - first) / whole_s * BAR_WIDTH)
        left = min(first / whole_s * BAR_WIDTH, BAR_WIDTH - width)
        pieces.append(_RECT.format("broken", round(left, 1), round(width, 1), int(BAR_HEIGHT)))
    label = f"{name}: held" if seen else f"{name}: not checked"
    if pieces:
        label = f"{name}: broken for {span(broken_s)}"
    if seen is not None:
        first, last = (
            min(1.0, max(0.0, (at - begin).total_seconds() / whole_s)) * BAR_WIDTH for at in seen
        )
        left, width = min(first, BAR_WIDTH - NARROWEST), max(NARROWEST, last - first)
        checked = _RECT.format("healthy", round(left, 1), round(width, 1), int(BAR_HEIGHT))
        pieces.insert(0, checked)
    return _draw("spark strip", (BAR_WIDTH, BAR_HEIGHT), label, pieces)


def _draw(kind: str, size: tuple[float, float], label: str, pieces: Iterable[Markup]) -> Markup:
    return Markup(
        '<svg class="{}" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img"'
        ' aria-label="{}"><title>{}</title>{}</svg>'
    ).format(kind, *map(int, size), visible(label), visible(label), Markup("").join(pieces))
