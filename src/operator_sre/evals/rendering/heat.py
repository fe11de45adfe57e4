"""Which scenario came to its right end with which variant: figures and signs first, then shades."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from operator_sre.drawing import span
from operator_sre.evals.analysis import Analysis, Cell, Scored
from operator_sre.evals.rendering.elements import (
    EMPTY,
    Html,
    badge,
    joined,
    link,
    small,
    table,
    text,
)
from operator_sre.evals.rendering.figures import interval
from operator_sre.evals.rendering.places import Places

__all__ = ["heat_map", "outcome_of"]

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
    rows = [
        [_name(by_place, scenario), *_cells(by_place, trials, scenario, variants, places)]
        for scenario in dict.fromkeys(one.scenario for one in analysis.cells)
    ]
    return joined(_legend(), table("Scenarios and variants", head, rows, kind="heat"))


def _legend() -> Html:
    signs = (
        Html(f'<span class="sign">{text(sign)}</span> {text(words)}') for sign, words in LEGEND
    )
    told = joined(*signs, by=" &#160; ")
    above = text("How many trials of each came to the right end; each sign is one trial. ")
    return Html(f'<p class="legend">{above}{told}</p>')


def _name(cells: Mapping[tuple[str, str], Cell], scenario: str) -> Html:
    apart = any(one.apart for one in cells.values() if one.scenario == scenario)
    return joined(text(scenario), badge("plain", "kept apart") if apart else EMPTY)


def _cells(
    cells: Mapping[tuple[str, str], Cell],
    trials: Mapping[tuple[str, str], Sequence[Scored]],
    scenario: str,
    variants: Sequence[str],
    places: Places,
) -> list[Html]:
    return [
        _cell(cells[(scenario, one)], trials.get((scenario, one), ()), places) for one in variants
    ]


def _cell(cell: Cell, trials: Sequence[Scored], places: Places) -> Html:
    share = cell.ended_right
    ways = sorted(trials, key=lambda one: one.facts.seed)
    signs = Html(f'<span class="signs">{joined(*(_sign(one, places) for one in ways))}</span>')
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


def _sign(one: Scored, places: Places) -> Html:
    sign, kind, words = outcome_of(one)
    place = places.trial(one.facts.campaign, one.facts.key)
    label = f"seed {one.facts.seed}: {words}"
    if not place:
        return Html(f'<span class="sign {kind}" title="{text(label)}">{text(sign)}</span>')
    return link(place, text(sign), kind=f"sign {kind}", label=label)
