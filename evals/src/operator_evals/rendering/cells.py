"""Cells of tables, states as badges, and where links lead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import urlencode

from operator_evals.facts import Reading, TrialFacts
from operator_evals.scoring import Share
from operator_sre.drawing import figure, plural, span
from operator_sre.drawing.html import (
    Html,
    badge,
    code,
    folded,
    joined,
    paragraph,
    small,
    table,
    text,
)

__all__ = [
    "OneFile",
    "Places",
    "Served",
    "chance",
    "count",
    "interval",
    "percent",
    "seconds",
    "shared",
    "states",
]


class Places(Protocol):
    """Answers with what stands in a link, "" where there is nothing to go to."""

    def campaigns(self) -> str:
        """All campaigns."""
        ...

    def campaign(self, name: str) -> str:
        """One campaign."""
        ...

    def trial(self, campaign: str, key: str) -> str:
        """One trial."""
        ...

    def ledger(self, facts: TrialFacts) -> str:
        """The ledger of a trial."""
        ...


@dataclass(frozen=True, slots=True)
class Served:
    """Each has an address. Names stand behind the question mark, where any letter may stand.

    `below` is where they begin, for whoever shows other things as well.
    """

    below: str = ""

    def campaigns(self) -> str:
        """The first page."""
        return self.below or "/"

    def campaign(self, name: str) -> str:
        """Its page."""
        return f"{self.below}/campaign?{_query(name=name)}"

    def trial(self, campaign: str, key: str) -> str:
        """Its page."""
        return f"{self.below}/trial?{_query(campaign=campaign, key=key)}"

    def ledger(self, facts: TrialFacts) -> str:
        """A file to keep, where the trial has one."""
        if not facts.ledger:
            return ""
        return f"{self.below}/ledger?{_query(campaign=facts.campaign, key=facts.key)}"


def _query(**names: str) -> str:
    # What a database gives may hold halves of letters, which no address can.
    return urlencode(names, errors="replace")


@dataclass(frozen=True, slots=True)
class OneFile:
    """Everything is a part of one file; trials are numbered, so that no name becomes a place."""

    numbers: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, keys: Sequence[str]) -> OneFile:
        """For a file that holds these trials."""
        return cls({key: number for number, key in enumerate(keys, start=1)})

    def campaigns(self) -> str:
        """There is but one."""
        return ""

    def campaign(self, name: str) -> str:
        """The upper part of the file."""
        return "#campaign"

    def trial(self, campaign: str, key: str) -> str:
        """Its part, where the file has it."""
        number = self.numbers.get(key)
        return f"#trial-{number}" if number else ""

    def ledger(self, facts: TrialFacts) -> str:
        """Ledgers lie elsewhere."""
        return ""


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
    low, high = (EDGE + REACH * one for one in (share.low, share.high))
    middle = EDGE + REACH * (share.value or 0.0)
    return joined(
        Html(f"<strong>{percent(share.value)}</strong>"),
        Html(
            f'<svg class="interval" viewBox="0 0 {WIDTH} {HEIGHT}" aria-hidden="true">'
            f'<path class="whole" d="M{EDGE} 7h{REACH}M{EDGE} 4v6m{REACH} 0v-6"/>'
            f'<path class="reach" d="M{low:.1f} 7H{high:.1f}"/>'
            f'<circle cx="{middle:.1f}" cy="7" r="4"/></svg>'
        ),
        small(f"{interval(share)}, {share.count} of {share.of}"),
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


ROWS_MAX = 200
SAME_MAX = 2000
ABSENT = object()


def states(trial: TrialFacts) -> Html:
    """Readings that differ, and those that do not for whoever opens them."""
    before, after = trial.before, trial.after
    if before is None or after is None:
        return paragraph(text("It was not looked at both before and after."))
    rows: list[list[Html]] = []
    same: list[tuple[str, str]] = []
    for target in sorted({*before.readings, *after.readings}):
        firsts, lasts = before.readings.get(target, {}), after.readings.get(target, {})
        for name in sorted({*firsts, *lasts}):
            first, last = firsts.get(name, ABSENT), lasts.get(name, ABSENT)
            # Yes is not 1; what is no number at all is the same as itself.
            if type(first) is type(last) and (first == last or (first != first and last != last)):
                same.append((target, f"{name} {_figure(first)}"))
            else:
                about = joined(code(target), text(f" {name}"))
                rows.append([about, _cell(first, "was"), _cell(last, "is")])
    badges = [
        *(badge("bad", f"broken at the end: {one}") for one in after.broken),
        *(badge("plain", f"broken before: {one}") for one in before.broken),
    ]
    if badges:
        parts = [paragraph(joined(*badges, by=" "), "badges")]
    else:
        well = "✓ nothing was broken before, and nothing is at the end"
        parts = [paragraph(badge("good", well))]
    if rows:
        head = [text(one) for one in ("Target and reading", "Before", "After")]
        shown = rows[:ROWS_MAX]
        parts.append(table("Readings before and after", head, shown, kind="states"))
    else:
        parts.append(paragraph(text("Every reading is what it was.")))
    if len(rows) > ROWS_MAX:
        parts.append(paragraph(text(f"{len(rows) - ROWS_MAX} more are not shown.")))
    if same:
        # What nobody has to compare, in as little room as possible.
        by_target: dict[str, list[str]] = {}
        for target, figure_of in same[:SAME_MAX]:
            by_target.setdefault(target, []).append(figure_of)
        listed = (
            paragraph(joined(code(target), text(f" {', '.join(figures)}")))
            for target, figures in by_target.items()
        )
        parts.append(folded(f"{plural(len(same), 'reading')} as before", joined(*listed)))
    return joined(*parts)


def _cell(value: object, kind: str) -> Html:
    shown = "not there" if value is ABSENT else _figure(value)
    return Html(f'<td class="{kind}">{text(shown)}</td>')


def _figure(value: object) -> str:
    known: Reading = value if isinstance(value, bool | int | float | str) else None
    return figure(known)
