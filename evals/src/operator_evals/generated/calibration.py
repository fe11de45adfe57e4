"""How far the probability of a diagnosis can be trusted, on generated faults. Pure.

The judge of generated faults knows no causes. So the probability that a diagnosis gives to a part,
over all causes, is compared with whether that part was touched.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from operator_evals.facts import TrialFacts, TrialState
from operator_evals.score import NO_CAUSE, Share, share

__all__ = ["Band", "Calibration", "calibrate"]

# Below even odds no cause is called the cause; most diagnoses are near certainty.
EDGES = (0.0, 0.5, 0.75, 0.9, 0.97, 1.0)


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


def _list_stated(trial: TrialFacts) -> list[tuple[float, bool]]:
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
