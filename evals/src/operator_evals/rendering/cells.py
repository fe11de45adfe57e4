"""Table cells, badges and link targets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import urlencode

from operator_evals.facts import Reading, TrialFacts
from operator_evals.score import Share
from operator_sre.drawing import figure, plural, span
from operator_sre.drawing.html import (
    Html,
    badge,
    code,
    details,
    join,
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
    "draw_share",
    "interval",
    "percent",
    "seconds",
    "states",
]


class Places(Protocol):
    """The targets of links; "" where there is no page."""

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
    """Addresses on a server. Names are query parameters, which may hold any character.

    `below` is the path under which the pages are mounted.
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
    # A database may hold lone surrogates, which no URL can encode.
    return urlencode(names, errors="replace")


@dataclass(frozen=True, slots=True)
class OneFile:
    """Anchors in one file. Trials are numbered, so no name becomes part of an address."""

    numbers: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, keys: Sequence[str]) -> OneFile:
        """For a file that holds these trials."""
        return cls({key: number for number, key in enumerate(keys, start=1)})

    def campaigns(self) -> str:
        """A file has one campaign only."""
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
    """A share in percent; only an exact 0 or 1 is shown as 0 % or 100 %."""
    if value is None:
        return "-"
    rounded = round(value * 100)
    if rounded in (0, 100) and value not in (0.0, 1.0):
        return f"{value * 100:.1f} %"
    return f"{rounded} %"


def interval(share: Share) -> str:
    """The 95 % confidence interval of a share."""
    return f"{share.low * 100:.0f} to {share.high * 100:.0f} %"


def draw_share(share: Share) -> Html:
    """A share with its interval as a bar and in figures; a dash where nothing was counted."""
    if not share.of:
        return text("-")
    low, high = (EDGE + REACH * edge for edge in (share.low, share.high))
    middle = EDGE + REACH * (share.value or 0.0)
    return join(
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
    """A count; with `bad`, anything above zero is marked."""
    if bad and value:
        return Html(f'<strong class="bad">{value} !</strong>')
    return Html(f"{value}")


def chance(p: float) -> Html:
    """A p-value, marked when it is significant."""
    label = f"p < {CERTAIN}" if p < CERTAIN else f"p = {p:.2g}"
    return Html(f"<strong>{text(label)} *</strong>") if p < SIGNIFICANT else text(label)


ROWS_MAX = 200
SAME_MAX = 2000
ABSENT = object()


def states(trial: TrialFacts) -> Html:
    """Readings before and after; unchanged ones are folded away."""
    before, after = trial.before, trial.after
    if before is None or after is None:
        return paragraph(text("There is no observation from both before and after."))
    rows: list[list[Html]] = []
    same: list[tuple[str, str]] = []
    for target in sorted({*before.readings, *after.readings}):
        firsts, lasts = before.readings.get(target, {}), after.readings.get(target, {})
        for name in sorted({*firsts, *lasts}):
            first, last = firsts.get(name, ABSENT), lasts.get(name, ABSENT)
            # True is not 1, and NaN counts as equal to NaN.
            if type(first) is type(last) and (first == last or (first != first and last != last)):
                same.append((target, f"{name} {_figure(first)}"))
            else:
                about = join(code(target), text(f" {name}"))
                rows.append([about, _cell(first, "was"), _cell(last, "is")])
    badges = [
        *(badge("bad", f"broken after: {key}") for key in after.broken),
        *(badge("plain", f"broken before: {key}") for key in before.broken),
    ]
    if badges:
        parts = [paragraph(join(*badges, by=" "), "badges")]
    else:
        well = "✓ nothing broken before or after"
        parts = [paragraph(badge("good", well))]
    if rows:
        head = [text(title) for title in ("Target and reading", "Before", "After")]
        shown = rows[:ROWS_MAX]
        parts.append(table("Readings before and after", head, shown, kind="states"))
    else:
        parts.append(paragraph(text("No reading changed.")))
    if len(rows) > ROWS_MAX:
        parts.append(paragraph(text(f"{len(rows) - ROWS_MAX} more not shown.")))
    if same:
        # Unchanged readings need no comparison, so they take little room.
        by_target: dict[str, list[str]] = {}
        for target, figure_of in same[:SAME_MAX]:
            by_target.setdefault(target, []).append(figure_of)
        listed = (
            paragraph(join(code(target), text(f" {', '.join(figures)}")))
            for target, figures in by_target.items()
        )
        parts.append(details(f"{plural(len(same), 'unchanged reading')}", join(*listed)))
    return join(*parts)


def _cell(value: object, kind: str) -> Html:
    shown = "missing" if value is ABSENT else _figure(value)
    return Html(f'<td class="{kind}">{text(shown)}</td>')


def _figure(value: object) -> str:
    known: Reading = value if isinstance(value, bool | int | float | str) else None
    return figure(known)
