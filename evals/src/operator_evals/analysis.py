"""Tables computed from facts; the same facts always give the same tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from operator_evals.campaign import Campaign
from operator_evals.facts import TrialFacts, TrialState
from operator_evals.score import (
    Score,
    Share,
    all_of,
    mcnemar,
    median,
    quantile,
    score,
    share,
    signed_rank,
)
from operator_protocols.errors import UsageError
from operator_protocols.ports import CorrectOutcome

__all__ = [
    "Analysis",
    "Cell",
    "Comparison",
    "Miss",
    "Scored",
    "Summary",
    "analyse",
    "compare",
    "score_trials",
]

REPEATS = (1, 2, 3, 5)
ALL = "all"


@dataclass(frozen=True, slots=True)
class Scored:
    """A trial and its score."""

    facts: TrialFacts
    score: Score


@dataclass(frozen=True, slots=True)
class Summary:
    """The results of one variant in one slice of the trials. Controls are counted separately."""

    variant: str
    slice: str
    trials: int
    invalid: int
    failed: int
    detected: Share
    component_at_1: Share
    component_at_3: Share
    cause_right: Share
    mitigated: Share
    ended_right: Share
    end_to_end: Share
    alone: Share  # end to end, and every turn was the model's own
    with_reasoner: Share  # end to end, and the reasoner took some of the turns
    mitigated_by_luck: Share  # of those whose cause was wrong
    repeats: Mapping[str, float | None]
    detect_s_median: float | None
    detect_s_p95: float | None
    mitigate_s_median: float | None
    mitigate_s_p95: float | None
    harmed: int
    controls_right: Share
    false_repairs: int
    unsafe: int
    asked: int
    undone: int
    commands: int
    unique: int
    thrashed: int
    destructive: int
    turns: int
    tokens: int
    usd: float
    silent: int = 0  # trials to which the model contributed nothing


@dataclass(frozen=True, slots=True)
class Cell:
    """One scenario with one variant: how often it had the correct outcome."""

    scenario: str
    variant: str
    ended_right: Share
    cause_right: Share
    mitigate_s_median: float | None
    harmed: int
    apart: bool


@dataclass(frozen=True, slots=True)
class Miss:
    """A trial that missed something, with the details."""

    key: str
    what: str
    why: str


@dataclass(frozen=True, slots=True)
class Analysis:
    """All tables of a campaign."""

    campaign: str
    summaries: tuple[Summary, ...]
    cells: tuple[Cell, ...]
    misses: tuple[Miss, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two variants on the trials that both ran: the same scenario with the same seed."""

    first: str
    second: str
    pairs: int
    ended_right: tuple[int, int]
    cause_right: tuple[int, int]
    ended_right_p: float
    cause_right_p: float
    mitigate_s_median: tuple[float | None, float | None]
    mitigate_s_p: float


def score_trials(trials: Sequence[TrialFacts], campaign: Campaign) -> list[Scored]:
    """Each trial with its score; an unmitigated fault counts with the full waiting time."""
    cap_s = campaign.detect_s_max + campaign.end_s_max
    return [Scored(trial, score(trial, cap_s=cap_s)) for trial in trials]


def analyse(trials: Sequence[TrialFacts], campaign: Campaign) -> Analysis:
    """All tables of a campaign."""
    known = score_trials(trials, campaign)
    subjects = sorted({scored.facts.scenario.subject for scored in known})
    slices = {
        ALL: known,
        "held out": [scored for scored in known if scored.facts.scenario.apart],
        "development": [scored for scored in known if not scored.facts.scenario.apart],
        **{
            subject: [scored for scored in known if scored.facts.scenario.subject == subject]
            for subject in subjects
        },
    }
    summaries = [
        _summarise(
            variant.name, name, [trial for trial in trials if trial.facts.variant == variant.name]
        )
        for variant in campaign.variants
        for name, trials in slices.items()
    ]
    cells = []
    for scenario in campaign.scenarios:
        for variant in campaign.variants:
            some = [
                scored.score
                for scored in known
                if scored.facts.scenario.name == scenario.name
                and scored.facts.variant == variant.name
                and scored.score.valid
            ]
            times = [score.mitigate_s for score in some if score.mitigate_s is not None]
            cells.append(
                Cell(
                    scenario=scenario.name,
                    variant=variant.name,
                    ended_right=share([score.ended_right for score in some]),
                    cause_right=share([score.cause_right for score in some]),
                    mitigate_s_median=median(times),
                    harmed=sum(bool(score.harm) for score in some),
                    apart=scenario.apart,
                )
            )
    return Analysis(
        campaign=campaign.name,
        summaries=tuple(
            summary for summary in summaries if summary.trials or summary.controls_right.of
        ),
        cells=tuple(cells),
        misses=tuple(miss for scored in known if (miss := _find_miss(scored)) is not None),
    )


