"""One trial: what was done to whom, what was noticed, thought, done and proven, and its charts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from operator_protocols.ports import RightEnd
from operator_sre.drawing import span
from operator_sre.evals.analysis import Scored
from operator_sre.evals.facts import TicketFact, TrialFacts
from operator_sre.evals.rendering.course import course
from operator_sre.evals.rendering.deeds import deeds
from operator_sre.evals.rendering.elements import (
    EMPTY,
    Html,
    badge,
    code,
    facts,
    heading,
    joined,
    link,
    paragraph,
    section,
    table,
    text,
)
from operator_sre.evals.rendering.heat import outcome_of
from operator_sre.evals.rendering.hypotheses import hypotheses
from operator_sre.evals.rendering.places import Places
from operator_sre.evals.rendering.states import states

__all__ = ["trial_body"]

ENDS = {
    None: "nothing is broken, so nothing may be repaired",
    RightEnd.MITIGATED: "mitigated for good",
    RightEnd.ESCALATED: "handed over to people, with nothing changed",
}


def trial_body(one: Scored, places: Places) -> Html:
    """The whole page, in the order in which it happened."""
    trial = one.facts
    name = f"{trial.scenario.name}, {trial.variant}, seed {trial.seed}"
    return joined(
        _way(trial, places),
        heading(1, text(name)),
        _verdict(one),
        section("What was done, and to whom", _chaos(trial)),
        section("What was noticed", _detection(trial)),
        section("How hypotheses moved", hypotheses(trial)),
        section("What was thought, done and proven", deeds(trial)),
        section("Readings over time", course(trial)),
        section("Before and after", states(trial)),
        section("The figures of this trial", _figures(one)),
        section("Its ledger", _ledger(trial, places)),
    )


def _way(trial: TrialFacts, places: Places) -> Html:
    ways = [(places.campaigns(), "Campaigns"), (places.campaign(trial.campaign), trial.campaign)]
    told = [link(place, text(words)) for place, words in ways if place]
    return Html(f"<nav>{joined(*told, by=' &#8250; ')}</nav>")


def _verdict(one: Scored) -> Html:
    sign, kind, words = outcome_of(one)
    worth = one.score
    badges = [badge(kind, f"{sign} {words}")]
    if worth.valid:
        badges += [
            _judged("detected", worth.detected) if not worth.control else EMPTY,
            _judged("right cause", worth.cause_right),
            _judged("mitigated", worth.mitigated) if _mendable(one.facts) else EMPTY,
            _judged("right end", worth.ended_right),
        ]
    harm = joined(*(paragraph(text(f"Harm: {each}"), "alarm") for each in worth.harm))
    why = paragraph(text(one.facts.why), "alarm") if one.facts.why else EMPTY
    return joined(paragraph(joined(*badges, by=" "), "badges"), why, harm)


def _mendable(trial: TrialFacts) -> bool:
    return trial.scenario.end is RightEnd.MITIGATED


def _judged(words: str, right: bool) -> Html:
    return badge("good" if right else "bad", f"{'✓' if right else '✗'} {words}")


def _chaos(trial: TrialFacts) -> Html:
    scenario, moments = trial.scenario, trial.moments
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
    return facts(rows)


def _codes(words: tuple[str, ...]) -> Html:
    return joined(*map(code, words), by=" ") if words else text("none")


def _detection(trial: TrialFacts) -> Html:
    moments = trial.moments
    told = _since(moments.fault_injected, moments.ticket_created)
    if not trial.tickets:
        return paragraph(text("No ticket was opened."))
    rows = [_ticket(one) for one in trial.tickets]
    head = [text(one) for one in ("Ticket", "Target", "Invariants", "State at the end", "Why")]
    ended = _since(moments.fault_injected, moments.resolved)
    words = f"The first ticket was opened {told} the fault, the last one ended {ended} it."
    return joined(paragraph(text(words)), table("Tickets", head, rows))


def _ticket(one: TicketFact) -> list[Html]:
    kind = {"resolved": "good", "escalated": "warn"}.get(one.state, "plain")
    return [
        text(str(one.id)),
        code(one.target),
        _codes(one.invariants),
        badge(kind, one.state),
        text(one.reason or "-"),
    ]


def _since(first: float | None, last: float | None) -> str:
    if last is None:
        return "never after"
    if first is None:
        return f"{span(last)} after the beginning, without"
    return f"{span(last - first)} after" if last >= first else f"{span(first - last)} before"


def _figures(one: Scored) -> Html:
    trial = one.facts
    rows = [(name, text(told)) for name, told in _told(one)]
    rows += [
        ("oracle at the end", text(trial.still or "it is over")),
        ("oracle after the hold", text(trial.still_after_hold or "it is over")),
        ("writes", text(_writes(trial))),
        ("harness", text(f"took {span(trial.overhead_s)} beside rig, fault, waiting and hold")),
        ("ended after", text(span(trial.moments.ended))),
    ]
    return facts(rows)


def _writes(trial: TrialFacts) -> str:
    said = f"{trial.acknowledged} acknowledged, {trial.lost} of them lost"
    return f"{said}, of {trial.unread} nobody can tell" if trial.unread else said


def _told(one: Scored) -> Iterator[tuple[str, str]]:
    """Every part of a score, by the words it is known by in tables and exports."""
    for part in fields(one.score):
        value = getattr(one.score, part.name)
        name = part.name.replace("_", " ")
        if isinstance(value, bool):
            yield name, "yes" if value else "no"
        elif part.name.endswith("_s"):
            yield name.removesuffix(" s"), span(value)
        elif isinstance(value, tuple):
            yield name, "; ".join(value) or "none"
        elif isinstance(value, float):
            yield name, f"{value:.4f}"
        else:
            yield name, str(value)


def _ledger(trial: TrialFacts, places: Places) -> Html:
    place = places.ledger(trial)
    if place:
        way = link(place, text("Download the ledger of this trial"), kind="button")
        how = text(" It verifies by itself: ")
        return paragraph(joined(way, how, code("operator audit verify --bundle FILE")))
    if trial.ledger:
        return paragraph(joined(text("It lies beside the database: "), code(trial.ledger)))
    return paragraph(text("None was kept."))
