"""Statistics against published answers."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operator_evals.score import (
    Share,
    all_of,
    mcnemar,
    median,
    quantile,
    share,
    signed_rank,
)
from tests.every import every

# Newcombe, Two-sided confidence intervals for the single proportion, Statistics in Medicine 17
# (1998), table I, method 3 (Wilson's score without a correction).
NEWCOMBE = [
    (81, 263, 0.2553, 0.3662),
    (15, 148, 0.0624, 0.1605),
    (0, 20, 0.0000, 0.1611),
    (1, 29, 0.0061, 0.1718),
]
# Critical values of Wilcoxon's signed ranks: n pairs, the smaller sum of ranks, and the exact
# two-sided p, of which the usual tables print the first below 0.05.
RANKS = [
    (6, 0, 2 / 64),
    (7, 2, 6 / 128),
    (8, 3, 10 / 256),
    (9, 5, 20 / 512),
    (10, 8, 50 / 1024),
]


@every(("count", "of", "low", "high"), NEWCOMBE)
def test_intervals_are_those_of_a_published_table(
    count: int, of: int, low: float, high: float
) -> None:
    found = share([True] * count + [False] * (of - count))
    assert (round(found.low, 4), round(found.high, 4)) == (low, high)
    assert found.value == count / of


def test_of_nothing_nothing_is_known() -> None:
    assert share([]) == Share(0, 0, 0.0, 1.0)
    assert share([]).value is None
    assert median([]) is None
    assert all_of([], 2) is None


@given(st.lists(st.booleans(), min_size=1, max_size=300))
def test_a_share_lies_in_its_interval(outcomes: list[bool]) -> None:
    found = share(outcomes)
    assert found.value is not None
    assert 0.0 <= found.low <= found.value <= found.high <= 1.0
    mirrored = share([not one for one in outcomes])
    assert math.isclose(mirrored.low, 1 - found.high, abs_tol=1e-12)


def test_quantiles_lie_between_neighbours() -> None:
    assert quantile([4.0, 1.0, 3.0, 2.0], 0.25) == 1.75
    assert median([3.0, 1.0, 2.0]) == 2.0
    assert quantile([1.0, 2.0], 1.0) == 2.0


@pytest.mark.parametrize(
    ("repeats", "k", "expected"),
    [
        ([[True, True, True, False]], 1, 3 / 4),
        ([[True, True, True, False]], 2, 3 / 6),  # three of the six pairs hold no failure
        ([[True, True], [True, False]], 2, 1 / 2),
        ([[True]], 2, None),  # one repeat says nothing of two
    ],
)
def test_all_of_k_repeats(repeats: list[list[bool]], k: int, expected: float | None) -> None:
    assert all_of(repeats, k) == expected


def test_mcnemar_counts_what_differs_only() -> None:
    same = [(True, True)] * 50 + [(False, False)] * 7
    assert mcnemar(same) == 1.0
    assert mcnemar([*same, *[(True, False)] * 5]) == 2 / 32
    # One of eight: the sign test's 2 * (1 + 8) / 256.
    assert mcnemar([*[(True, False)] * 7, (False, True)]) == 18 / 256


@every(("pairs", "smaller", "expected"), RANKS)
def test_signed_ranks_are_those_of_the_tables(pairs: int, smaller: int, expected: float) -> None:
    signs = _signs(pairs, smaller)
    found = signed_rank([(sign * rank, 0.0) for rank, sign in enumerate(signs, start=1)])
    assert found == expected


def _signs(pairs: int, smaller: int) -> list[int]:
    """Signs whose smaller sum of ranks is that."""
    signs = [1] * pairs
    for rank in range(pairs, 0, -1):
        if rank <= smaller:
            signs[rank - 1] = -1
            smaller -= rank
    return signs


def test_many_pairs_are_close_to_what_few_are() -> None:
    pairs = [(float(one % 7), float(one % 5)) for one in range(30)]
    many, few = signed_rank(pairs * 4), signed_rank(pairs[:25])
    assert 0.0 < many < 1.0
    assert 0.0 < few <= 1.0
    assert signed_rank([(1.0, 1.0)]) == 1.0
