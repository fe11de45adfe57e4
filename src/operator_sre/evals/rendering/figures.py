"""Shares with their intervals, probabilities and times, as cells of tables."""

from __future__ import annotations

from operator_sre.drawing import span
from operator_sre.evals.rendering.elements import Html, joined, small, text
from operator_sre.evals.statistics import Share

__all__ = ["chance", "count", "interval", "percent", "seconds", "shared"]

WIDTH, HEIGHT, EDGE, REACH = 110, 14, 5, 100
CERTAIN = 0.0001
SIGNIFICANT = 0.05


def percent(value: float | None) -> str:
    """A share as people say it; what is not all is never said to be."""
    if value is None:
        return "-"
    rounded = round(value * 100)
    if rounded in (0, 100) and value not in (0.0, 1.0):
        return f"{value * 100:.1f} %"
    return f"{rounded} %"


def interval(share: Share) -> str:
    """From where to where the true share lies in 95 of 100 cases."""
    return f"{share.low * 100:.0f} to {share.high * 100:.0f} %"


def shared(share: Share) -> Html:
    """How many, the interval as a line and in figures; a dash of nothing."""
    if not share.of:
        return text("-")
    return joined(
        Html(f"<strong>{percent(share.value)}</strong>"),
        _line(share),
        small(f"{interval(share)}, {share.count} of {share.of}"),
    )


def _line(share: Share) -> Html:
    low, high = (EDGE + REACH * one for one in (share.low, share.high))
    middle = EDGE + REACH * (share.value or 0.0)
    return Html(
        f'<svg class="interval" viewBox="0 0 {WIDTH} {HEIGHT}" aria-hidden="true">'
        f'<path class="whole" d="M{EDGE} 7h{REACH}M{EDGE} 4v6m{REACH} 0v-6"/>'
        f'<path class="reach" d="M{low:.1f} 7H{high:.1f}"/>'
        f'<circle cx="{middle:.1f}" cy="7" r="4"/></svg>'
    )


def seconds(value: float | None) -> Html:
    """How long."""
    return text(span(value))


def count(value: int, *, bad: bool = False) -> Html:
    """How many; where none is right, any is marked."""
    if bad and value:
        return Html(f'<strong class="bad">{value} !</strong>')
    return Html(f"{value}")


def chance(p: float) -> Html:
    """How probable so large a difference is where there is none."""
    told = f"p < {CERTAIN}" if p < CERTAIN else f"p = {p:.2g}"
    return Html(f"<strong>{text(told)} *</strong>") if p < SIGNIFICANT else text(told)
