"""This node's Prometheus metrics, in a registry of its own so that two nodes never mix."""

import math
from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

__all__ = ["CheckResult", "Metrics"]

CheckResult = Literal["allowed", "denied", "error"]

_RESULTS: tuple[CheckResult, ...] = ("allowed", "denied", "error")
_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)


class Metrics:
    """Counts checks as they happen and renders all metrics as text."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        checked = Counter(
            "ratelimiter_requests_checked",
            "Requests checked, by result; error means that the store did not decide.",
            ["result"],
            registry=self._registry,
        )
        # A series that appears only with its first event hides that event from rate().
        self._checked = {result: checked.labels(result) for result in _RESULTS}
        self._duration_s = Histogram(
            "ratelimiter_check_duration_seconds",
            "Time to decide one request, the store included.",
            buckets=_BUCKETS_S,
            registry=self._registry,
        )
        undecided = Counter(
            "ratelimiter_requests_undecided",
            "Requests that the store did not decide, by what their callers were answered.",
            ["answer"],
            registry=self._registry,
        )
        self._undecided = {each: undecided.labels(each) for each in ("allowed", "refused")}
        self._turned_away = Counter(
            "ratelimiter_requests_turned_away",
            "Requests that came while this node was drained.",
            registry=self._registry,
        )
        self._degraded = Gauge(
            "ratelimiter_degraded",
            "1 when this node answers checks without its store, 0 when the store decides.",
            registry=self._registry,
        )
        self._draining = Gauge(
            "ratelimiter_draining",
            "1 while this node is drained and takes no checks.",
            registry=self._registry,
        )
        self._moves = Gauge(
            "ratelimiter_store_moves",
            "How often this node followed the primary to another store.",
            registry=self._registry,
        )
        self._node_up = Gauge(
            "ratelimiter_node_up",
            "1 when this node can reach its store, 0 when it cannot.",
            registry=self._registry,
        )
        self._active_counters = Gauge(
            "ratelimiter_active_counters",
            "Keys with a window in the store, NaN when the store does not say.",
            registry=self._registry,
        )

    def count_check(self, result: CheckResult, duration_s: float) -> None:
        """Count one finished check."""
        self._checked[result].inc()
        self._duration_s.observe(duration_s)

    def count_undecided(self, *, allowed: bool) -> None:
        """Count one check that was answered without the store."""
        self._undecided["allowed" if allowed else "refused"].inc()

    def count_turned_away(self) -> None:
        """Count one check that came while the node was drained."""
        self._turned_away.inc()

    def render(
        self,
        *,
        node_up: bool,
        active_counters: int | None,
        degraded: bool,
        draining: bool,
        moves: int,
    ) -> bytes:
        """The text a Prometheus server reads."""
        self._node_up.set(int(node_up))
        self._active_counters.set(math.nan if active_counters is None else active_counters)
        self._degraded.set(int(degraded))
        self._draining.set(int(draining))
        self._moves.set(moves)
        return generate_latest(self._registry)
