"""What every target read before the fault and at the end, and what of it differs."""

from __future__ import annotations

from collections.abc import Sequence

from operator_sre.drawing import figure, plural
from operator_sre.evals.facts import Reading, Snapshot, TrialFacts
from operator_sre.evals.rendering.elements import (
    EMPTY,
    Html,
    badge,
    code,
    folded,
    joined,
    paragraph,
    table,
    text,
)

__all__ = ["states"]

ROWS_MAX = 200
SAME_MAX = 2000
ABSENT = object()
Row = tuple[str, str, object, object]


def states(trial: TrialFacts) -> Html:
    """Readings that differ, and those that do not for whoever opens them."""
    before, after = trial.before, trial.after
    if before is None or after is None:
        return paragraph(text("It was not looked at both before and after."))
    differ: list[Row] = []
    same: list[Row] = []
    for one in _rows(before, after):
        (same if _is_same(one[2], one[3]) else differ).append(one)
    shown = _table(differ) if differ else paragraph(text("Every reading is what it was."))
    rest = folded(f"{plural(len(same), 'reading')} as before", _list(same)) if same else EMPTY
    return joined(_broken(before, after), shown, rest)


def _broken(before: Snapshot, after: Snapshot) -> Html:
    told = [
        *(badge("bad", f"broken at the end: {one}") for one in after.broken),
        *(badge("plain", f"broken before: {one}") for one in before.broken),
    ]
    if not told:
        return paragraph(badge("good", "✓ nothing was broken before, and nothing is at the end"))
    return paragraph(joined(*told, by=" "), "badges")


def _is_same(first: object, last: object) -> bool:
    """Yes is not 1; what is no number at all is the same as itself."""
    return type(first) is type(last) and (first == last or (first != first and last != last))


def _rows(before: Snapshot, after: Snapshot) -> list[Row]:
    found = []
    for target in sorted({*before.readings, *after.readings}):
        first, last = before.readings.get(target, {}), after.readings.get(target, {})
        found += [
            (target, name, first.get(name, ABSENT), last.get(name, ABSENT))
            for name in sorted({*first, *last})
        ]
    return found


def _table(rows: Sequence[Row]) -> Html:
    cells = [
        [joined(code(target), text(f" {name}")), _cell(first, "was"), _cell(last, "is")]
        for target, name, first, last in rows[:ROWS_MAX]
    ]
    more = len(rows) - ROWS_MAX
    rest = paragraph(text(f"{more} more are not shown.")) if more > 0 else EMPTY
    head = [text(one) for one in ("Target and reading", "Before", "After")]
    return joined(table("Readings before and after", head, cells, kind="states"), rest)


def _list(rows: Sequence[Row]) -> Html:
    """What nobody has to compare, in as little room as possible."""
    told: dict[str, list[str]] = {}
    for target, name, value, _ in rows[:SAME_MAX]:
        told.setdefault(target, []).append(f"{name} {_figure(value)}")
    return joined(
        *(paragraph(joined(code(one), text(f" {', '.join(each)}"))) for one, each in told.items())
    )


def _cell(value: object, kind: str) -> Html:
    told = "not there" if value is ABSENT else _figure(value)
    return Html(f'<td class="{kind}">{text(told)}</td>')


def _figure(value: object) -> str:
    known: Reading = value if isinstance(value, bool | int | float | str) else None
    return figure(known)
