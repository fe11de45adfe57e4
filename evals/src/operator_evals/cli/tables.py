"""Tables of `operator eval`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from operator_sre.faces.cli.output import clean, print_lines, print_table

if TYPE_CHECKING:
    from operator_evals.app.views import (
        CampaignView,
        Cell,
        Comparison,
        Miss,
        Opinions,
        Scored,
        Summary,
    )
    from operator_evals.campaign import Scenario
    from operator_evals.conductor import Progress
    from operator_evals.score import Share

__all__ = [
    "campaign_rows",
    "cell_rows",
    "comparison_rows",
    "facts_of_trial",
    "miss_rows",
    "progress_line",
    "scenario_rows",
    "show_opinions",
    "summary_rows",
    "trial_line",
    "trial_rows",
]

Table = tuple[Sequence[str], Sequence[Sequence[object]]]
BAR = 20
TEXT_CHARS_MAX = 160


def progress_line(progress: Progress) -> str:
    """A progress bar with the estimated time left."""
    filled = BAR * progress.done // max(1, progress.of)
    bar = "#" * filled + "." * (BAR - filled)
    running = f", {len(progress.running)} running" if progress.running else ""
    line = f"[{bar}] {progress.done}/{progress.of}{running}"
    if progress.workers == 0:
        return f"{line}, no workers. Start one with: operator eval work"
    workers = f" on {progress.workers} workers" if progress.workers else ""
    minutes, seconds = divmod(int(progress.left_s), 60)
    hours, minutes = divmod(minutes, 60)
    left = f"{minutes} min {seconds:02} s" if minutes else f"{seconds} s"
    left = f"{hours} h {minutes:02} min" if hours else left
    return f"{line}{workers}, about {left} left"


def trial_line(progress: Progress) -> str:
    """The result of the last trial, in one line."""
    last = progress.last
    if last is None:
        return ""
    blamed = ", ".join(
        dict.fromkeys(f"{diagnosis.cause}@{diagnosis.target}" for diagnosis in last.diagnoses)
    )
    states = ", ".join(sorted({ticket.state for ticket in last.tickets})) or "no ticket"
    wrong = last.why or last.still_after_hold or last.still
    words = [f"[{progress.done}/{progress.of}]", last.key, last.state.value, states]
    return " ".join(filter(None, [*words, blamed, _cut(wrong)]))


def scenario_rows(found: Sequence[Scenario]) -> Table:
    """Every scenario with the invariants that it breaks."""
    head = ("scenario", "correct outcome", "breaks", "held out", "runs alone")
    return head, [
        (
            scenario.name,
            "no change" if scenario.end is None else scenario.end.value,
            ", ".join(scenario.breaks) or "-",
            _yes(scenario.apart),
            _yes(scenario.alone),
        )
        for scenario in found
    ]


def campaign_rows(found: Sequence[CampaignView]) -> Table:
    """One row for each campaign."""
    head = ("campaign", "started", "scenarios", "trials", "done", "invalid", "failed", "variants")
    return head, [
        (
            *(
                campaign_view.name,
                campaign_view.started_at,
                campaign_view.scenarios,
                campaign_view.trials,
                campaign_view.done,
                campaign_view.invalid,
            ),
            *(campaign_view.failed, ", ".join(campaign_view.variants)),
        )
        for campaign_view in found
    ]


def trial_rows(trials: Sequence[Scored]) -> Table:
    """One row for each trial of a campaign."""
    head = (
        *("trial", "state", "time to detect", "cause", "mitigated", "correct outcome"),
        *("time to mitigate", "harm", "commands", "overhead", "details"),
    )
    rows = []
    for trial in trials:
        facts, score = trial.facts, trial.score
        rows.append(
            (
                *(facts.key, facts.state.value, _seconds(score.detect_s)),
                *(_yes(score.cause_right), _yes(score.mitigated), _yes(score.ended_right)),
                *(_seconds(score.mitigate_s), len(score.harm), score.commands),
                *(f"{facts.overhead_s:.2f} s", _cut(facts.why or facts.still_after_hold) or "-"),
            )
        )
    return head, rows


def facts_of_trial(scored: Scored) -> list[tuple[str, str]]:
    """Everything recorded about a trial, as labelled lines."""
    facts, score = scored.facts, scored.score
    moments = facts.moments
    times = (
        ("healthy", moments.healthy),
        ("fault", moments.fault_injected),
        ("ticket", moments.ticket_created),
        ("resolved", moments.resolved),
        ("ended", moments.ended),
    )
    shown = [
        ("trial", facts.key),
        ("state", f"{facts.state.value} {facts.why}".strip()),
        ("hit", facts.hit or "-"),
        ("times", ", ".join(f"{name} {_seconds(at)}" for name, at in times)),
    ]
    shown += [
        ("ticket", f"{ticket.id} {ticket.state} {ticket.target}: {ticket.reason}")
        for ticket in facts.tickets
    ]
    counted = Counter(turn.by or "unknown" for turn in facts.turn_facts)
    if counted:
        authors = ", ".join(f"{count} by {name}" for name, count in sorted(counted.items()))
        shown.append(("turns", authors))
    shown += [
        (
            "cause",
            f"{claim.at_s:.1f} s: {claim.cause}@{claim.target} ({claim.confidence:.0%})"
            f"{_by(claim.by)}",
        )
        for claim in facts.diagnoses
    ]
    shown += [
        (
            "command",
            f"{run.at_s:.1f} s: {run.text} [{run.level}, {run.outcome or 'not run'}]{_by(run.by)}",
        )
        for run in facts.commands
    ]
    shown += [
        ("proof", f"{proof.at_s:.1f} s: {'held' if proof.held else 'did not hold'}")
        for proof in facts.proofs
    ]
    parts = {
        "detected": score.detected,
        "component": score.component_at_1,
        "cause": score.cause_right,
        "mitigated": score.mitigated,
        "correct outcome": score.ended_right,
        "end to end": score.end_to_end,
        "contributed": score.contributed,
    }
    figures = ", ".join(f"{name} {_yes(value)}" for name, value in parts.items())
    shown += [
        ("oracle", facts.still or "fault is gone"),
        ("oracle after hold", facts.still_after_hold or "fault is gone"),
        ("score", figures if score.valid else "not scored"),
        ("harm", "; ".join(score.harm) or "none"),
        ("ledger", facts.ledger or "-"),
    ]
    return shown


def summary_rows(found: Sequence[Summary]) -> Table:
    """One row for each variant and slice; shares come with their 95 % interval."""
    head = (
        *("variant", "slice", "trials", "invalid", "failed", "detected", "cause", "mitigated"),
        *("correct outcome", "end to end", "model alone", "model with reasoner"),
        *("no contribution", "mitigated with wrong cause", "detect p50"),
        *("mitigate p50", "mitigate p95", "harmed", "controls", "false repairs", "commands"),
        *("repeated", "cost"),
    )
    rows = [
        (
            *(
                summary.variant,
                summary.slice,
                summary.trials,
                summary.invalid,
                summary.failed,
                _share(summary.detected),
            ),
            *(
                _share(summary.cause_right),
                _share(summary.mitigated),
                _interval(summary.ended_right),
            ),
            *(_interval(summary.end_to_end), _share(summary.alone)),
            *(_share(summary.with_reasoner), summary.silent, _share(summary.mitigated_by_luck)),
            *(_seconds(summary.detect_s_median), _seconds(summary.mitigate_s_median)),
            *(_seconds(summary.mitigate_s_p95), summary.harmed, _share(summary.controls_right)),
            *(summary.false_repairs, summary.commands, summary.thrashed, f"{summary.usd:.2f} USD"),
        )
        for summary in found
    ]
    return head, rows


def cell_rows(found: Sequence[Cell]) -> Table:
    """One row for each scenario, one column for each variant."""
    variants = list(dict.fromkeys(cell.variant for cell in found))
    by_place = {(cell.scenario, cell.variant): cell for cell in found}
    apart = {cell.scenario: cell.apart for cell in found}
    rows = []
    for name in apart:
        shares = (by_place[(name, variant)].ended_right for variant in variants)
        counts = (f"{share.count}/{share.of}" if share.of else "-" for share in shares)
        rows.append((f"{name}{' (held out)' if apart[name] else ''}", *counts))
    return ("scenario", *variants), rows


def miss_rows(found: Sequence[Miss]) -> Table:
    """Every trial that missed something."""
    return ("trial", "miss", "details"), [(miss.key, miss.what, _cut(miss.why)) for miss in found]


def comparison_rows(found: Sequence[Comparison]) -> Table:
    """Pairs of variants, each figure as first : second."""
    head = (
        *("first", "second", "pairs", "correct outcome", "p", "cause", "p", "mitigate p50", "p"),
    )
    rows = [
        (
            *(
                comparison.first,
                comparison.second,
                comparison.pairs,
                "{} : {}".format(*comparison.ended_right),
            ),
            *(f"{comparison.ended_right_p:.3f}", "{} : {}".format(*comparison.cause_right)),
            f"{comparison.cause_right_p:.3f}",
            " : ".join(_seconds(each) for each in comparison.mitigate_s_median),
            f"{comparison.mitigate_s_p:.3f}",
        )
        for comparison in found
    ]
    return head, rows


def _by(author: str) -> str:
    return f" by {author}" if author else ""


def _share(share: Share) -> str:
    return "-" if not share.of else f"{share.count / share.of:.0%}"


def _interval(share: Share) -> str:
    return "-" if not share.of else f"{_share(share)} ({share.low:.0%}-{share.high:.0%})"


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f} s"


def _yes(value: bool) -> str:
    return "yes" if value else "-"


def _cut(text: str) -> str:
    return text if len(text) <= TEXT_CHARS_MAX else f"{text[:TEXT_CHARS_MAX]}..."


_SAYS = {True: "yes", False: "no", None: "-"}
# The first and the second answer to "is it destructive?" or "is the cause right?".
Pair = tuple[bool, bool | None]


def show_opinions(found: Opinions) -> None:
    """Print how often the two opinions agree, and every case in which they differ."""
    usd, tokens = found.spent.usd, found.spent.tokens
    head = f"second opinion by {found.by}: {tokens:,} tokens, {usd:.4f} USD in total"
    print_lines([clean(head)])
    commands: list[Pair] = [(opinion.by_gate, opinion.by_model) for opinion in found.opinions]
    causes: list[Pair] = [(cause.by_facts, cause.by_model) for cause in found.causes]
    counted = [("destructive", *_count_pairs(commands)), ("cause right", *_count_pairs(causes))]
    print_table(("question", "cases", "agree", "differ", "no answer"), counted)
    rows: list[tuple[object, ...]] = [
        ("destructive", _cut(opinion.text), _SAYS[opinion.by_gate], _SAYS[opinion.by_model])
        for opinion in found.opinions
        if opinion.differ
    ]
    rows += [
        ("cause right", cause.key, _SAYS[cause.by_facts], _SAYS[cause.by_model])
        for cause in found.causes
        if cause.differ
    ]
    if rows:
        print_lines(["", "differences"])
        print_table(("question", "case", "first", "second"), rows)
    if found.problem:
        print_lines(["", clean(f"The second opinion is incomplete: {found.problem}")])


def _count_pairs(pairs: Sequence[Pair]) -> tuple[int, int, int, int]:
    clear = [(first, second) for first, second in pairs if second is not None]
    agree = sum(first is second for first, second in clear)
    return len(pairs), agree, len(clear) - agree, len(pairs) - len(clear)
