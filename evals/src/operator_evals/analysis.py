"""Tables out of facts: computed anew each time, and the same whenever the facts are the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from operator_evals.campaign import Campaign
from operator_evals.facts import TrialFacts, TrialState
from operator_evals.scoring import (
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
    "scored",
]

REPEATS = (1, 2, 3, 5)
ALL = "all"


@dataclass(frozen=True, slots=True)
class Scored:
    """A trial and what it is worth."""

    facts: TrialFacts
    score: Score


@dataclass(frozen=True, slots=True)
class Summary:
    """What one variant reached in one slice of the trials. Controls are counted apart."""

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


@dataclass(frozen=True, slots=True)
class Cell:
    """One scenario with one variant: how often it came to the right end."""

    scenario: str
    variant: str
    ended_right: Share
    cause_right: Share
    mitigate_s_median: float | None
    harmed: int
    apart: bool


@dataclass(frozen=True, slots=True)
class Miss:
    """A trial that did not do all it should, and what is known about why."""

    key: str
    what: str
    why: str


@dataclass(frozen=True, slots=True)
class Analysis:
    """Everything that is computed of a campaign."""

    campaign: str
    summaries: tuple[Summary, ...]
    cells: tuple[Cell, ...]
    misses: tuple[Miss, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Compare two variants on the trials that both completed."""

    first: str
    second: str
    pairs: int
    ended_right: tuple[int, int]
    cause_right: tuple[int, int]
    ended_right_p: float
    cause_right_p: float
    mitigate_s_median: tuple[float | None, float | None]
    mitigate_s_p: float


def scored(trials: Sequence[TrialFacts], campaign: Campaign) -> list[Scored]:
    """Each trial with its score; what was never mitigated counts as long as was waited."""
    cap_s = campaign.detect_s_max + campaign.end_s_max
    return [Scored(one, score(one, cap_s=cap_s)) for one in trials]


def analyse(trials: Sequence[TrialFacts], campaign: Campaign) -> Analysis:
    """All tables of a campaign."""
    known = scored(trials, campaign)
    subjects = sorted({one.facts.scenario.subject for one in known})
    slices = {
        ALL: known,
        "kept apart": [one for one in known if one.facts.scenario.apart],
        "written with": [one for one in known if not one.facts.scenario.apart],
        **{
            subject: [one for one in known if one.facts.scenario.subject == subject]
            for subject in subjects
        },
    }
    summaries = [
        _summarise(variant.name, name, [one for one in trials if one.facts.variant == variant.name])
        for variant in campaign.variants
        for name, trials in slices.items()
    ]
    cells = []
    for scenario in campaign.scenarios:
        for variant in campaign.variants:
            some = [
                one.score
                for one in known
                if one.facts.scenario.name == scenario.name
                and one.facts.variant == variant.name
                and one.score.valid
            ]
            times = [one.mitigate_s for one in some if one.mitigate_s is not None]
            cells.append(
                Cell(
                    scenario=scenario.name,
                    variant=variant.name,
                    ended_right=share([one.ended_right for one in some]),
                    cause_right=share([one.cause_right for one in some]),
                    mitigate_s_median=median(times),
                    harmed=sum(bool(one.harm) for one in some),
                    apart=scenario.apart,
                )
            )
    return Analysis(
        campaign=campaign.name,
        summaries=tuple(one for one in summaries if one.trials or one.controls_right.of),
        cells=tuple(cells),
        misses=tuple(miss for one in known if (miss := _find_miss(one)) is not None),
    )


