"""Metrics are really filled, and the latency of a node is the latency of its last minute."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

import pytest

from operator_ratelimiter.tally import RecentLatency

if TYPE_CHECKING:
    from tests.services.conftest import NodeProcess, Rig

CHECKED = 'ratelimiter_requests_checked_total{result="%s"}'


def test_every_metric_moves_with_what_happens(rig: Rig) -> None:
    store = rig.store()
    node = rig.node(store, "--default-limit", "2")
    results = ("allowed", "denied", "error")
    assert [node.metric(CHECKED % result) for result in results] == [0, 0, 0]
    assert node.metric("ratelimiter_active_counters") == 0
    assert node.metric("ratelimiter_node_up") == 1

    begun = time.monotonic()
    for _ in range(5):
        node.check("a")
    node.check("b")
    took_s = time.monotonic() - begun
    assert [node.metric(CHECKED % result) for result in results] == [3, 3, 0]
    assert node.metric("ratelimiter_check_duration_seconds_count") == 6
    assert node.metric('ratelimiter_check_duration_seconds_bucket{le="+Inf"}') == 6
    assert 0 < node.metric("ratelimiter_check_duration_seconds_sum") < took_s
    assert node.metric("ratelimiter_active_counters") == 2

    store.kill()
    node.check("a")
    assert [node.metric(CHECKED % result) for result in results] == [3, 3, 1]
    assert node.metric("ratelimiter_node_up") == 0
    assert math.isnan(node.metric("ratelimiter_active_counters"))


@pytest.mark.parametrize(("mode", "answer"), [("fail_open", "allowed"), ("fail_closed", "refused")])
def test_degraded_mode_is_seen_in_metrics_and_health(rig: Rig, mode: str, answer: str) -> None:
    store = rig.store()
    node = rig.node(store, "--on-store-loss", mode)
    node.check("a")
    assert node.metric("ratelimiter_degraded") == 0
    assert node.get("/health")["degraded"] is False
    store.kill()
    for _ in range(3):
        node.check("a")
    assert node.metric("ratelimiter_degraded") == 1
    other = "refused" if answer == "allowed" else "allowed"
    undecided = 'ratelimiter_requests_undecided_total{answer="%s"}'
    assert [node.metric(undecided % name) for name in (answer, other)] == [3, 0]
    health = node.get("/health")
    assert (health["degraded"], health["on_store_loss"]) == (True, mode)


def test_buckets_reach_from_one_millisecond_to_one_second(node: NodeProcess) -> None:
    text = node.http.get("/metrics").text
    assert 'ratelimiter_check_duration_seconds_bucket{le="0.001"}' in text
    assert 'ratelimiter_check_duration_seconds_bucket{le="1.0"}' in text


def test_health_shows_the_p99_once_there_were_checks(rig: Rig) -> None:
    store = rig.store()
    node = rig.node(store, "--store-timeout-s", "0.3")
    assert node.get("/health")["p99_check_ms"] is None
    begun = time.monotonic()
    node.check("a")
    took_ms = (time.monotonic() - begun) * 1000
    assert 0 < node.get("/health")["p99_check_ms"] < took_ms
    store.pause()
    node.check("a")
    assert node.get("/health")["p99_check_ms"] >= 300


class Clock:
    """A clock that moves only when told."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def test_a_quantile_is_at_most_five_percent_too_high() -> None:
    latency = RecentLatency(clock=Clock())
    for duration_ms in range(1, 1001):
        latency.add(duration_ms / 1000)
    assert latency.quantile_s(0.99) == pytest.approx(0.99, rel=0.05)
    assert latency.quantile_s(0.5) == pytest.approx(0.5, rel=0.05)


def test_a_duration_is_forgotten_after_the_span() -> None:
    clock = Clock()
    latency = RecentLatency(span_s=60, clock=clock)
    latency.add(0.5)
    clock.now_s += 30
    latency.add(0.001)
    assert latency.quantile_s(0.99) == pytest.approx(0.5, rel=0.05)
    clock.now_s += 30
    assert latency.quantile_s(0.99) == pytest.approx(0.001, rel=0.05)
    clock.now_s += 30
    assert latency.quantile_s(0.99) is None


def test_what_was_slow_once_is_not_sustained_and_what_stays_slow_is() -> None:
    clock = Clock()
    latency = RecentLatency(clock=clock)
    for second in range(16):
        clock.now_s = 1000.0 + second
        latency.add(0.5 if second in (3, 4, 5) else 0.001)
    assert latency.sustained_s(0.99) == pytest.approx(0.001, rel=0.05)
    for second in range(16, 30):
        clock.now_s = 1000.0 + second
        latency.add(0.5)
    assert latency.sustained_s(0.99) == pytest.approx(0.5, rel=0.05)
    clock.now_s += 4
    latency.add(0.001)
    assert latency.sustained_s(0.99) == pytest.approx(0.001, rel=0.05)


def test_too_few_checks_say_nothing_of_what_is_sustained() -> None:
    latency = RecentLatency(clock=Clock())
    assert latency.sustained_s(0.99) is None
    latency.add(0.5)
    assert latency.sustained_s(0.99) is None


def test_no_duration_at_all_is_unknown_and_a_zero_is_a_number() -> None:
    latency = RecentLatency()
    assert latency.quantile_s(0.99) is None
    latency.add(0.0)
    assert latency.quantile_s(0.99) == pytest.approx(0.00001)
