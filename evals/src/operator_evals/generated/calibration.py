"""How far the probability of a diagnosis can be trusted, on generated faults. Pure.

The judge of generated faults knows no causes. So the probability that a diagnosis gives to a part,
over all causes, is compared with whether that part was touched.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from operator_evals.facts import TrialFacts, TrialState
from operator_evals.score import NO_CAUSE, Share, share

__all__ = ["Band", "Calibration", "calibrate", "cross_validate", "fit"]

# Below even odds no cause is called the cause; most diagnoses are near certainty.
EDGES = (0.0, 0.5, 0.75, 0.9, 0.97, 1.0)

# So many diagnoses speak for probabilities as they are stated, before any is counted.
PRIOR = 1.0
STEPS = 40  # of Newton's method, which needs fewer
CLEAR = 1e-3  # no stated probability counts as nearer to 0 or 1

Stated = tuple[float, bool]


@dataclass(frozen=True, slots=True)
class Band:
    """The diagnoses whose probability is from `low` to below `high`."""

    low: float
    high: float
    mean: float
    right: Share


@dataclass(frozen=True, slots=True)
class Calibration:
    """The bands that have diagnoses, and the mean squared error of all of them (Brier score).

    `base` is the Brier score of a constant guess: the share of right diagnoses.
    """

    bands: tuple[Band, ...]
    diagnoses: int
    brier: float
    base: float


def calibrate(trials: Iterable[TrialFacts]) -> Calibration:
    """Compare the last diagnosis with a cause of each ticket with the parts that were touched."""
    stated = [pair for trial in trials for pair in _list_stated(trial)]
    bands = []
    for low, high in pairwise(EDGES):
        within = [pair for pair in stated if low <= pair[0] < high or pair[0] == high == EDGES[-1]]
        if within:
            mean = sum(probability for probability, _ in within) / len(within)
            bands.append(Band(low, high, mean, share([right for _, right in within])))
    count = max(len(stated), 1)
    rate = sum(right for _, right in stated) / count
    brier = sum((probability - right) ** 2 for probability, right in stated) / count
    return Calibration(tuple(bands), len(stated), brier, rate * (1.0 - rate))


def _list_stated(trial: TrialFacts) -> list[Stated]:
    """The probability of the part that each ticket names, over all causes, and whether it was
    touched.
    """
    seen = trial.generated
    if trial.state is not TrialState.DONE or seen is None:
        return []
    touched = {
        part
        for each in seen.injected
        if not each.refused
        for part in seen.case.injections[each.number].primitive.components
    }
    last = {each.ticket: each for each in trial.diagnoses if each.cause not in NO_CAUSE}
    return [
        (min(1.0, max(each.component, each.confidence)), each.target in touched)
        for each in last.values()
        if touched
    ]


def fit(stated: Sequence[Stated]) -> tuple[float, float]:
    """Slope and intercept, in log odds, from stated probabilities to how often they were right.

    With few diagnoses a weak prior keeps them as they were stated: slope 1, intercept 0.
    """
    slope = intercept = 0.0
    for _ in range(STEPS):
        down, right = PRIOR * (slope - 1.0), PRIOR * intercept
        curve, mixed, flat = PRIOR, 0.0, PRIOR
        for probability, was_right in stated:
            odds = _log_odds(probability)
            guess = _adjust(probability, slope, intercept)
            weight = guess * (1.0 - guess)
            down, right = down + (guess - was_right) * odds, right + guess - was_right
            curve, mixed, flat = (
                curve + weight * odds * odds,
                mixed + weight * odds,
                flat + weight,
            )
        area = curve * flat - mixed * mixed
        # Steps of limited length, because far from the minimum the curve is flat.
        slope -= min(1.0, max(-1.0, (flat * down - mixed * right) / area))
        intercept -= min(1.0, max(-1.0, (curve * right - mixed * down) / area))
    return slope, intercept


def cross_validate(
    trials: Iterable[TrialFacts], fold_of: Callable[[TrialFacts], Hashable]
) -> tuple[float, float]:
    """The Brier scores of fitted probabilities and of a constant guess, on diagnoses unseen.

    Each fold is judged by what was fitted to all the others.
    """
    folds: dict[Hashable, list[Stated]] = {}
    for trial in trials:
        folds.setdefault(fold_of(trial), []).extend(_list_stated(trial))
    fitted = constant = 0.0
    for held_out, stated in folds.items():
        others = [pair for name, pairs in folds.items() if name != held_out for pair in pairs]
        slope, intercept = fit(others)
        # One right and one wrong diagnosis, before any is counted.
        rate = (sum(right for _, right in others) + 1.0) / (len(others) + 2.0)
        for probability, right in stated:
            fitted += (_adjust(probability, slope, intercept) - right) ** 2
            constant += (rate - right) ** 2
    count = max(sum(map(len, folds.values())), 1)
    return fitted / count, constant / count


def _log_odds(probability: float) -> float:
    within = min(max(probability, CLEAR), 1.0 - CLEAR)
    return math.log(within / (1.0 - within))


def _adjust(probability: float, slope: float, intercept: float) -> float:
    return 1.0 / (1.0 + math.exp(-(slope * _log_odds(probability) + intercept)))
