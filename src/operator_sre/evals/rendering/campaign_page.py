"""A campaign: what each variant reached, where, how it compares, and what it missed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from operator_protocols.errors import UsageError
from operator_sre.drawing import plural, span
from operator_sre.evals.analysis import ALL, Analysis, Comparison, Miss, Scored, Summary, compare
from operator_sre.evals.database import Recorded
from operator_sre.evals.rendering.elements import (
    EMPTY,
    Html,
    code,
    facts,
    folded,
    heading,
    joined,
    link,
    paragraph,
    section,
    small,
    table,
    text,
)
from operator_sre.evals.rendering.figures import chance, count, percent, seconds, shared
from operator_sre.evals.rendering.heat import heat_map
from operator_sre.evals.rendering.places import Places

__all__ = ["campaign_body"]

MISSES_MAX = 500
PAIRS_MAX = 45
REACHED = (
    "Variant",
    "Trials",
    "End to end",
    "Right end",
    "Right cause",
    "Mitigated",
    "Detected",
    "Component first",
    "Component in three",
    "Controls left alone",
    "Mitigated with a wrong cause",
)
CARE = (
    "Variant",
    "Time to detect",
    "Time to mitigate",
    "Harm",
    "False repairs",
    "Unsafe attempts",
    "Approvals asked",
    "Taken back",
    "Commands",
    "Thrashing",
    "Destructive",
    "Tokens",
    "Money",
)


def campaign_body(
    recorded: Recorded, analysis: Analysis, known: Sequence[Scored], places: Places
) -> Html:
    """The whole page, the most important first."""
    every = [one for one in analysis.summaries if one.slice == ALL]
    return joined(
        _way(places),
        heading(1, text(f"Campaign {recorded.campaign.name}")),
        _about(recorded, known),
        section(
            "What each variant reached", _reached(every), _repeated(every), _care(every), _words()
        ),
        section("Scenario by scenario", heat_map(analysis, known, places)),
        section("Slices", *_slices(analysis)),
        section("Variants compared on equal seeds", _compared(recorded, known)),
        section("Misses", _missed(analysis.misses, places, recorded.campaign.name)),
        section("Where it was measured", _machine(recorded)),
    )


def _way(places: Places) -> Html:
    if not places.campaigns():
        return EMPTY
    return Html(f"<nav>{link(places.campaigns(), text('Campaigns'))}</nav>")


def _about(recorded: Recorded, known: Sequence[Scored]) -> Html:
    campaign = recorded.campaign
    invalid = sum(not one.score.valid for one in known)
    told = [
        plural(len(known), "trial"),
        f"of {plural(len(campaign.scenarios), 'scenario')}",
        f"with {plural(len(campaign.variants), 'variant')},",
        f"begun {recorded.started_at}.",
        f"{plural(invalid, 'is', 'are')} invalid or failed, and not counted." if invalid else "",
        f"Beside each fault: {', '.join(campaign.noise)}." if campaign.noise else "",
    ]
    return paragraph(text(" ".join(one for one in told if one)), "lead")


def _reached(some: Sequence[Summary]) -> Html:
    rows = [
        [
            text(one.variant),
            _trials(one),
            *map(
                shared,
                (
                    one.end_to_end,
                    one.ended_right,
                    one.cause_right,
                    one.mitigated,
                    one.detected,
                    one.component_at_1,
                    one.component_at_3,
                    one.controls_right,
                    one.mitigated_by_luck,
                ),
            ),
        ]
        for one in some
    ]
    return table("What each variant reached", [text(one) for one in REACHED], rows, kind="shares")


def _trials(one: Summary) -> Html:
    apart = [f"{one.invalid} invalid" if one.invalid else "", f"{one.failed} failed"]
    told = ", ".join(each for each in apart if each and not each.startswith("0 "))
    return joined(text(str(one.trials)), small(told) if told else EMPTY)


def _repeated(some: Sequence[Summary]) -> Html:
    """How probable it is that several repeats all succeed."""
    names = list(dict.fromkeys(name for one in some for name in one.repeats))
    head = [text("Variant"), *(text(f"All of {name} repeats") for name in names)]
    rows = [
        [text(one.variant), *(text(percent(one.repeats.get(name))) for name in names)]
        for one in some
    ]
    told = text("How probable it is that so many repeats of a scenario all go end to end:")
    return joined(paragraph(told), table("Repeats", head, rows))


def _care(some: Sequence[Summary]) -> Html:
    rows = [
        [
            text(one.variant),
            _times(one.detect_s_median, one.detect_s_p95),
            _times(one.mitigate_s_median, one.mitigate_s_p95),
            count(one.harmed, bad=True),
            count(one.false_repairs, bad=True),
            count(one.unsafe, bad=True),
            count(one.asked),
            count(one.undone),
            joined(count(one.commands), small(f"{one.unique} unique, {one.turns} turns")),
            count(one.thrashed),
            count(one.destructive),
            count(one.tokens),
            text(f"{one.usd:.2f} USD"),
        ]
        for one in some
    ]
    told = text("Time, care and cost; what was never mitigated counts as long as was waited:")
    return joined(paragraph(told), table("Care", [text(one) for one in CARE], rows, kind="care"))


def _times(middle: float | None, late: float | None) -> Html:
    if middle is None:
        return text("-")
    return joined(seconds(middle), small(f"p95 {span(late)}"))


def _words() -> Html:
    told = (
        "Right end: mitigated by the word of an independent oracle, still so after a while, and"
        " said by the product itself; or, where nobody may mend it, handed over untouched. End to"
        " end: that, and the right cause. Each line is Wilson's interval, which covers the true"
        " share in 95 of 100 cases."
    )
    return paragraph(text(told), "note")


def _slices(analysis: Analysis) -> Iterator[Html]:
    names = [one for one in dict.fromkeys(each.slice for each in analysis.summaries) if one != ALL]
    variants = list(dict.fromkeys(one.variant for one in analysis.summaries))
    by_place = {(one.slice, one.variant): one for one in analysis.summaries}
    head = [text("End to end"), *map(text, variants)]
    rows = [
        [text(name), *(_slice(by_place.get((name, one))) for one in variants)] for name in names
    ]
    yield table("Slices", head, rows, kind="shares")
    for name in names:
        some = [one for one in analysis.summaries if one.slice == name]
        yield folded(f"All figures of {name}", joined(_reached(some), _care(some)))


def _slice(one: Summary | None) -> Html:
    return text("-") if one is None else shared(one.end_to_end)


def _compared(recorded: Recorded, known: Sequence[Scored]) -> Html:
    found = list(_pairs(recorded, known))
    if not found:
        return paragraph(text("No two variants did the same scenario with the same seed."))
    names = ("Variants", "Pairs", "Right end", "Right cause", "Time to mitigate, median")
    rows = [
        [
            text(f"{one.first} and {one.second}"),
            text(str(one.pairs)),
            _versus(_counts(one.ended_right), one.ended_right_p),
            _versus(_counts(one.cause_right), one.cause_right_p),
            _versus([span(each) for each in one.mitigate_s_median], one.mitigate_s_p),
        ]
        for one in found
    ]
    told = (
        "McNemar's exact test of the counts, Wilcoxon's signed ranks of the times, both two-sided."
        " * is p < 0.05, not corrected for how many pairs are compared."
    )
    shown = table("Comparisons", [text(one) for one in names], rows)
    return joined(shown, paragraph(text(told), "note"))


def _pairs(recorded: Recorded, known: Sequence[Scored]) -> Iterator[Comparison]:
    names = [one.name for one in recorded.campaign.variants]
    for first, second in list(combinations(names, 2))[:PAIRS_MAX]:
        try:
            yield compare(known, first, second)
        except UsageError:  # they have no trial in common
            continue


def _counts(pair: tuple[int, int]) -> list[str]:
    return [str(one) for one in pair]


def _versus(pair: Sequence[str], p: float) -> Html:
    first, second = pair
    told = Html(f'<span class="small">{chance(p)}</span>')
    return joined(text(f"{first} against {second}"), told)


def _missed(some: Sequence[Miss], places: Places, campaign: str) -> Html:
    if not some:
        return paragraph(text("None: every trial did all that it should."))
    rows = [
        [link(places.trial(campaign, one.key), text(one.key)), text(one.what), text(one.why or "-")]
        for one in some[:MISSES_MAX]
    ]
    more = len(some) - MISSES_MAX
    told = paragraph(text(f"{more} more are not shown.")) if more > 0 else EMPTY
    head = [text(one) for one in ("Trial", "What was wrong", "What is known about why")]
    return joined(table("Misses", head, rows, kind="misses"), told)


def _machine(recorded: Recorded) -> Html:
    campaign = recorded.campaign
    limits = (
        f"looks every {span(campaign.interval_s)}, healthy for {span(campaign.stable_s)} before,"
        f" held {span(campaign.hold_s)} after, detection within {span(campaign.detect_s_max)},"
        f" an end within {span(campaign.end_s_max)}, {campaign.parallel} at once"
    )
    rows = [(name, code(what)) for name, what in sorted(recorded.machine.items())]
    return facts([*rows, ("limits", text(limits)), ("first seed", text(str(campaign.first_seed)))])
