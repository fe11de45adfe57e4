"""The page of a trial: its course, its actions, its hypotheses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from statistics import fmean

from operator_evals.analysis import Scored
from operator_evals.facts import CommandFact, DiagnosisFact, ProofFact, Snapshot, TrialFacts
from operator_evals.rendering.campaign_page import outcome_of
from operator_evals.rendering.cells import Places, percent, states
from operator_evals.scoring import explains
from operator_protocols.ports import CorrectOutcome
from operator_sre.drawing import Chart, Mark, Point, Tick, charts, span
from operator_sre.drawing.html import (
    EMPTY,
    Html,
    badge,
    block,
    code,
    facts,
    heading,
    joined,
    link,
    paragraph,
    section,
    small,
    table,
    text,
)

__all__ = ["course", "deeds", "hypotheses", "marks_of", "trial_body"]

CHARTS_MAX = 8
POINTS_MIN = 3
FIGURE_MAX = 1e300
MARKS_MAX = 20
TARGET_MISSING = "the target was not seen"
LEGEND = {
    "fault": "the fault",
    "detected": "ticket opened",
    "action": "something was changed",
    "proven": "proven",
    "repaired": "the last ticket ended",
}


def marks_of(trial: TrialFacts) -> tuple[Mark, ...]:
    """What happened when."""
    moments = trial.moments
    changed = [one for one in trial.commands if one.ran and one.changes]
    found: list[tuple[float | None, str, str]] = [
        (moments.fault_injected, "fault", f"{trial.scenario.fault} of {trial.hit}"),
        (moments.ticket_created, "detected", "ticket opened"),
        *((one.at_s, "action", one.text) for one in changed[:MARKS_MAX]),
        *((one.at_s, "proven", "it held") for one in trial.proofs[:MARKS_MAX] if one.held),
        (moments.resolved, "repaired", "the last ticket ended"),
    ]
    return tuple(Mark(at_s, kind, words) for at_s, kind, words in found if at_s is not None)


def course(trial: TrialFacts) -> Html:
    """The readings that moved: of the target that was hit first, those that moved most with it."""
    looks = [one for one in (trial.before, *trial.course, trial.after) if one is not None]
    looks.sort(key=lambda one: one.at_s)
    names = dict.fromkeys(
        (target, reading)
        for look in looks
        for target, readings in look.readings.items()
        for reading in readings
    )
    found: list[tuple[bool, float, str, Chart]] = []
    for target, reading in names:
        points = []
        for look in looks:
            readings = look.readings.get(target, {})
            if readings.get(reading) is not None:
                points.append(Point(look.at_s, readings[reading]))
            elif not readings or reading in readings:
                points.append(Point(look.at_s, None, TARGET_MISSING))
            # A look that kept other readings of the target says nothing of this one.
        values = [one.value for one in points if one.value is not None]
        is_drawn = len(values) >= POINTS_MIN and len(set(values)) > 1
        if is_drawn and not any(isinstance(value, str) for value in values):
            chart = Chart(f"{target}: {reading}", tuple(points))
            found.append((target != trial.hit, -_measure_shift(chart, looks), chart.name, chart))
    if not found:
        return paragraph(text("No reading moved, or none was kept."))
    found.sort(key=lambda one: one[:3])
    marks = marks_of(trial)
    ends = [*(one.at_s for one in looks), *(one.at_s for one in marks)]
    since_s, until_s = min(ends), max(ends) + 0.001
    # From the first look that found something broken to the first one after the last such.
    bad = [at for at, look in enumerate(looks) if look.broken]
    well_s = [look.at_s for look in looks[bad[-1] + 1 :]] if bad else []
    drawn = charts(
        [chart for *_, chart in found[:CHARTS_MAX]],
        marks,
        spans=(since_s, until_s),
        broken=(looks[bad[0]].at_s, well_s[0] if well_s else until_s) if bad else None,
        tick=Tick(f"{since_s:.0f} s", f"{until_s:.0f} s, {span(until_s - since_s)}"),
        legend=LEGEND,
    )
    more = len(found) - CHARTS_MAX
    rest = paragraph(text(f"{more} more readings moved.")) if more > 0 else EMPTY
    return joined(Html(f'<div class="course">{drawn}</div>'), rest)


def _measure_shift(chart: Chart, looks: Sequence[Snapshot]) -> float:
    """How far it was elsewhere while something was broken, as a share of all it moved."""
    broken = {one.at_s for one in looks if one.broken}
    known = [
        (one.at_s in broken, float(one.value))
        for one in chart.points
        if isinstance(one.value, int | float) and abs(one.value) <= FIGURE_MAX
    ]
    during = [value for bad, value in known if bad]
    other = [value for bad, value in known if not bad]
    if not during or not other:
        return 0.0
    reach = max(*during, *other) - min(*during, *other)
    return abs(fmean(during) - fmean(other)) / reach if reach else 0.0


DEEDS_MAX = 300
LEVELS = {"safe": "good", "review": "warn", "blocked": "bad"}


def deeds(trial: TrialFacts) -> Html:
    """One step below the other, each at its second."""
    steps: list[CommandFact | DiagnosisFact | ProofFact]
    steps = [*trial.diagnoses, *trial.commands, *trial.proofs]
    if not steps:
        return paragraph(text("Nothing was thought and nothing was done."))
    drawn = []
    for one in sorted(steps, key=lambda step: step.seq)[:DEEDS_MAX]:
        match one:
            case DiagnosisFact():
                blamed = text("Blamed "), code(one.cause), text(" at "), code(one.target or "-")
                sure = badge("plain", f"{percent(one.confidence)} sure")
                shown = paragraph(joined(*blamed, text(" "), sure))
                step = joined(shown, _quote(one.summary))
            case CommandFact():
                step = _draw_command(one)
            case ProofFact():
                held = badge("good", "✓ it held") if one.held else badge("bad", "✗ it did not hold")
                harm = [badge("bad", f"broken since: {each}") for each in one.harm]
                step = paragraph(joined(text("Looked again: "), held, *harm, by=" "))
        drawn.append(f'<li><span class="when">{one.at_s:.1f} s</span><div>{step}</div></li>')
    more = len(steps) - DEEDS_MAX
    rest = paragraph(text(f"{more} more are in the ledger.")) if more > 0 else EMPTY
    return joined(Html(f'<ol class="steps">{"".join(drawn)}</ol>'), rest)


def _draw_command(one: CommandFact) -> Html:
    if one.ran:
        ended = "" if one.exit_code is None else f", exit {one.exit_code}"
        words = f"{one.outcome or 'ran'}{ended}, {span(one.duration_s)}"
    else:
        words = f"did not run{f': {one.outcome}' if one.outcome else ''}"
    signs = [
        badge(LEVELS.get(one.level, "plain"), one.level or "not judged"),
        badge("plain", f"risk {one.risk}") if one.risk else EMPTY,
        badge("warn", "changes something") if one.changes else EMPTY,
        badge("bad", "destructive") if one.destructive else EMPTY,
        badge("bad", "outside of the subject") if not one.inside else EMPTY,
        badge("plain", "a person was asked") if one.asked else EMPTY,
        badge("plain", "takes back") if one.undo else EMPTY,
        badge("bad" if one.ran and one.exit_code else "plain", words),
    ]
    where = joined(text(one.tool), text(" on "), code(one.target)) if one.target else text(one.tool)
    shown = joined(*(sign for sign in signs if sign), by=" ")
    return joined(paragraph(where), block(one.text), paragraph(shown), _quote(one.reasoning))


def _quote(words: str) -> Html:
    return Html(f'<blockquote class="why">{text(words)}</blockquote>') if words else EMPTY


DIAGNOSES_MAX = 12
RANKS_MAX = 8


def hypotheses(trial: TrialFacts) -> Html:
    """A row for each hypothesis, a column for each diagnosis, and its rank in the cell."""
    if not trial.diagnoses:
        return paragraph(text("Nobody said what the cause is."))
    shown = trial.diagnoses[-DIAGNOSES_MAX:]
    ranks = [list(dict.fromkeys([(one.cause, one.target), *one.hypotheses])) for one in shown]
    named = dict.fromkeys(name for rank in reversed(ranks) for name in rank[:RANKS_MAX])
    head = [text("Cause and target")]
    for one in shown:
        sure = f"ticket {one.ticket}, {percent(one.confidence)} sure"
        head.append(joined(text(f"{one.at_s:.1f} s"), small(sure)))

    def place(name: tuple[str, str]) -> tuple[int, int]:
        """Its rank in the last diagnosis that has it, those of later ones first."""
        backwards = enumerate(reversed(ranks))
        return min((back, rank.index(name)) for back, rank in backwards if name in rank)

    rows = []
    for name in sorted(named, key=place):
        cause, target = name
        row = [joined(code(cause), text(" at "), code(target or "-"))]
        if explains(trial, cause, target):
            row = [joined(*row, text(" "), badge("good", "✓ explains it"))]
        for rank in ranks:
            number = text(f"{rank.index(name) + 1}." if name in rank else "-")
            first = Html(f'<td class="first"><strong>{number}</strong></td>')
            row.append(first if rank[0] == name else number)
        rows.append(row)
    left_out = len(trial.diagnoses) - len(shown)
    more = paragraph(text(f"{left_out} earlier ones are not shown.")) if left_out else EMPTY
    return joined(table("Hypotheses", head, rows, kind="ranks"), more)


ENDS = {
    None: "nothing is broken, so nothing may be repaired",
    CorrectOutcome.MITIGATED: "mitigated for good",
    CorrectOutcome.ESCALATED: "handed over to people, with nothing changed",
}


def trial_body(one: Scored, places: Places) -> Html:
    """The whole page, in the order in which it happened."""
    trial = one.facts
    name = f"{trial.scenario.name}, {trial.variant}, seed {trial.seed}"
    ways = [(places.campaigns(), "Campaigns"), (places.campaign(trial.campaign), trial.campaign)]
    links = [link(place, text(words)) for place, words in ways if place]
    sign, kind, words = outcome_of(one)
    scenario, moments, worth = trial.scenario, trial.moments, one.score
    badges = [badge(kind, f"{sign} {words}")]
    if worth.valid:
        is_mendable = scenario.end is CorrectOutcome.MITIGATED
        badges += [
            _draw_verdict("detected", worth.detected) if not worth.control else EMPTY,
            _draw_verdict("right cause", worth.cause_right),
            _draw_verdict("mitigated", worth.mitigated) if is_mendable else EMPTY,
            _draw_verdict("right end", worth.ended_right),
        ]
    harm = [paragraph(text(f"Harm: {each}"), "alarm") for each in worth.harm]
    why = paragraph(text(trial.why), "alarm") if trial.why else EMPTY
    place = places.ledger(trial)
    if place:
        way = link(place, text("Download the ledger of this trial"), kind="button")
        how = text(" It verifies by itself: ")
        ledger = joined(way, how, code("operator audit verify --bundle FILE"))
    elif trial.ledger:
        ledger = joined(text("It lies beside the database: "), code(trial.ledger))
    else:
        ledger = text("None was kept.")
    rows = [
        ("fault", code(scenario.fault)),
        ("done to", code(trial.hit) if trial.hit else text("nobody")),
        ("subject", code(scenario.subject)),
        ("breaks", _codes(scenario.breaks)),
        ("right end", text(ENDS[scenario.end])),
        ("causes that explain it", _codes(scenario.truths)),
        ("begun", text(trial.started_at or "-")),
        ("healthy after", text(span(moments.healthy))),
        ("broken after", text(span(moments.fault_injected))),
    ]
    return joined(
        Html(f"<nav>{joined(*links, by=' &#8250; ')}</nav>"),
        heading(1, text(name)),
        joined(paragraph(joined(*badges, by=" "), "badges"), why, *harm),
        section("What was done, and to whom", facts(rows)),
        section("What was noticed", _draw_tickets(trial)),
        section("How hypotheses moved", hypotheses(trial)),
        section("What was thought, done and proven", deeds(trial)),
        section("Readings over time", course(trial)),
        section("Before and after", states(trial)),
        section("The figures of this trial", _draw_figures(one)),
        section("Its ledger", paragraph(ledger)),
    )


def _draw_verdict(words: str, right: bool) -> Html:
    return badge("good" if right else "bad", f"{'✓' if right else '✗'} {words}")


def _codes(words: tuple[str, ...]) -> Html:
    return joined(*map(code, words), by=" ") if words else text("none")


def _draw_tickets(trial: TrialFacts) -> Html:
    moments = trial.moments
    if not trial.tickets:
        return paragraph(text("No ticket was opened."))
    kinds = {"resolved": "good", "escalated": "warn"}
    rows = [
        [
            text(str(one.id)),
            code(one.target),
            _codes(one.invariants),
            badge(kinds.get(one.state, "plain"), one.state),
            text(one.reason or "-"),
        ]
        for one in trial.tickets
    ]
    head = [text(one) for one in ("Ticket", "Target", "Invariants", "State at the end", "Why")]
    opened = _since(moments.fault_injected, moments.ticket_created)
    ended = _since(moments.fault_injected, moments.resolved)
    words = f"The first ticket was opened {opened} the fault, the last one ended {ended} it."
    return joined(paragraph(text(words)), table("Tickets", head, rows))


def _since(first: float | None, last: float | None) -> str:
    if last is None:
        return "never after"
    if first is None:
        return f"{span(last)} after the beginning, without"
    return f"{span(last - first)} after" if last >= first else f"{span(first - last)} before"


def _draw_figures(one: Scored) -> Html:
    """Every part of a score by the words it is known by in tables and exports, and what is beside.

    What ends in `_s` is a time.
    """
    trial = one.facts
    rows = []
    for part in fields(one.score):
        value = getattr(one.score, part.name)
        shown = str(value)
        if isinstance(value, bool):
            shown = "yes" if value else "no"
        elif part.name.endswith("_s"):
            shown = span(value)
        elif isinstance(value, tuple):
            shown = "; ".join(value) or "none"
        elif isinstance(value, float):
            shown = f"{value:.4f}"
        rows.append((part.name.removesuffix("_s").replace("_", " "), text(shown)))
    writes = f"{trial.acknowledged} acknowledged, {trial.lost} of them lost"
    if trial.unread:
        writes += f", of {trial.unread} nobody can tell"
    rows += [
        ("oracle at the end", text(trial.still or "it is over")),
        ("oracle after the hold", text(trial.still_after_hold or "it is over")),
        ("writes", text(writes)),
        ("harness", text(f"took {span(trial.overhead_s)} beside rig, fault, waiting and hold")),
        ("ended after", text(span(trial.moments.ended))),
    ]
    return facts(rows)