def _summarise(variant: str, name: str, trials: Sequence[Scored]) -> Summary:
    states = [trial.facts.state for trial in trials]
    valid = [trial for trial in trials if trial.score.valid]
    faults = [trial for trial in valid if not trial.score.control]
    repairable = [fault for fault in faults if fault.facts.scenario.end is CorrectOutcome.MITIGATED]
    controls = [trial.score for trial in valid if trial.score.control]
    scores = [fault.score for fault in faults]
    every = [trial.score for trial in valid]
    detect = [score.detect_s for score in scores if score.detect_s is not None]
    mitigate = [
        fault.score.mitigate_s for fault in repairable if fault.score.mitigate_s is not None
    ]
    by_scenario: dict[str, list[bool]] = {}
    for fault in faults:
        by_scenario.setdefault(fault.facts.scenario.name, []).append(fault.score.end_to_end)
    return Summary(
        variant=variant,
        slice=name,
        trials=len(faults),
        invalid=states.count(TrialState.INVALID),
        failed=states.count(TrialState.FAILED),
        detected=share([score.detected for score in scores]),
        component_at_1=share([score.component_at_1 for score in scores]),
        component_at_3=share([score.component_at_3 for score in scores]),
        cause_right=share([score.cause_right for score in scores]),
        mitigated=share([fault.score.mitigated for fault in repairable]),
        ended_right=share([score.ended_right for score in scores]),
        end_to_end=share([score.end_to_end for score in scores]),
        alone=share([score.end_to_end and not score.aided for score in scores]),
        with_reasoner=share([score.end_to_end and score.aided for score in scores]),
        mitigated_by_luck=share(
            [fault.score.mitigated for fault in repairable if not fault.score.cause_right]
        ),
        repeats={str(k): all_of(list(by_scenario.values()), k) for k in REPEATS},
        detect_s_median=median(detect),
        detect_s_p95=quantile(detect, 0.95),
        mitigate_s_median=median(mitigate),
        mitigate_s_p95=quantile(mitigate, 0.95),
        harmed=sum(bool(score.harm) for score in every),
        controls_right=share([control.ended_right for control in controls]),
        false_repairs=sum(score.false_repair for score in every),
        unsafe=sum(score.unsafe for score in every),
        asked=sum(score.asked for score in every),
        undone=sum(score.undone for score in every),
        commands=sum(score.commands for score in every),
        unique=sum(score.unique for score in every),
        thrashed=sum(score.thrashed for score in every),
        destructive=sum(score.destructive for score in every),
        turns=sum(score.turns for score in every),
        tokens=sum(score.tokens for score in every),
        usd=sum(score.usd for score in every),
        silent=sum(not score.contributed for score in every),
    )


def _find_miss(scored: Scored) -> Miss | None:
    facts, worth = scored.facts, scored.score
    if not worth.valid:
        return Miss(facts.key, facts.state.value, facts.why)
    wrong = [
        name
        for name, is_wrong in (
            ("no contribution of the model", not worth.contributed),
            ("not detected", not worth.detected and not worth.control),
            ("wrong cause", not worth.cause_right),
            ("wrong outcome", not worth.ended_right),
            ("harm", bool(worth.harm)),
        )
        if is_wrong
    ]
    if not wrong:
        return None
    blamed = (
        ", ".join(f"{diagnosis.cause}@{diagnosis.target}" for diagnosis in facts.diagnoses)
        or "nothing"
    )
    states = ", ".join(sorted({ticket.state for ticket in facts.tickets})) or "no ticket"
    details = [f"diagnosed {blamed}", states, facts.still_after_hold or facts.still, *worth.harm]
    return Miss(facts.key, ", ".join(wrong), "; ".join(each for each in details if each))


def compare(known: Sequence[Scored], first: str, second: str) -> Comparison:
    """Compare the trials of two variants in pairs; UsageError when they share none."""
    by_key = {
        (scored.facts.scenario.name, scored.facts.seed, scored.facts.variant): scored.score
        for scored in known
        if scored.score.valid and not scored.score.control
    }
    pairs = [
        (worth, by_key[(name, seed, second)])
        for (name, seed, variant), worth in by_key.items()
        if variant == first and (name, seed, second) in by_key
    ]
    if not pairs:
        raise UsageError(
            f"{first!r} and {second!r} never ran the same scenario with the same seed.",
            next_step="Run a campaign that includes both.",
        )
    ended = [(ours.ended_right, theirs.ended_right) for ours, theirs in pairs]
    cause = [(ours.cause_right, theirs.cause_right) for ours, theirs in pairs]
    times = [
        (ours.mitigate_s, theirs.mitigate_s)
        for ours, theirs in pairs
        if ours.mitigate_s is not None and theirs.mitigate_s is not None
    ]
    return Comparison(
        first=first,
        second=second,
        pairs=len(pairs),
        ended_right=(sum(ours for ours, _ in ended), sum(theirs for _, theirs in ended)),
        cause_right=(sum(ours for ours, _ in cause), sum(theirs for _, theirs in cause)),
        ended_right_p=mcnemar(ended),
        cause_right_p=mcnemar(cause),
        mitigate_s_median=(
            median([ours for ours, _ in times]),
            median([theirs for _, theirs in times]),
        ),
        mitigate_s_p=signed_rank(times),
    )
