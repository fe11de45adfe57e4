"""Figures that say how sure they are: intervals, quantiles, repeats and paired comparisons."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Share", "all_of", "mcnemar", "median", "quantile", "share", "signed_rank"]

# The standard normal deviate of a two-sided interval that covers 95 %.
Z_95 = 1.959963984540054
# Above this many pairs the distribution of ranks is close enough to a normal one.
EXACT_PAIRS_MAX = 25


@dataclass(frozen=True, slots=True)
class Share:
    """How many of how many, with the interval that covers the true share in 95 of 100 cases."""

    count: int
    of: int
    low: float
    high: float

    @property
    def value(self) -> float | None:
        """The share itself; None where nothing was counted."""
        return self.count / self.of if self.of else None


def share(outcomes: Sequence[bool]) -> Share:
    """The share of what is true, with Wilson's score interval."""
    count, of = sum(outcomes), len(outcomes)
    return Share(count, of, *_wilson(count, of))


def _wilson(count: int, of: int) -> tuple[float, float]:
    if of == 0:
        return 0.0, 1.0
    rate, square = count / of, Z_95 * Z_95
    middle = rate + square / (2 * of)
    reach = Z_95 * math.sqrt(rate * (1 - rate) / of + square / (4 * of * of))
    scale = 1 + square / of
    low = 0.0 if count == 0 else (middle - reach) / scale
    high = 1.0 if count == of else (middle + reach) / scale
    return low, high


def quantile(values: Sequence[float], q: float) -> float | None:
    """A quantile, linear between neighbours; None of nothing."""
    if not values:
        return None
    ordered = sorted(values)
    place = q * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def median(values: Sequence[float]) -> float | None:
    """The middle one; None of nothing."""
    return quantile(values, 0.5)


def all_of(repeats: Sequence[Sequence[bool]], k: int) -> float | None:
    """How probable it is that k repeats of a scenario all succeed, over scenarios (pass^k).

    Of each scenario the share of its choices of k repeats that hold no failure, without bias;
    scenarios with fewer than k repeats say nothing about it.
    """
    shares = [
        math.comb(sum(one), k) / math.comb(len(one), k) for one in repeats if len(one) >= k > 0
    ]
    return sum(shares) / len(shares) if shares else None


def mcnemar(pairs: Sequence[tuple[bool, bool]]) -> float:
    """The exact two-sided p of two variants that differ on so many pairs as these, or more."""
    better = sum(first and not second for first, second in pairs)
    worse = sum(second and not first for first, second in pairs)
    differing = better + worse
    tail = sum(math.comb(differing, one) for one in range(min(better, worse) + 1))
    return min(1.0, 2 * tail / (1 << differing))


def signed_rank(pairs: Sequence[tuple[float, float]]) -> float:
    """The two-sided p of Wilcoxon's signed ranks; pairs without a difference say nothing.

    Exact for few pairs, also with ties; by the normal distribution with its corrections above.
    """
    differences = [first - second for first, second in pairs if first != second]
    if not differences:
        return 1.0
    ranks = _ranks([abs(one) for one in differences])
    plus = sum(rank for rank, one in zip(ranks, differences, strict=True) if one > 0)
    smaller = min(plus, sum(ranks) - plus)
    if len(ranks) <= EXACT_PAIRS_MAX:
        return min(1.0, 2 * _exact(ranks, smaller))
    return _normal(ranks, smaller)


def _ranks(values: Sequence[float]) -> list[float]:
    """The rank of each, equal ones sharing theirs."""
    ordered = sorted(values)
    first = {value: place for place, value in reversed(list(enumerate(ordered, start=1)))}
    return [first[value] + (ordered.count(value) - 1) / 2 for value in values]


def _exact(ranks: Sequence[float], smaller: float) -> float:
    """How probable a sum of ranks up to this is when every sign is a coin's."""
    doubled = [round(2 * rank) for rank in ranks]  # shared ranks are halves
    ways = {0: 1}
    for rank in doubled:
        added: dict[int, int] = dict(ways)
        for total, count in ways.items():
            added[total + rank] = added.get(total + rank, 0) + count
        ways = added
    reached = sum(count for total, count in ways.items() if total <= round(2 * smaller))
    return reached / (1 << len(doubled))


def _normal(ranks: Sequence[float], smaller: float) -> float:
    mean, spread = sum(ranks) / 2, math.sqrt(sum(rank * rank for rank in ranks) / 4)
    deviate = max(0.0, mean - smaller - 0.5) / spread
    return math.erfc(deviate / math.sqrt(2))
