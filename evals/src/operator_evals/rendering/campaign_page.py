"""The list of campaigns, and the page of one: its figures, its heat map and its trials."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import combinations

from operator_evals.analysis import ALL, Analysis, Cell, Miss, Scored, Summary, compare
from operator_evals.database import Recorded
from operator_evals.rendering.cells import (
    Places,
    chance,
    count,
    draw_share,
    interval,
    percent,
    seconds,
)
from operator_protocols.errors import UsageError
from operator_sre.drawing import plural, span
from operator_sre.drawing.html import (
    EMPTY,
    Html,
    badge,
    code,
    details,
    facts,
    heading,
    join,
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
    ("✓", "right cause, correct outcome"),
    ("~", "correct outcome, wrong cause"),
    ("✗", "wrong outcome"),
    ("!", "harm"),
    ("∅", "invalid or failed, not counted"),
)


def outcome_of(scored: Scored) -> tuple[str, str, str]:
    """The sign, the badge kind and the label for the outcome of a trial."""
    worth = scored.score
    if not worth.valid:
        return "∅", "void", scored.facts.state.value
    if worth.harm:
        return "!", "bad", "harm"
    if worth.end_to_end:
        return "✓", "good", "right cause, correct outcome"
    if worth.ended_right:
        return "~", "warn", "correct outcome, wrong cause"
    return "✗", "bad", "wrong outcome"


def heat_map(analysis: Analysis, known: Sequence[Scored], places: Places) -> Html:
    """One row for each scenario, one column for each variant; every cell links to its trials."""
    variants = list(dict.fromkeys(cell.variant for cell in analysis.cells))
    by_place = {(cell.scenario, cell.variant): cell for cell in analysis.cells}
    trials: dict[tuple[str, str], list[Scored]] = {}
    for scored in known:
        trials.setdefault((scored.facts.scenario.name, scored.facts.variant), []).append(scored)
    head = [text(title) for title in ("Scenario", *variants)]
    rows = []
    for scenario in dict.fromkeys(cell.scenario for cell in analysis.cells):
        apart = any(cell.apart for cell in analysis.cells if cell.scenario == scenario)
        row = [join(text(scenario), badge("plain", "held out") if apart else EMPTY)]
        for key in ((scenario, variant) for variant in variants):
            row.append(_draw_cell(by_place[key], trials.get(key, ()), places))
        rows.append(row)
    signs = (
        Html(f'<span class="sign">{text(sign)}</span> {text(words)}') for sign, words in LEGEND
    )
    legend = join(*signs, by=" &#160; ")
    above = text("Trials with the correct outcome. Each sign is one trial. ")
    return join(
        Html(f'<p class="legend">{above}{legend}</p>'),
        table("Scenarios and variants", head, rows, kind="heat"),
    )


def _draw_cell(cell: Cell, trials: Sequence[Scored], places: Places) -> Html:
    share = cell.ended_right
    drawn = []
    for trial in sorted(trials, key=lambda trial: trial.facts.seed):
        sign, kind, words = outcome_of(trial)
        place = places.trial(trial.facts.campaign, trial.facts.key)
        label = f"seed {trial.facts.seed}: {words}"
        if place:
            drawn.append(link(place, text(sign), kind=f"sign {kind}", label=label))
        else:
            span_of = f'<span class="sign {kind}" title="{text(label)}">{text(sign)}</span>'
            drawn.append(Html(span_of))
    signs = Html(f'<span class="signs">{join(*drawn)}</span>')
    if not share.of:
        return Html(f'<td class="none">{text("-")}{signs}</td>')
    # A cell with harm looks no better than a failed cell.
    shade = 0 if cell.harmed else round((share.value or 0.0) * SHADES)
    harm = badge("bad", f"! harm in {cell.harmed}") if cell.harmed else EMPTY
    took = "" if cell.mitigate_s_median is None else f", {span(cell.mitigate_s_median)}"
    reached = f"{share.count} of {share.of}"
    tip = f"{reached} with the correct outcome, 95 % interval {interval(share)}{took}"
    return Html(
        f'<td class="heat{shade}" title="{text(tip)}"><strong>{reached}</strong> {harm}{signs}'
        f"{small(span(cell.mitigate_s_median)) if took else EMPTY}</td>"
    )


MISSES_MAX = 500
PAIRS_MAX = 45
REACHED = (
    "Variant",
    "Trials",
    "End to end",
    "Model alone",
    "Model with reasoner",
    "Correct outcome",
    "Right cause",
    "Mitigated",
    "Detected",
    "Component first",
    "Component in top 3",
    "Controls unchanged",
    "Mitigated with wrong cause",
)
WORDS = (
    "Correct outcome: an independent oracle confirms the repair, again after the hold time, and"
    " Operator resolved the ticket. Where Operator must not repair: escalated, with nothing"
    " changed. End to end: correct outcome and right cause. Model alone: end to end without a turn"
    " of the built-in reasoner. Model with reasoner: end to end, and the reasoner took turns. A"
    " trial to which the model contributed nothing is its failure. The bars are 95 % Wilson"
    " intervals."
)
CARE = (
    "Variant",
    "Time to detect",
    "Time to mitigate",
    "Harm",
    "False repairs",
    "Unsafe attempts",
    "Approvals requested",
    "Rolled back",
    "Commands",
    "Repeated commands",
    "Destructive",
    "Tokens",
    "Cost",
)


def campaign_body(
    recorded: Recorded, analysis: Analysis, known: Sequence[Scored], places: Places
) -> Html:
    """The page of a campaign, the most important figures first."""
    every = [summary for summary in analysis.summaries if summary.slice == ALL]
    campaign = recorded.campaign
    invalid = sum(not scored.score.valid for scored in known)
    lead = [
        plural(len(known), "trial"),
        f"of {plural(len(campaign.scenarios), 'scenario')}",
        f"with {plural(len(campaign.variants), 'variant')},",
        f"started {recorded.started_at}.",
        f"{plural(invalid, 'is', 'are')} invalid or failed and not counted." if invalid else "",
        f"Noise: {', '.join(campaign.noise)}." if campaign.noise else "",
    ]
    names = list(dict.fromkeys(name for summary in every for name in summary.repeats))
    head = [text("Variant"), *(text(f"pass^{name}") for name in names)]
    repeats = [
        [text(summary.variant), *(text(percent(summary.repeats.get(name))) for name in names)]
        for summary in every
    ]
    limits = (
        f"observed every {span(campaign.interval_s)}, stable for {span(campaign.stable_s)},"
        f" hold {span(campaign.hold_s)}, detection within {span(campaign.detect_s_max)},"
        f" outcome within {span(campaign.end_s_max)}, {campaign.parallel} in parallel"
    )
    machine = [(name, code(value)) for name, value in sorted(recorded.machine.items())]
    machine += [("limits", text(limits)), ("first seed", text(str(campaign.first_seed)))]
    way = places.campaigns()
    return join(
        Html(f"<nav>{link(way, text('Campaigns'))}</nav>") if way else EMPTY,
        heading(1, text(f"Campaign {campaign.name}")),
        paragraph(text(" ".join(sentence for sentence in lead if sentence)), "lead"),
        section(
            "Results by variant",
            _draw_reached(every),
            paragraph(
                text("pass^k: the probability that k repeats of a scenario all succeed end to end.")
            ),
            table("Repeats", head, repeats),
            _draw_care(every),
            paragraph(text(WORDS), "note"),
        ),
        section("Results by scenario", heat_map(analysis, known, places)),
        section("Slices", *_draw_slices(analysis)),
        section("Variants compared on the same seeds", _draw_comparisons(recorded, known)),
        section("Misses", _draw_misses(analysis.misses, places, campaign.name)),
        section("Environment", facts(machine)),
    )


def _draw_reached(some: Sequence[Summary]) -> Html:
    rows = []
    for summary in some:
        counts = {"invalid": summary.invalid, "failed": summary.failed}
        counts["without a contribution of the model"] = summary.silent
        apart = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
        shares = (
            summary.end_to_end,
            summary.alone,
            summary.with_reasoner,
            summary.ended_right,
            summary.cause_right,
            summary.mitigated,
            summary.detected,
            summary.component_at_1,
            summary.component_at_3,
            summary.controls_right,
            summary.mitigated_by_luck,
        )
        trials = join(text(str(summary.trials)), small(apart) if apart else EMPTY)
        rows.append([text(summary.variant), trials, *map(draw_share, shares)])
    return table(
        "What each variant reached", [text(title) for title in REACHED], rows, kind="shares"
    )


def _draw_care(some: Sequence[Summary]) -> Html:
    rows = [
        [
            text(summary.variant),
            _times(summary.detect_s_median, summary.detect_s_p95),
            _times(summary.mitigate_s_median, summary.mitigate_s_p95),
            count(summary.harmed, bad=True),
            count(summary.false_repairs, bad=True),
            count(summary.unsafe, bad=True),
            count(summary.asked),
            count(summary.undone),
            join(count(summary.commands), small(f"{summary.unique} unique, {summary.turns} turns")),
            count(summary.thrashed),
            count(summary.destructive),
            count(summary.tokens),
            text(f"{summary.usd:.2f} USD"),
        ]
        for summary in some
    ]
    note = text(
        "Time, safety and cost. A fault that was never mitigated counts with the full waiting time."
    )
    return join(
        paragraph(note),
        table("Time, safety and cost", [text(title) for title in CARE], rows, kind="care"),
    )


def _times(middle: float | None, late: float | None) -> Html:
    if middle is None:
        return text("-")
    return join(seconds(middle), small(f"p95 {span(late)}"))


def _draw_slices(analysis: Analysis) -> Iterator[Html]:
    names = [
        name
        for name in dict.fromkeys(summary.slice for summary in analysis.summaries)
        if name != ALL
    ]
    variants = list(dict.fromkeys(summary.variant for summary in analysis.summaries))
    by_place = {
        (summary.slice, summary.variant): draw_share(summary.end_to_end)
        for summary in analysis.summaries
    }
    head = [text("End to end"), *map(text, variants)]
    rows = [
        [text(name), *(by_place.get((name, variant), text("-")) for variant in variants)]
        for name in names
    ]
    yield table("Slices", head, rows, kind="shares")
    for name in names:
        some = [summary for summary in analysis.summaries if summary.slice == name]
        yield details(f"All figures of {name}", join(_draw_reached(some), _draw_care(some)))


def _draw_comparisons(recorded: Recorded, known: Sequence[Scored]) -> Html:
    variants = [variant.name for variant in recorded.campaign.variants]
    compared = []
    for first, second in list(combinations(variants, 2))[:PAIRS_MAX]:
        with suppress(UsageError):  # no trial in common
            compared.append(compare(known, first, second))
    if not compared:
        return paragraph(text("No two variants ran the same scenario with the same seed."))
    names = ("Variants", "Pairs", "Correct outcome", "Right cause", "Time to mitigate, p50")
    rows = [
        [
            text(f"{comparison.first} and {comparison.second}"),
            text(str(comparison.pairs)),
            _draw_pair(comparison.ended_right, comparison.ended_right_p),
            _draw_pair(comparison.cause_right, comparison.cause_right_p),
            _draw_pair(
                [span(each) for each in comparison.mitigate_s_median], comparison.mitigate_s_p
            ),
        ]
        for comparison in compared
    ]
    note = (
        "Counts: McNemar's exact test. Times: Wilcoxon signed-rank test. Both are two-sided."
        " * marks p < 0.05, without correction for the number of pairs."
    )
    shown = table("Comparisons", [text(name) for name in names], rows)
    return join(shown, paragraph(text(note), "note"))


def _draw_pair(pair: Sequence[object], p: float) -> Html:
    first, second = pair
    small_print = Html(f'<span class="small">{chance(p)}</span>')
    return join(text(f"{first} vs. {second}"), small_print)


def _draw_misses(some: Sequence[Miss], places: Places, campaign: str) -> Html:
    if not some:
        return paragraph(text("None. Every trial succeeded."))
    rows = [
        [
            link(places.trial(campaign, miss.key), text(miss.key)),
            text(miss.what),
            text(miss.why or "-"),
        ]
        for miss in some[:MISSES_MAX]
    ]
    more = len(some) - MISSES_MAX
    note = paragraph(text(f"{more} more not shown.")) if more > 0 else EMPTY
    head = [text(title) for title in ("Trial", "Miss", "Details")]
    return join(table("Misses", head, rows, kind="misses"), note)


NAMES_MAX = 8


@dataclass(frozen=True, slots=True)
class Shown:
    """A campaign and the number of its trials."""

    recorded: Recorded
    trials: int
    planned: int


def campaigns_body(some: Sequence[Shown], places: Places) -> Html:
    """The list, the newest first."""
    title = heading(1, text("Campaigns"))
    if not some:
        way = paragraph(
            join(text("No campaigns yet. Start one with "), code("operator eval run --help"))
        )
        return join(title, way)
    head = [text(title) for title in ("Campaign", "Started", "Trials", "Scenarios", "Variants")]
    rows = []
    for shown in reversed(some):
        campaign = shown.recorded.campaign
        subjects = list(dict.fromkeys(scenario.subject for scenario in campaign.scenarios))
        variants = [variant.name for variant in campaign.variants]
        left = shown.planned - shown.trials
        rest = f"{left} not run yet" if left > 0 else "complete"
        row = [
            link(places.campaign(campaign.name), text(campaign.name or "(no name)")),
            text(shown.recorded.started_at),
            join(text(f"{shown.trials} of {shown.planned}"), small(rest)),
            join(text(str(len(campaign.scenarios))), small(_list_names(subjects))),
            join(text(str(len(variants))), small(_list_names(variants))),
        ]
        rows.append(row)
    return join(title, table("Campaigns", head, rows, kind="list"))


def _list_names(names: Sequence[str]) -> str:
    more = len(names) - NAMES_MAX
    shown = ", ".join(names[:NAMES_MAX])
    return f"{shown} and {more} more" if more > 0 else shown


def problem_body(words: str, next_step: str, places: Places) -> Html:
    """An error page with a link back to the campaigns."""
    return join(
        Html(f"<nav>{link(places.campaigns(), text('Campaigns'))}</nav>"),
        heading(1, text("Error")),
        paragraph(text(words), "lead"),
        paragraph(text(next_step)) if next_step else Html(""),
    )
