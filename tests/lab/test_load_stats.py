"""When requests of each shape are due, and figures that are true within 5 %."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from operator_lab.load import (
    STATS_FILE,
    Histogram,
    Latency,
    LoadStats,
    Sample,
    due_s,
    read_load,
    write_load,
)
from operator_lab.manifest import LOAD
from operator_protocols.domain.rig import LoadShape


def _per_second(shape: LoadShape, rate_per_s: float, seconds: int) -> list[int]:
    """How many requests are due in each of the first seconds."""
    found: Counter[int] = Counter()
    turn = 0
    while (at := due_s(shape, rate_per_s, turn)) < seconds:
        found[int(at + 1e-9)] += 1
        turn += 1
    return [found[second] for second in range(seconds)]


@pytest.mark.parametrize("shape", LoadShape)
@pytest.mark.parametrize("rate_per_s", [0.3, 7.0, 190.0])
def test_requests_are_due_one_after_the_other(shape: LoadShape, rate_per_s: float) -> None:
    times = [due_s(shape, rate_per_s, turn) for turn in range(5_000)]
    assert times[0] == 0.0
    assert all(first < second for first, second in pairwise(times))


def test_a_steady_load_is_the_same_in_every_second() -> None:
    assert _per_second(LoadShape.STEADY, 50.0, 30) == [50] * 30


def test_a_burst_is_ten_times_as_much_in_one_second_of_ten_and_the_mean_is_kept() -> None:
    found = _per_second(LoadShape.BURST, 190.0, 30)
    assert sum(found) == 30 * 190
    for second, count in enumerate(found):
        assert count == (1000 if second % 10 == 9 else 100)


def test_a_ramp_rises_for_a_minute_and_stays() -> None:
    found = _per_second(LoadShape.RAMP, 60.0, 90)
    assert all(abs(count - second - 0.5) <= 1.0 for second, count in enumerate(found[:60]))
    assert all(abs(count - 60) <= 1 for count in found[60:])


def test_figures_are_true_within_five_percent_whatever_was_counted() -> None:
    rng = random.Random(11)
    times_s = [rng.lognormvariate(-5.0, 1.5) for _ in range(10_000)]
    histogram = Histogram()
    for each in times_s:
        histogram.add(each)
    ordered = sorted(times_s)
    told = histogram.latency()
    for share, value_ms in ((0.50, told.p50_ms), (0.95, told.p95_ms), (0.99, told.p99_ms)):
        exact_ms = ordered[int(len(ordered) * share) - 1] * 1000.0
        assert value_ms is not None
        assert exact_ms * 0.999 <= value_ms <= exact_ms * 1.052


def test_nothing_counted_is_not_fast_and_what_is_too_long_has_a_place() -> None:
    histogram = Histogram()
    assert histogram.latency() == Latency(None, None, None)
    histogram.add(0.0)
    histogram.add(1e9)
    told = histogram.latency()
    assert told.p50_ms == 0.01
    assert told.p99_ms is not None
    assert told.p99_ms >= 60_000.0


def test_a_second_is_counted_into_the_whole_and_begins_anew() -> None:
    second, ever = Histogram(), Histogram()
    for each in (0.001, 0.1):
        second.add(each)
        ever.take(second)
        assert second.latency() == Latency()
    told = ever.latency()
    assert told.p50_ms == pytest.approx(1.0, rel=0.06)
    assert told.p99_ms == pytest.approx(100.0, rel=0.06)


def test_figures_are_read_as_they_were_written(tmp_path: Path) -> None:
    (tmp_path / LOAD).mkdir()
    some = Latency(1.0, 2.0, 3.0)
    samples = (Sample(1.0, 5, 0), Sample(2.0, 4, 1, some))
    stats = LoadStats(2.0, 10, 9, 1, 4.0, samples, "burst", 0.8, 0.9, some, some)
    write_load(tmp_path / LOAD / STATS_FILE, stats)
    assert read_load(tmp_path) == stats
