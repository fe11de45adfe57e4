"""Sparklines: a line and nothing else, drawn without a style of its own. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from markupsafe import Markup

from operator_sre.drawing import figure, visible

__all__ = ["spark"]

WIDTH, HEIGHT, MARGIN = 120.0, 28.0, 3.0


def spark(name: str, values: Sequence[float | None]) -> Markup:
    """The picture of a reading; a shade where nothing was seen."""
    known = [value for value in values if value is not None]
    if known:
        label = (
            f"{name}: {figure(known[-1])}, between {figure(min(known))} and {figure(max(known))}"
        )
    else:
        label = f"{name}: nothing was seen" if name else "nothing was seen"
    return Markup(
        '<svg class="spark" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img"'
        ' aria-label="{}"><title>{}</title>{}</svg>'
    ).format(int(WIDTH), int(HEIGHT), visible(label), visible(label), _body(values, known))


def _body(values: Sequence[float | None], known: Sequence[float]) -> Markup:
    step = WIDTH / max(1, len(values) - 1)
    low, high = min(known, default=0.0), max(known, default=0.0)
    room = (high - low) or 1.0

    def y(value: float) -> float:
        share = (value - low) / room if high > low else 0.5
        return round(HEIGHT - MARGIN - share * (HEIGHT - 2 * MARGIN), 1)

    return Markup("").join(_pieces(values, step, y))


def _pieces(values: Sequence[float | None], step: float, y: object) -> Iterator[Markup]:
    assert callable(y)
    for seen, group in groupby(enumerate(values), key=lambda item: item[1] is not None):
        piece = list(group)
        first, last = piece[0][0] * step, piece[-1][0] * step
        if not seen:
            yield Markup('<rect class="unknown" x="{}" y="0" width="{}" height="{}"/>').format(
                round(first, 1), round(max(step, last - first), 1), int(HEIGHT)
            )
            continue
        # One value alone is a short stroke, so that it is seen at all.
        ends = piece if len(piece) > 1 else [piece[0], (piece[0][0] + 0.5, piece[0][1])]
        points = " ".join(f"{round(at * step, 1)},{y(value)}" for at, value in ends)
        yield Markup('<polyline points="{}"/>').format(points)
