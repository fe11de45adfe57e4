"""The pages of all campaigns, and of one: its figures, its heat map and its trials."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import combinations

from operator_evals.analysis import ALL, Analysis, Cell, Miss, Scored, Summary, compare
from operator_evals.database import Recorded
from operator_evals.rendering.cells import Places, chance, count, interval, percent, seconds, shared
from operator_protocols.errors import UsageError
from operator_sre.drawing import plural, span
from operator_sre.drawing.html import (
    EMPTY,
    Html,
    badge,
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

__all__ = ["Shown", "campaign_body", "campaigns_body", "heat_map", "outcome_of", "problem_body"]

SHADES = 4
LEGEND = (
    ("✓", "right cause and right end"),
    ("~", "right end, wrong cause"),
    ("✗", "wrong end"),
    ("!", "harm"),
    ("∅", "invalid or failed: not counted"),
)


def outcome_of(one: Scored) -> tuple[str, str, str]:
    """A sign, its kind and its words for what became of a trial."""
    worth = one.score
    if not worth.valid:
        return "∅", "void", one.facts.state.value
    if worth.harm:
        return "!", "bad", "harm"
    if worth.end_to_end:
        return "✓", "good", "right cause and right end"
    if worth.ended_right:
        return "~", "warn", "right end, wrong cause"
    return "✗", "bad", "wrong end"


def heat_map(analysis: Analysis, known: Sequence[Scored], places: Places) -> Html:
    """A row for each scenario, a column for each variant, in each cell the way to its trials."""
    variants = list(dict.fromkeys(one.variant for one in analysis.cells))
    by_place = {(one.scenario, one.variant): one for one in analysis.cells}
    trials: dict[tuple[str, str], list[Scored]] = {}
    for one in known:
        trials.setdefault((one.facts.scenario.name, one.facts.variant), []).append(one)
    head = [text(one) for one in ("Scenario", *variants)]
    rows = []
    for scenario in dict.fromkeys(one.scenario for one in analysis.cells):
        apart = any(one.apart for one in analysis.cells if one.scenario == scenario)
        row = [joined(text(scenario), badge("plain", "kept apart") if apart else EMPTY)]
        for key in ((scenario, variant) for variant in variants):
            row.append(_draw_cell(by_place[key], trials.get(key, ()), places))
        rows.append(row)
    signs = (
        Html(f'<span class="sign">{text(sign)}</span> {text(words)}') for sign, words in LEGEND
    )
    legend = joined(*signs, by=" &#160; ")
    above = text("How many trials of each came to the right end; each sign is one trial. ")
    return joined(
        Html(f'<p class="legend">{above}{legend}</p>'),
        table("Scenarios and variants", head, rows, kind="heat"),
    )


def _draw_cell(cell: Cell, trials: Sequence[Scored], places: Places) -> Html:
    share = cell.ended_right
    drawn = []
    for one in sorted(trials, key=lambda one: one.facts.seed):
        sign, kind, words = outcome_of(one)
        place = places.trial(one.facts.campaign, one.facts.key)
        label = f"seed {one.facts.seed}: {words}"
        if place:
            drawn.append(link(place, text(sign), kind=f"sign {kind}", label=label))
        else:
            span_of = f'<span class="sign {kind}" title="{text(label)}">{text(sign)}</span>'
            drawn.append(Html(span_of))
    signs = Html(f'<span class="signs">{joined(*drawn)}</span>')
    if not share.of:
        return Html(f'<td class="none">{text("-")}{signs}</td>')
    # What did harm somewhere looks no better than what failed.
    shade = 0 if cell.harmed else round((share.value or 0.0) * SHADES)
    harm = badge("bad", f"! harm in {cell.harmed}") if cell.harmed else EMPTY
    took = "" if cell.mitigate_s_median is None else f", {span(cell.mitigate_s_median)}"
    told = f"{share.count} of {share.of}"
    tip = f"{told} at the right end, truly {interval(share)}{took}"
    return Html(
        f'<td class="heat{shade}" title="{text(tip)}"><strong>{told}</strong> {harm}{signs}'
        f"{small(span(cell.mitigate_s_median)) if took else EMPTY}</td>"
    )


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
WORDS = (
    "Right end: mitigated by the word of an independent oracle, still so after a while, and"
    " said by the product itself; or, where nobody may mend it, handed over untouched. End to"
    " end: that, and the right cause. Each line is Wilson's interval, which covers the true"
    " share in 95 of 100 cases."
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
    campaign = recorded.campaign
    invalid = sum(not one.score.valid for one in known)
    lead = [
        plural(len(known), "trial"),
        f"of {plural(len(campaign.scenarios), 'scenario')}",
        f"with {plural(len(campaign.variants), 'variant')},",
        f"begun {recorded.started_at}.",
        f"{plural(invalid, 'is', 'are')} invalid or failed, and not counted." if invalid else "",
        f"Beside each fault: {', '.join(campaign.noise)}." if campaign.noise else "",
    ]
    names = list(dict.fromkeys(name for one in every for name in one.repeats))
    head = [text("Variant"), *(text(f"All of {name} repeats") for name in names)]
    repeats = [
        [text(one.variant), *(text(percent(one.repeats.get(name))) for name in names)]
        for one in every
    ]
    limits = (
        f"looks every {span(campaign.interval_s)}, healthy for {span(campaign.stable_s)} before,"
        f" held {span(campaign.hold_s)} after, detection within {span(campaign.detect_s_max)},"
        f" an end within {span(campaign.end_s_max)}, {campaign.parallel} at once"
    )
    machine = [(name, code(what)) for name, what in sorted(recorded.machine.items())]
    machine += [("limits", text(limits)), ("first seed", text(str(campaign.first_seed)))]
    way = places.campaigns()
    return joined(
        Html(f"<nav>{link(way, text('Campaigns'))}</nav>") if way else EMPTY,
        heading(1, text(f"Campaign {campaign.name}")),
        paragraph(text(" ".join(one for one in lead if one)), "lead"),
        section(
            "What each variant reached",
            _draw_reached(every),
            paragraph(
                text("How probable it is that so many repeats of a scenario all go end to end:")
            ),
            table("Repeats", head, repeats),
            _draw_care(every),
            paragraph(text(WORDS), "note"),
        ),
        section("Scenario by scenario", heat_map(analysis, known, places)),
        section("Slices", *_draw_slices(analysis)),
        section("Variants compared on equal seeds", _draw_comparisons(recorded, known)),
        section("Misses", _draw_misses(analysis.misses, places, campaign.name)),
        section("Where it was measured", facts(machine)),
    )


def _draw_reached(some: Sequence[Summary]) -> Html:
    rows = []
    for one in some:
        counts = {"invalid": one.invalid, "failed": one.failed}
        apart = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
        shares = (
            one.end_to_end,
            one.ended_right,
            one.cause_right,
            one.mitigated,
            one.detected,
            one.component_at_1,
            one.component_at_3,
            one.controls_right,
            one.mitigated_by_luck,
        )
        trials = joined(text(str(one.trials)), small(apart) if apart else EMPTY)
        rows.append([text(one.variant), trials, *map(shared, shares)])
    return table("What each variant reached", [text(one) for one in REACHED], rows, kind="shares")


def _draw_care(some: Sequence[Summary]) -> Html:
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


def _draw_slices(analysis: Analysis) -> Iterator[Html]:
    names = [one for one in dict.fromkeys(each.slice for each in analysis.summaries) if one != ALL]
    variants = list(dict.fromkeys(one.variant for one in analysis.summaries))
    by_place = {(one.slice, one.variant): shared(one.end_to_end) for one in analysis.summaries}
    head = [text("End to end"), *map(text, variants)]
    rows = [
        [text(name), *(by_place.get((name, one), text("-")) for one in variants)] for name in names
    ]
    yield table("Slices", head, rows, kind="shares")
    for name in names:
        some = [one for one in analysis.summaries if one.slice == name]
        yield folded(f"All figures of {name}", joined(_draw_reached(some), _draw_care(some)))


def _draw_comparisons(recorded: Recorded, known: Sequence[Scored]) -> Html:
    variants = [one.name for one in recorded.campaign.variants]
    compared = []
    for first, second in list(combinations(variants, 2))[:PAIRS_MAX]:
        with suppress(UsageError):  # they have no trial in common
            compared.append(compare(known, first, second))
    if not compared:
        return paragraph(text("No two variants did the same scenario with the same seed."))
    names = ("Variants", "Pairs", "Right end", "Right cause", "Time to mitigate, median")
    rows = [
        [
            text(f"{one.first} and {one.second}"),
            text(str(one.pairs)),
            _draw_pair(one.ended_right, one.ended_right_p),
            _draw_pair(one.cause_right, one.cause_right_p),
            _draw_pair([span(each) for each in one.mitigate_s_median], one.mitigate_s_p),
        ]
        for one in compared
    ]
    note = (
        "McNemar's exact test of the counts, Wilcoxon's signed ranks of the times, both two-sided."
        " * is p < 0.05, not corrected for how many pairs are compared."
    )
    shown = table("Comparisons", [text(one) for one in names], rows)
    return joined(shown, paragraph(text(note), "note"))


def _draw_pair(pair: Sequence[object], p: float) -> Html:
    first, second = pair
    small_print = Html(f'<span class="small">{chance(p)}</span>')
    return joined(text(f"{first} against {second}"), small_print)


def _draw_misses(some: Sequence[Miss], places: Places, campaign: str) -> Html:
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


NAMES_MAX = 8


@dataclass(frozen=True, slots=True)
class Shown:
    """A campaign, and how many of its trials there are."""

    recorded: Recorded
    trials: int
    planned: int


def campaigns_body(some: Sequence[Shown], places: Places) -> Html:
    """The list, the newest first."""
    title = heading(1, text("Campaigns"))
    if not some:
        way = paragraph(
            joined(text("Nothing was measured yet. Begin with "), code("operator eval run --help"))
        )
        return joined(title, way)
    head = [text(one) for one in ("Campaign", "Begun", "Trials", "Scenarios", "Variants")]
    rows = []
    for one in reversed(some):
        campaign = one.recorded.campaign
        subjects = list(dict.fromkeys(each.subject for each in campaign.scenarios))
        variants = [each.name for each in campaign.variants]
        left = one.planned - one.trials
        rest = f"{plural(left, 'is', 'are')} still to come" if left > 0 else "all of them"
        row = [
            link(places.campaign(campaign.name), text(campaign.name or "(no name)")),
            text(one.recorded.started_at),
            joined(text(f"{one.trials} of {one.planned}"), small(rest)),
            joined(text(str(len(campaign.scenarios))), small(_list_names(subjects))),
            joined(text(str(len(variants))), small(_list_names(variants))),
        ]
        rows.append(row)
    return joined(title, table("Campaigns", head, rows, kind="list"))


def _list_names(names: Sequence[str]) -> str:
    more = len(names) - NAMES_MAX
    shown = ", ".join(names[:NAMES_MAX])
    return f"{shown} and {more} more" if more > 0 else shown


def problem_body(words: str, next_step: str, places: Places) -> Html:
    """What to say in the place of a page, with the way back."""
    return joined(
        Html(f"<nav>{link(places.campaigns(), text('Campaigns'))}</nav>"),
        heading(1, text("Not here")),
        paragraph(text(words), "lead"),
        paragraph(text(next_step)) if next_step else Html(""),
    )
