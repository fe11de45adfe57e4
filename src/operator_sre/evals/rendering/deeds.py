"""Diagnoses, commands with what the gate said of them, and proofs, in their order."""

from __future__ import annotations

from operator_sre.drawing import span
from operator_sre.evals.facts import CommandFact, DiagnosisFact, ProofFact, TrialFacts
from operator_sre.evals.rendering.elements import (
    EMPTY,
    Html,
    badge,
    block,
    code,
    joined,
    paragraph,
    text,
)
from operator_sre.evals.rendering.figures import percent

__all__ = ["deeds"]

DEEDS_MAX = 300
LEVELS = {"safe": "good", "review": "warn", "blocked": "bad"}


def deeds(trial: TrialFacts) -> Html:
    """One step below the other, each at its second."""
    told: list[tuple[int, float, Html]] = [
        *((one.seq, one.at_s, _diagnosis(one)) for one in trial.diagnoses),
        *((one.seq, one.at_s, _command(one)) for one in trial.commands),
        *((one.seq, one.at_s, _proof(one)) for one in trial.proofs),
    ]
    if not told:
        return paragraph(text("Nothing was thought and nothing was done."))
    told.sort(key=lambda one: one[0])
    steps = (
        f'<li><span class="when">{at_s:.1f} s</span><div>{what}</div></li>'
        for _, at_s, what in told[:DEEDS_MAX]
    )
    more = len(told) - DEEDS_MAX
    rest = paragraph(text(f"{more} more are in the ledger.")) if more > 0 else EMPTY
    return joined(Html(f'<ol class="steps">{"".join(steps)}</ol>'), rest)


def _diagnosis(one: DiagnosisFact) -> Html:
    said = joined(text("Blamed "), code(one.cause), text(" at "), code(one.target or "-"))
    sure = badge("plain", f"{percent(one.confidence)} sure")
    return joined(paragraph(joined(said, text(" "), sure)), _reasoning(one.summary))


def _command(one: CommandFact) -> Html:
    signs = [
        badge(LEVELS.get(one.level, "plain"), one.level or "not judged"),
        badge("plain", f"risk {one.risk}") if one.risk else EMPTY,
        badge("warn", "changes something") if one.changes else EMPTY,
        badge("bad", "destructive") if one.destructive else EMPTY,
        badge("bad", "outside of the subject") if not one.inside else EMPTY,
        badge("plain", "a person was asked") if one.asked else EMPTY,
        badge("plain", "takes back") if one.undo else EMPTY,
        _became(one),
    ]
    where = joined(text(one.tool), text(" on "), code(one.target)) if one.target else text(one.tool)
    shown = joined(*(sign for sign in signs if sign), by=" ")
    return joined(paragraph(where), block(one.text), paragraph(shown), _reasoning(one.reasoning))


def _became(one: CommandFact) -> Html:
    if not one.ran:
        return badge("plain", f"did not run{f': {one.outcome}' if one.outcome else ''}")
    ended = "" if one.exit_code is None else f", exit {one.exit_code}"
    words = f"{one.outcome or 'ran'}{ended}, {span(one.duration_s)}"
    return badge("bad" if one.exit_code else "plain", words)


def _proof(one: ProofFact) -> Html:
    held = badge("good", "✓ it held") if one.held else badge("bad", "✗ it did not hold")
    harm = [badge("bad", f"broken since: {each}") for each in one.harm]
    return paragraph(joined(text("Looked again: "), held, *harm, by=" "))


def _reasoning(words: str) -> Html:
    return Html(f'<blockquote class="why">{text(words)}</blockquote>') if words else EMPTY
