"""Bars of time: when something was broken, as a strip without a style of its own. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from markupsafe import Markup

from operator_sre.drawing import span, visible

__all__ = ["bar"]

WIDTH, HEIGHT = 240.0, 14.0
# What lasted a moment is seen all the same.
NARROWEST = 1.5


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
        wide = max(NARROWEST, (last - first) / whole_s * WIDTH)
        left = min(first / whole_s * WIDTH, WIDTH - wide)
        pieces.append(
            Markup('<rect class="broken" x="{}" y="0" width="{}" height="{}"/>').format(
                round(left, 1), round(wide, 1), int(HEIGHT)
            )
        )
    label = f"{name}: held" if seen else f"{name}: not checked"
    if pieces:
        label = f"{name}: broken for {span(broken_s)}"
    return Markup(
        '<svg class="spark strip" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img"'
        ' aria-label="{}"><title>{}</title>{}{}</svg>'
    ).format(
        *(int(WIDTH), int(HEIGHT), visible(label), visible(label)),
        _well(seen, begin, whole_s),
        Markup("").join(pieces),
    )


def _well(seen: tuple[datetime, datetime] | None, begin: datetime, whole_s: float) -> Markup:
    if seen is None:
        return Markup("")
    first, last = (
        min(1.0, max(0.0, (at - begin).total_seconds() / whole_s)) * WIDTH for at in seen
    )
    return Markup('<rect class="healthy" x="{}" y="0" width="{}" height="{}"/>').format(
        round(min(first, WIDTH - NARROWEST), 1), round(max(NARROWEST, last - first), 1), int(HEIGHT)
    )