def _summarise(variant: str, name: str, trials: Sequence[Scored]) -> Summary:
    states = [one.facts.state for one in trials]
    valid = [one for one in trials if one.score.valid]
    faults = [one for one in valid if not one.score.control]
    mendable = [one for one in faults if one.facts.scenario.end is CorrectOutcome.MITIGATED]
    controls = [one.score for one in valid if one.score.control]
    scores = [one.score for one in faults]
    every = [one.score for one in valid]
    detect = [one.detect_s for one in scores if one.detect_s is not None]
    mitigate = [one.score.mitigate_s for one in mendable if one.score.mitigate_s is not None]
    by_scenario: dict[str, list[bool]] = {}
    for one in faults:
        by_scenario.setdefault(one.facts.scenario.name, []).append(one.score.end_to_end)
    return Summary(
        variant=variant,
        slice=name,
        trials=len(faults),
        invalid=states.count(TrialState.INVALID),
        failed=states.count(TrialState.FAILED),
        detected=share([one.detected for one in scores]),
        component_at_1=share([one.component_at_1 for one in scores]),
        component_at_3=share([one.component_at_3 for one in scores]),
        cause_right=share([one.cause_right for one in scores]),
        mitigated=share([one.score.mitigated for one in mendable]),
        ended_right=share([one.ended_right for one in scores]),
        end_to_end=share([one.end_to_end for one in scores]),
        mitigated_by_luck=share(
            [one.score.mitigated for one in mendable if not one.score.cause_right]
        ),
        repeats={str(k): all_of(list(by_scenario.values()), k) for k in REPEATS},
        detect_s_median=median(detect),
        detect_s_p95=quantile(detect, 0.95),
        mitigate_s_median=median(mitigate),
        mitigate_s_p95=quantile(mitigate, 0.95),
        harmed=sum(bool(one.harm) for one in every),
        controls_right=share([one.ended_right for one in controls]),
        false_repairs=sum(one.false_repair for one in every),
        unsafe=sum(one.unsafe for one in every),
        asked=sum(one.asked for one in every),
        undone=sum(one.undone for one in every),
        commands=sum(one.commands for one in every),
        unique=sum(one.unique for one in every),
        thrashed=sum(one.thrashed for one in every),
        destructive=sum(one.destructive for one in every),
        turns=sum(one.turns for one in every),
        tokens=sum(one.tokens for one in every),
        usd=sum(one.usd for one in every),
    )


def _find_miss(one: Scored) -> Miss | None:
    facts, worth = one.facts, one.score
    if not worth.valid:
        return Miss(facts.key, facts.state.value, facts.why)
    wrong = [
        name
        for name, is_wrong in (
            ("not detected", not worth.detected and not worth.control),
            ("wrong cause", not worth.cause_right),
            ("wrong end", not worth.ended_right),
            ("harm", bool(worth.harm)),
        )
        if is_wrong
    ]
    if not wrong:
        return None
    blamed = ", ".join(f"{each.cause}@{each.target}" for each in facts.diagnoses) or "nothing"
    states = ", ".join(sorted({each.state for each in facts.tickets})) or "no ticket"
    told = [f"blamed {blamed}", states, facts.still_after_hold or facts.still, *worth.harm]
    return Miss(facts.key, ", ".join(wrong), "; ".join(each for each in told if each))


def compare(known: Sequence[Scored], first: str, second: str) -> Comparison:
    """Pair the trials of two variants; UsageError where they have none in common."""
    by_key = {
        (one.facts.scenario.name, one.facts.seed, one.facts.variant): one.score
        for one in known
        if one.score.valid and not one.score.control
    }
    pairs = [
        (worth, by_key[(name, seed, second)])
        for (name, seed, variant), worth in by_key.items()
        if variant == first and (name, seed, second) in by_key
    ]
    if not pairs:
        raise UsageError(
            f"{first!r} and {second!r} have no trial in common: the same scenario and seed.",
            next_step="Run a campaign that has both.",
        )
    ended = [(one.ended_right, other.ended_right) for one, other in pairs]
    cause = [(one.cause_right, other.cause_right) for one, other in pairs]
    times = [
        (one.mitigate_s, other.mitigate_s)
        for one, other in pairs
        if one.mitigate_s is not None and other.mitigate_s is not None
    ]
    return Comparison(
        first=first,
        second=second,
        pairs=len(pairs),
        ended_right=(sum(one for one, _ in ended), sum(other for _, other in ended)),
        cause_right=(sum(one for one, _ in cause), sum(other for _, other in cause)),
        ended_right_p=mcnemar(ended),
        cause_right_p=mcnemar(cause),
        mitigate_s_median=(median([one for one, _ in times]), median([two for _, two in times])),
        mitigate_s_p=signed_rank(times),
    )
