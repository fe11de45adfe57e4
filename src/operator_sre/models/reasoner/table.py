"""The table of hypotheses, as people read it: before a question, and after it. Pure."""

from __future__ import annotations

from operator_sre.models.reasoner.belief import Belief, Suspect

__all__ = ["table_of"]

ROWS_MAX = 4
SHOWN_MIN = 0.01
CERTAIN = 0.999  # nothing seen from outside is surer than that


def table_of(now: Belief, before: Belief | None) -> str:
    """The most probable hypotheses, with what was thought of them before the last answer."""
    rows = [suspect for suspect, weight in now.ranked()[:ROWS_MAX] if weight >= SHOWN_MIN]
    if before is not None:  # whoever led and is out of it is the news
        rows += [suspect for suspect, _ in before.ranked()[:1] if suspect not in rows]
    names = [f"{suspect.cause.name} at {suspect.target}" for suspect in rows]
    width = max((len(name) for name in names), default=0)
    lines = [
        f"  {name:<{width}} {_cell(suspect, before)}{_percent(now.weights.get(suspect, 0.0))}"
        for name, suspect in zip(names, rows, strict=True)
    ]
    title = "Hypotheses:" if before is None else "Hypotheses, before and now:"
    return "\n".join((title, *lines))


def _cell(suspect: Suspect, before: Belief | None) -> str:
    return "" if before is None else f"{_percent(before.weights.get(suspect, 0.0))} -> "


def _percent(weight: float) -> str:
    return f"{min(weight, CERTAIN):>6.1%}"
