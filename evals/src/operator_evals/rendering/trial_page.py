"""The page of a trial: its course, its actions, its hypotheses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from statistics import fmean

from operator_evals.analysis import Scored
from operator_evals.facts import CommandFact, DiagnosisFact, ProofFact, Snapshot, TrialFacts
from operator_evals.rendering.campaign_page import outcome_of
from operator_evals.rendering.cells import Places, percent, states
from operator_evals.score import explains
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
    join,
    link,
    paragraph,
    section,
    small,
    table,
    text,
)

__all__ = ["course", "hypotheses", "marks_of", "steps", "trial_body"]

CHARTS_MAX = 8
POINTS_MIN = 3
FIGURE_MAX = 1e300
MARKS_MAX = 20
TARGET_MISSING = "no observation of the target"
LEGEND = {
    "fault": "fault injected",
    "detected": "ticket opened",
    "action": "change made",
    "proven": "proven",
    "repaired": "last ticket closed",
}


def marks_of(trial: TrialFacts) -> tuple[Mark, ...]:
    """The events of a trial, for charts."""
    moments = trial.moments
    changed = [command for command in trial.commands if command.ran and command.changes]
    found: list[tuple[float | None, str, str]] = [
        (moments.fault_injected, "fault", f"{trial.scenario.fault} of {trial.hit}"),
        (moments.ticket_created, "detected", "ticket opened"),
        *((command.at_s, "action", command.text) for command in changed[:MARKS_MAX]),
        *(
            (proof.at_s, "proven", "invariants held")
            for proof in trial.proofs[:MARKS_MAX]
            if proof.held
        ),
        (moments.resolved, "repaired", "last ticket closed"),
    ]
    return tuple(Mark(at_s, kind, words) for at_s, kind, words in found if at_s is not None)


def course(trial: TrialFacts) -> Html:
    """Charts of the readings that changed, the ones of the faulty target first."""
    looks = [look for look in (trial.before, *trial.course, trial.after) if look is not None]
    looks.sort(key=lambda look: look.at_s)
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
            # A snapshot with only other readings of the target leaves a gap.
        values = [point.value for point in points if point.value is not None]
        is_drawn = len(values) >= POINTS_MIN and len(set(values)) > 1
        if is_drawn and not any(isinstance(value, str) for value in values):
            chart = Chart(f"{target}: {reading}", tuple(points))
            found.append((target != trial.hit, -_measure_shift(chart, looks), chart.name, chart))
    if not found:
        return paragraph(text("No reading changed, or none was stored."))
    found.sort(key=lambda row: row[:3])
    marks = marks_of(trial)
    ends = [*(look.at_s for look in looks), *(mark.at_s for mark in marks)]
    since_s, until_s = min(ends), max(ends) + 0.001
    # From the first broken snapshot to the first healthy one after the last broken one.
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
    rest = paragraph(text(f"{more} more readings changed.")) if more > 0 else EMPTY
    return join(Html(f'<div class="course">{drawn}</div>'), rest)


def _measure_shift(chart: Chart, looks: Sequence[Snapshot]) -> float:
    """How far the mean shifted while something was broken, as a share of the whole range."""
    broken = {look.at_s for look in looks if look.broken}
    known = [
        (point.at_s in broken, float(point.value))
        for point in chart.points
        if isinstance(point.value, int | float) and abs(point.value) <= FIGURE_MAX
    ]
    during = [value for bad, value in known if bad]
    other = [value for bad, value in known if not bad]
    if not during or not other:
        return 0.0
    reach = max(*during, *other) - min(*during, *other)
    return abs(fmean(during) - fmean(other)) / reach if reach else 0.0


STEPS_MAX = 300
LEVELS = {"safe": "good", "review": "warn", "blocked": "bad"}


def steps(trial: TrialFacts) -> Html:
    """Diagnoses, commands and proofs in order, each with its time."""
    steps: list[CommandFact | DiagnosisFact | ProofFact]
    steps = [*trial.diagnoses, *trial.commands, *trial.proofs]
    if not steps:
        return paragraph(text("No diagnosis and no command."))
    drawn = []
    for fact in sorted(steps, key=lambda step: step.seq)[:STEPS_MAX]:
        match fact:
            case DiagnosisFact():
                blamed = (
                    text("Diagnosed "),
                    code(fact.cause),
                    text(" at "),
                    code(fact.target or "-"),
                )
                sure = badge("plain", f"{percent(fact.confidence)} confidence")
                shown = paragraph(join(*blamed, text(" "), sure, *_draw_author(fact.by)))
                step = join(shown, _quote(fact.summary))
            case CommandFact():
                step = _draw_command(fact)
            case ProofFact():
                held = (
                    badge("good", "✓ invariants held")
                    if fact.held
                    else badge("bad", "✗ invariants did not hold")
                )
                harm = [badge("bad", f"newly broken: {each}") for each in fact.harm]
                step = paragraph(join(text("Verification: "), held, *harm, by=" "))
        drawn.append(f'<li><span class="when">{fact.at_s:.1f} s</span><div>{step}</div></li>')
    more = len(steps) - STEPS_MAX
    rest = paragraph(text(f"{more} more in the ledger.")) if more > 0 else EMPTY
    return join(Html(f'<ol class="steps">{"".join(drawn)}</ol>'), rest)


def _draw_command(command: CommandFact) -> Html:
    if command.ran:
        ended = "" if command.exit_code is None else f", exit {command.exit_code}"
        words = f"{command.outcome or 'ran'}{ended}, {span(command.duration_s)}"
    else:
        words = f"did not run{f': {command.outcome}' if command.outcome else ''}"
    signs = [
        badge(LEVELS.get(command.level, "plain"), command.level or "not judged"),
        badge("plain", f"risk {command.risk}") if command.risk else EMPTY,
        badge("warn", "makes changes") if command.changes else EMPTY,
        badge("bad", "destructive") if command.destructive else EMPTY,
        badge("bad", "outside the subject") if not command.inside else EMPTY,
        badge("plain", "approval requested") if command.asked else EMPTY,
        badge("plain", "rollback") if command.undo else EMPTY,
        *_draw_author(command.by),
        badge("bad" if command.ran and command.exit_code else "plain", words),
    ]
    where = (
        join(text(command.tool), text(" on "), code(command.target))
        if command.target
        else text(command.tool)
    )
    shown = join(*(sign for sign in signs if sign), by=" ")
    return join(paragraph(where), block(command.text), paragraph(shown), _quote(command.reasoning))


def _draw_author(author: str) -> tuple[Html, ...]:
    return (text(" "), badge("plain", f"by {author}")) if author else ()


def _quote(words: str) -> Html:
    return Html(f'<blockquote class="why">{text(words)}</blockquote>') if words else EMPTY


DIAGNOSES_MAX = 12
RANKS_MAX = 8


def hypotheses(trial: TrialFacts) -> Html:
    """One row for each hypothesis, one column for each diagnosis; cells hold the rank."""
    if not trial.diagnoses:
        return paragraph(text("No diagnosis was made."))
    shown = trial.diagnoses[-DIAGNOSES_MAX:]
    ranks = [
        list(dict.fromkeys([(diagnosis.cause, diagnosis.target), *diagnosis.hypotheses]))
        for diagnosis in shown
    ]
    named = dict.fromkeys(name for rank in reversed(ranks) for name in rank[:RANKS_MAX])
    head = [text("Cause and target")]
    for diagnosis in shown:
        sure = f"ticket {diagnosis.ticket}, {percent(diagnosis.confidence)} sure"
        head.append(join(text(f"{diagnosis.at_s:.1f} s"), small(sure)))

    def place(name: tuple[str, str]) -> tuple[int, int]:
        """Its rank in the last diagnosis that names it; later diagnoses come first."""
        backwards = enumerate(reversed(ranks))
        return min((back, rank.index(name)) for back, rank in backwards if name in rank)

    rows = []
    for name in sorted(named, key=place):
        cause, target = name
        row = [join(code(cause), text(" at "), code(target or "-"))]
        if explains(trial, cause, target):
            row = [join(*row, text(" "), badge("good", "✓ right cause"))]
        for rank in ranks:
            number = text(f"{rank.index(name) + 1}." if name in rank else "-")
            first = Html(f'<td class="first"><strong>{number}</strong></td>')
            row.append(first if rank[0] == name else number)
        rows.append(row)
    left_out = len(trial.diagnoses) - len(shown)
    more = paragraph(text(f"{left_out} earlier diagnoses not shown.")) if left_out else EMPTY
    return join(table("Hypotheses", head, rows, kind="ranks"), more)


ENDS = {
    None: "no change, because nothing is broken",
    CorrectOutcome.MITIGATED: "mitigated permanently",
    CorrectOutcome.ESCALATED: "escalated, with nothing changed",
}


def trial_body(scored: Scored, places: Places) -> Html:
    """The page of a trial, in chronological order."""
    trial = scored.facts
    name = f"{trial.scenario.name}, {trial.variant}, seed {trial.seed}"
    ways = [(places.campaigns(), "Campaigns"), (places.campaign(trial.campaign), trial.campaign)]
    links = [link(place, text(words)) for place, words in ways if place]
    sign, kind, words = outcome_of(scored)
    scenario, moments, worth = trial.scenario, trial.moments, scored.score
    badges = [badge(kind, f"{sign} {words}")]
    if worth.valid:
        is_mendable = scenario.end is CorrectOutcome.MITIGATED
        badges += [
            _draw_verdict("detected", worth.detected) if not worth.control else EMPTY,
            _draw_verdict("right cause", worth.cause_right),
            _draw_verdict("mitigated", worth.mitigated) if is_mendable else EMPTY,
            _draw_verdict("correct outcome", worth.ended_right),
        ]
    harm = [paragraph(text(f"Harm: {each}"), "alarm") for each in worth.harm]
    why = paragraph(text(trial.why), "alarm") if trial.why else EMPTY
    place = places.ledger(trial)
    if place:
        way = link(place, text("Download the ledger of this trial"), kind="button")
        how = text(" Verify it with: ")
        ledger = join(way, how, code("operator audit verify --bundle FILE"))
    elif trial.ledger:
        ledger = join(text("Stored next to the database: "), code(trial.ledger))
    else:
        ledger = text("Not stored.")
    rows = [
        ("fault", code(scenario.fault)),
        ("target", code(trial.hit) if trial.hit else text("none")),
        ("subject", code(scenario.subject)),
        ("breaks", _codes(scenario.breaks)),
        ("correct outcome", text(ENDS[scenario.end])),
        ("accepted causes", _codes(scenario.truths)),
        ("started", text(trial.started_at or "-")),
        ("healthy after", text(span(moments.healthy))),
        ("fault injected after", text(span(moments.fault_injected))),
    ]
    return join(
        Html(f"<nav>{join(*links, by=' &#8250; ')}</nav>"),
        heading(1, text(name)),
        join(paragraph(join(*badges, by=" "), "badges"), why, *harm),
        section("Fault", facts(rows)),
        section("Tickets", _draw_tickets(trial)),
        section("Hypotheses", hypotheses(trial)),
        section("Diagnoses, commands and proofs", steps(trial)),
        section("Readings over time", course(trial)),
        section("Before and after", states(trial)),
        section("Scores and figures", _draw_figures(scored)),
        section("Ledger", paragraph(ledger)),
    )


def _draw_verdict(words: str, right: bool) -> Html:
    return badge("good" if right else "bad", f"{'✓' if right else '✗'} {words}")


def _codes(words: tuple[str, ...]) -> Html:
    return join(*map(code, words), by=" ") if words else text("none")


def _draw_tickets(trial: TrialFacts) -> Html:
    moments = trial.moments
    if not trial.tickets:
        return paragraph(text("No ticket was opened."))
    kinds = {"resolved": "good", "escalated": "warn"}
    rows = [
        [
            text(str(ticket.id)),
            code(ticket.target),
            _codes(ticket.invariants),
            badge(kinds.get(ticket.state, "plain"), ticket.state),
            text(ticket.reason or "-"),
        ]
        for ticket in trial.tickets
    ]
    head = [text(title) for title in ("Ticket", "Target", "Invariants", "Final state", "Reason")]
    opened = _since(moments.fault_injected, moments.ticket_created)
    ended = _since(moments.fault_injected, moments.resolved)
    words = f"First ticket opened: {opened}. Last ticket closed: {ended}."
    return join(paragraph(text(words)), table("Tickets", head, rows))


def _since(first: float | None, last: float | None) -> str:
    if last is None:
        return "never"
    if first is None:
        return f"{span(last)} after the start"
    when = "after" if last >= first else "before"
    return f"{span(abs(last - first))} {when} the fault"


def _draw_figures(scored: Scored) -> Html:
    """Every field of the score by its name in tables and exports, and further figures.

    Fields that end in `_s` are times.
    """
    trial = scored.facts
    rows = []
    for part in fields(scored.score):
        value = getattr(scored.score, part.name)
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
    writes = f"{trial.acknowledged} acknowledged, {trial.lost} lost"
    if trial.unread:
        writes += f", {trial.unread} unreadable"
    rows += [
        ("oracle at the end", text(trial.still or "fault is gone")),
        ("oracle after the hold", text(trial.still_after_hold or "fault is gone")),
        ("writes", text(writes)),
        ("harness overhead", text(span(trial.overhead_s))),
        ("ended after", text(span(trial.moments.ended))),
    ]
    return facts(rows)
