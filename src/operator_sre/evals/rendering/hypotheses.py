"""How the order of hypotheses moved from one diagnosis to the next."""

from __future__ import annotations

from collections.abc import Sequence

from operator_sre.evals.facts import DiagnosisFact, TrialFacts
from operator_sre.evals.rendering.elements import (
    EMPTY,
    Html,
    badge,
    code,
    joined,
    paragraph,
    small,
    table,
    text,
)
from operator_sre.evals.rendering.figures import percent

__all__ = ["hypotheses"]

DIAGNOSES_MAX = 12
RANKS_MAX = 8


def hypotheses(trial: TrialFacts) -> Html:
    """A row for each hypothesis, a column for each diagnosis, and its rank in the cell."""
    if not trial.diagnoses:
        return paragraph(text("Nobody said what the cause is."))
    shown = trial.diagnoses[-DIAGNOSES_MAX:]
    ranks = [_ranked(one) for one in shown]
    named = dict.fromkeys(name for rank in reversed(ranks) for name in rank[:RANKS_MAX])
    head = [text("Cause and target"), *map(_moment, shown)]
    rows = [
        [_named(name, trial), *(_rank(rank, name) for rank in ranks)]
        for name in sorted(named, key=lambda one: _last(ranks, one))
    ]
    left_out = len(trial.diagnoses) - len(shown)
    more = paragraph(text(f"{left_out} earlier ones are not shown.")) if left_out else EMPTY
    return joined(table("Hypotheses", head, rows, kind="ranks"), more)


def _ranked(one: DiagnosisFact) -> list[tuple[str, str]]:
    """Its hypotheses, best first; what it settled on is the first in any case."""
    return list(dict.fromkeys([(one.cause, one.target), *one.hypotheses]))


def _moment(one: DiagnosisFact) -> Html:
    told = f"ticket {one.ticket}, {percent(one.confidence)} sure"
    return joined(text(f"{one.at_s:.1f} s"), small(told))


def _named(name: tuple[str, str], trial: TrialFacts) -> Html:
    cause, target = name
    truths = trial.scenario.truths
    right = f"{cause}@any" in truths or (f"{cause}@hit" in truths and target == trial.hit)
    shown = joined(code(cause), text(" at "), code(target or "-"))
    return joined(shown, text(" "), badge("good", "✓ explains it")) if right else shown


def _rank(ranked: Sequence[tuple[str, str]], name: tuple[str, str]) -> Html:
    if name not in ranked:
        return text("-")
    place = ranked.index(name) + 1
    told = text(f"{place}.")
    return Html(f'<td class="first"><strong>{told}</strong></td>') if place == 1 else told


def _last(ranks: Sequence[Sequence[tuple[str, str]]], name: tuple[str, str]) -> tuple[int, int]:
    """Its rank in the last diagnosis that has it, those of later ones first."""
    for back, ranked in enumerate(reversed(ranks)):
        if name in ranked:
            return back, ranked.index(name)
    return len(ranks), 0
