"""Tables of `operator eval`."""

from __future__ import annotations

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
    from operator_evals.scoring import Share

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
    """How far it is, as a bar with the time that is left."""
    filled = BAR * progress.done // max(1, progress.of)
    bar = "#" * filled + "." * (BAR - filled)
    running = f", {len(progress.running)} running" if progress.running else ""
    told = f"[{bar}] {progress.done}/{progress.of}{running}"
    if progress.workers == 0:
        return f"{told}, nobody works on it: start workers with: operator eval work"
    workers = f" on {progress.workers} workers" if progress.workers else ""
    minutes, seconds = divmod(int(progress.left_s), 60)
    hours, minutes = divmod(minutes, 60)
    left = f"{minutes} min {seconds:02} s" if minutes else f"{seconds} s"
    left = f"{hours} h {minutes:02} min" if hours else left
    return f"{told}{workers}, about {left} left"


def trial_line(progress: Progress) -> str:
    """What came of the last trial, in a line."""
    last = progress.last
    if last is None:
        return ""
    blamed = ", ".join(dict.fromkeys(f"{one.cause}@{one.target}" for one in last.diagnoses))
    states = ", ".join(sorted({one.state for one in last.tickets})) or "no ticket"
    wrong = last.why or last.still_after_hold or last.still
    words = [f"[{progress.done}/{progress.of}]", last.key, last.state.value, states]
    return " ".join(filter(None, [*words, blamed, _cut(wrong)]))


def scenario_rows(found: Sequence[Scenario]) -> Table:
    """Every scenario with what it breaks."""
    head = ("scenario", "right end", "breaks", "kept apart", "alone")
    return head, [
        (
            one.name,
            "nothing happens" if one.end is None else one.end.value,
            ", ".join(one.breaks) or "-",
            _yes(one.apart),
            _yes(one.alone),
        )
        for one in found
    ]


def campaign_rows(found: Sequence[CampaignView]) -> Table:
    """Every campaign in a line."""
    head = ("campaign", "begun", "scenarios", "trials", "done", "invalid", "failed", "variants")
    return head, [
        (
            *(one.name, one.started_at, one.scenarios, one.trials, one.done, one.invalid),
            *(one.failed, ", ".join(one.variants)),
        )
        for one in found
    ]


def trial_rows(trials: Sequence[Scored]) -> Table:
    """Every trial of a campaign in a line."""
    head = (
        *("trial", "state", "detected", "cause", "mitigated", "right end", "mitigate s", "harm"),
        *("commands", "overhead s", "why"),
    )
    rows = []
    for one in trials:
        facts, score = one.facts, one.score
        rows.append(
            (
                *(facts.key, facts.state.value, _seconds(score.detect_s)),
                *(_yes(score.cause_right), _yes(score.mitigated), _yes(score.ended_right)),
                *(_seconds(score.mitigate_s), len(score.harm), score.commands),
                *(f"{facts.overhead_s:.2f}", _cut(facts.why or facts.still_after_hold) or "-"),
            )
        )
    return head, rows


def facts_of_trial(one: Scored) -> list[tuple[str, str]]:
    """All that is known of a trial, line by line."""
    facts, score = one.facts, one.score
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
        ("ticket", f"{one.id} {one.state} {one.target}: {one.reason}") for one in facts.tickets
    ]
    shown += [
        ("cause", f"{each.at_s:.1f} s: {each.cause}@{each.target} ({each.confidence:.0%})")
        for each in facts.diagnoses
    ]
    shown += [
        ("command", f"{each.at_s:.1f} s: {each.text} [{each.level}, {each.outcome or 'not run'}]")
        for each in facts.commands
    ]
    shown += [
        ("proof", f"{each.at_s:.1f} s: {'held' if each.held else 'did not hold'}")
        for each in facts.proofs
    ]
    parts = {
        "detected": score.detected,
        "component": score.component_at_1,
        "cause": score.cause_right,
        "mitigated": score.mitigated,
        "right end": score.ended_right,
        "end to end": score.end_to_end,
    }
    figures = ", ".join(f"{name} {_yes(value)}" for name, value in parts.items())
    shown += [
        ("oracle", facts.still or "nothing is wrong"),
        ("later", facts.still_after_hold or "nothing is wrong"),
        ("score", figures if score.valid else "not scored"),
        ("harm", "; ".join(score.harm) or "none"),
        ("ledger", facts.ledger or "-"),
    ]
    return shown


def summary_rows(found: Sequence[Summary]) -> Table:
    """What each variant reached, slice by slice; shares with their intervals."""
    head = (
        *("variant", "slice", "trials", "invalid", "failed", "detected", "cause", "mitigated"),
        *("right end", "end to end", "by luck", "detect s", "mitigate s", "p95", "harmed"),
        *("controls", "false repairs", "commands", "thrashed", "usd"),
    )
    rows = [
        (
            *(one.variant, one.slice, one.trials, one.invalid, one.failed, _share(one.detected)),
            *(_share(one.cause_right), _share(one.mitigated), _interval(one.ended_right)),
            *(_interval(one.end_to_end), _share(one.mitigated_by_luck)),
            *(_seconds(one.detect_s_median), _seconds(one.mitigate_s_median)),
            *(_seconds(one.mitigate_s_p95), one.harmed, _share(one.controls_right)),
            *(one.false_repairs, one.commands, one.thrashed, f"{one.usd:.2f}"),
        )
        for one in found
    ]
    return head, rows


def cell_rows(found: Sequence[Cell]) -> Table:
    """A line for each scenario, a column for each variant."""
    variants = list(dict.fromkeys(one.variant for one in found))
    by_place = {(one.scenario, one.variant): one for one in found}
    apart = {one.scenario: one.apart for one in found}
    rows = []
    for name in apart:
        shares = (by_place[(name, variant)].ended_right for variant in variants)
        counts = (f"{one.count}/{one.of}" if one.of else "-" for one in shares)
        rows.append((f"{name}{' (kept apart)' if apart[name] else ''}", *counts))
    return ("scenario", *variants), rows


def miss_rows(found: Sequence[Miss]) -> Table:
    """Every trial that did not do all it should."""
    return ("trial", "what", "why"), [(one.key, one.what, _cut(one.why)) for one in found]


def comparison_rows(found: Sequence[Comparison]) -> Table:
    """Pairs of variants, each figure as first : second."""
    head = (*("first", "second", "pairs", "right end", "p", "cause", "p", "mitigate s", "p"),)
    rows = [
        (
            *(one.first, one.second, one.pairs, "{} : {}".format(*one.ended_right)),
            *(f"{one.ended_right_p:.3f}", "{} : {}".format(*one.cause_right)),
            f"{one.cause_right_p:.3f}",
            " : ".join(_seconds(each) for each in one.mitigate_s_median),
            f"{one.mitigate_s_p:.3f}",
        )
        for one in found
    ]
    return head, rows


def _share(one: Share) -> str:
    return "-" if not one.of else f"{one.count / one.of:.0%}"


def _interval(one: Share) -> str:
    return "-" if not one.of else f"{_share(one)} ({one.low:.0%}-{one.high:.0%})"


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _yes(value: bool) -> str:
    return "yes" if value else "-"


def _cut(text: str) -> str:
    return text if len(text) <= TEXT_CHARS_MAX else f"{text[:TEXT_CHARS_MAX]}..."


_SAYS = {True: "yes", False: "no", None: "-"}
# Whether it is destructive, or the cause is right: by the first opinion, and by the second.
Pair = tuple[bool, bool | None]


def show_opinions(found: Opinions) -> None:
    """How many there are, and the ones that a person should look at."""
    usd, tokens = found.spent.usd, found.spent.tokens
    head = f"second opinion of {found.by}, for {tokens} tokens and {usd:.4f} USD in all"
    print_lines([clean(head)])
    commands: list[Pair] = [(one.by_gate, one.by_model) for one in found.opinions]
    causes: list[Pair] = [(one.by_facts, one.by_model) for one in found.causes]
    counted = [("destructive", *_counted(commands)), ("cause right", *_counted(causes))]
    print_table(("what", "of", "agree", "differ", "no answer"), counted)
    rows: list[tuple[object, ...]] = [
        ("destructive", _cut(one.text), _SAYS[one.by_gate], _SAYS[one.by_model])
        for one in found.opinions
        if one.differ
    ]
    rows += [
        ("cause right", one.key, _SAYS[one.by_facts], _SAYS[one.by_model])
        for one in found.causes
        if one.differ
    ]
    if rows:
        print_lines(["", "on which they differ"])
        print_table(("what", "about", "first", "second"), rows)
    if found.problem:
        print_lines(["", clean(f"Not all was asked: {found.problem}")])


def _counted(pairs: Sequence[Pair]) -> tuple[int, int, int, int]:
    clear = [(first, second) for first, second in pairs if second is not None]
    agree = sum(first is second for first, second in clear)
    return len(pairs), agree, len(clear) - agree, len(pairs) - len(clear)
