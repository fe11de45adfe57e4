"""What a store shows in its metrics, to us or to a Prometheus, compared with the last check."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from operator_protocols.domain.observation import Value
from operator_protocols.kit.prometheus import (
    Buckets,
    blocks_of,
    buckets_of,
    quantile_of,
    samples_of,
    since,
)
from operator_sre.subjects.tikv.client import Answer
from operator_sre.subjects.tikv.state import Store

__all__ = [
    "GRPC",
    "NOT_ASKED_OF_USERS",
    "Pace",
    "Scraped",
    "StoreHistory",
    "StoreMetrics",
    "find_cut_off",
    "readings_at",
    "scrape_path",
    "scraped_from",
    "store_metrics_from",
]

GRPC = "tikv_grpc_msg_duration_seconds"
APPLY_WAIT = "tikv_raftstore_apply_wait_time_duration_secs"
APPEND_LOG = "tikv_raftstore_append_log_duration_seconds"
LOG_LAG = "tikv_raftstore_log_lag"
UNREACHABLE = "tikv_server_report_failure_msg_total"
SIZE = "tikv_store_size_bytes"
CPU = "process_cpu_seconds_total"
WANTED = (GRPC, APPLY_WAIT, APPEND_LOG, LOG_LAG, UNREACHABLE, SIZE, CPU)
# Garbage collection takes long and no client waits for it; a lock wait depends on another client.
NOT_ASKED_OF_USERS = frozenset({b"kv_gc", b"kv_pessimistic_lock", b"kv_unsafe_destroy_range"})
AT = 0.99
STRANGER = "the answer contains no metrics of a store"


@dataclass(frozen=True, slots=True)
class StoreMetrics:
    """Counters and histograms of one store, all since it was started.

    `failures` says how many messages could not be sent, by the id of the store they were for.
    """

    grpc: Buckets = field(default_factory=dict)
    apply_wait: Buckets = field(default_factory=dict)
    append_log: Buckets = field(default_factory=dict)
    log_lag: Buckets = field(default_factory=dict)
    failures: Mapping[int, float] = field(default_factory=dict)
    cpu_s: float | None = None
    size_bytes: int | None = None

    @property
    def strange(self) -> bool:
        """Nothing of it is what a store shows."""
        return not self.grpc and self.size_bytes is None and self.cpu_s is None


def store_metrics_from(content: bytes) -> StoreMetrics:
    """Read what is wanted; whatever else is there is passed over."""
    blocks = blocks_of(content, WANTED) or dict.fromkeys(WANTED, content)
    shown = {name: blocks.get(name, b"") for name in WANTED}
    failures: dict[int, float] = {}
    for labels, value in samples_of(shown[UNREACHABLE], UNREACHABLE):
        id_ = labels.get("store_id", "")
        if labels.get("type") == "unreachable" and id_.isdecimal():
            failures[int(id_)] = failures.get(int(id_), 0.0) + value
    cpu = [value for _, value in samples_of(shown[CPU], CPU)]
    used = [
        value
        for labels, value in samples_of(shown[SIZE], SIZE)
        if labels.get("type") == "used" and math.isfinite(value)
    ]
    return StoreMetrics(
        grpc=buckets_of(shown[GRPC], GRPC, without=NOT_ASKED_OF_USERS),
        apply_wait=buckets_of(shown[APPLY_WAIT], APPLY_WAIT),
        append_log=buckets_of(shown[APPEND_LOG], APPEND_LOG),
        log_lag=buckets_of(shown[LOG_LAG], LOG_LAG),
        failures=failures,
        cpu_s=cpu[0] if cpu else None,
        size_bytes=int(used[0]) if used else None,
    )


class Pace:
    """What a store did between two checks. Nothing is known of that before the second one."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[float, StoreMetrics]] = {}

    def readings(self, store: str, now: StoreMetrics, at_s: float) -> dict[str, Value]:
        """Rates and quantiles since the last check of this store."""
        before = self._last.get(store)
        self._last[store] = (at_s, now)
        readings: dict[str, Value] = {"store_bytes": now.size_bytes}
        if before is None or at_s <= before[0]:
            return readings
        span_s, last = at_s - before[0], before[1]
        requests = since(now.grpc, last.grpc)
        readings["qps"] = (
            round(max(requests.values(), default=0.0) / span_s, 1) if now.grpc else None
        )
        for name, buckets, factor in (
            ("p99_ms", requests, 1000),
            ("apply_wait_p99_ms", since(now.apply_wait, last.apply_wait), 1000),
            ("append_log_p99_ms", since(now.append_log, last.append_log), 1000),
            ("raft_log_lag_p99", since(now.log_lag, last.log_lag), 1),
        ):
            p99 = quantile_of(buckets, AT)
            readings[name] = None if p99 is None else round(p99 * factor, 1)
        if now.cpu_s is not None and last.cpu_s is not None and now.cpu_s >= last.cpu_s:
            readings["cpu_cores"] = round((now.cpu_s - last.cpu_s) / span_s, 2)
        return readings

    def find_unreached(self, name: str, now: StoreMetrics) -> frozenset[int] | None:
        """The ids of the stores to which it could not send something since the last check.

        To be asked before `readings`, which forgets what was before.
        """
        before = self._last.get(name)
        if before is None:
            return None
        last = before[1].failures
        return frozenset(id_ for id_, count in now.failures.items() if count > last.get(id_, 0.0))

    def forget(self, name: str) -> None:
        """A store that did not answer is compared with nothing when it does again."""
        self._last.pop(name, None)


class StoreHistory:
    """Keeps what every store showed last, because most of it are sums since it was started."""

    def __init__(self) -> None:
        self._pace = Pace()

    def readings(
        self, stores: Mapping[str, Store], shown: Mapping[str, Answer], at_s: float
    ) -> dict[str, dict[str, Value]]:
        """By the name of the target: that it answers, what it did, and whom it does not reach."""
        metrics: dict[str, StoreMetrics] = {}
        for name, answer in shown.items():
            if name in stores and answer.ok:
                shows = store_metrics_from(answer.content)
                if not shows.strange:
                    metrics[name] = shows
        there = {stores[name].id for name in metrics if stores[name].state == "Up"}
        # Which store could not send to which since the last check, among the stores that are up.
        missed = {
            stores[name].id: ids & there
            for name, shows in metrics.items()
            if (ids := self._pace.find_unreached(name, shows)) is not None
        }
        names = {store.id: name for name, store in stores.items()}
        cut = find_cut_off({id_: ids for id_, ids in missed.items() if ids})
        found: dict[str, dict[str, Value]] = {}
        for name in (name for name in shown if name in stores):
            if name not in metrics:
                self._pace.forget(name)
                found[name] = {"reachable": False, "error": shown[name].error or STRANGER}
                continue
            found[name] = {"reachable": True, "error": ""}
            id_ = stores[name].id
            if id_ in missed:
                found[name] |= {
                    "unreachable_peers": _list_names(names, missed[id_]),
                    "cut_from": _list_names(names, cut.get(id_, ())),
                    "cut_from_peers": id_ in cut,
                }
            found[name] |= self._pace.readings(name, metrics[name], at_s)
        return found


def _list_names(names: Mapping[int, str], ids: Iterable[int]) -> str:
    return ", ".join(sorted(names[id_] for id_ in ids if id_ in names))


def find_cut_off(missed: Mapping[int, frozenset[int]]) -> dict[int, frozenset[int]]:
    """Who is cut off, and from whom, by who could not send something to whom.

    Where one store is cut off, all others complain about it: it is the store in most of the
    reports, and the others are healthy. Of two that only complain about each other, both are.
    """
    pairs = {frozenset((sender, other)) for sender, others in missed.items() for other in others}
    pairs = {pair for pair in pairs if len(pair) == 2}
    found: dict[int, frozenset[int]] = {}
    while pairs:
        counts = Counter(id_ for pair in pairs for id_ in pair)
        most = max(counts.values())
        for id_ in sorted(id_ for id_, count in counts.items() if count == most):
            found[id_] = frozenset().union(*(pair for pair in pairs if id_ in pair)) - {id_}
        pairs = {pair for pair in pairs if not pair & found.keys()}
    return found


# What is known by the address that was scraped: numbers by the name of the reading.
Scraped = Mapping[str, Mapping[str, float]]
SERIES_MAX = 100_000
SPAN = "1m"
_MARK = "operator_reading"
_WITHOUT = "|".join(sorted(kind.decode() for kind in NOT_ASKED_OF_USERS))
_OF_USERS = f'{{type!~"{_WITHOUT}"}}'


def _p99(name: str, chosen: str = "", factor: float = 1.0) -> str:
    summed = f"sum by (le, instance) (rate({name}_bucket{chosen}[{SPAN}]))"
    return f"histogram_quantile(0.99, {summed}) * {factor:g}"


QUERIES = {
    "qps": f"sum by (instance) (rate({GRPC}_count{_OF_USERS}[{SPAN}]))",
    "p99_ms": _p99(GRPC, _OF_USERS, 1000),
    "apply_wait_p99_ms": _p99(APPLY_WAIT, factor=1000),
    "append_log_p99_ms": _p99(APPEND_LOG, factor=1000),
    "raft_log_lag_p99": _p99(LOG_LAG),
    "cpu_cores": f"sum by (instance) (rate(process_cpu_seconds_total[{SPAN}]))",
    "store_bytes": 'sum by (instance) (tikv_store_size_bytes{type="used"})',
}


def scrape_path(*, metrics: bool) -> str:
    """Where to ask for all of it at once; without `metrics` only for what is scraped at all."""
    queries = {"up": "max by (instance) (up)", **(QUERIES if metrics else {})}
    marked = (
        f'label_replace({query}, "{_MARK}", "{name}", "", "")' for name, query in queries.items()
    )
    return f"/api/v1/query?query={quote(' or '.join(marked))}"


def scraped_from(body: Any) -> Scraped | None:
    """An answer, by the address that was scraped; None where that is no such answer."""
    data = body.get("data") if isinstance(body, dict) else None
    result = data.get("result") if isinstance(data, dict) else None
    if (
        not isinstance(result, list)
        or not isinstance(body, dict)
        or body.get("status") != "success"
    ):
        return None
    found: dict[str, dict[str, float]] = {}
    for series in result[:SERIES_MAX]:
        try:
            labels, value = series["metric"], float(series["value"][1])
            instance, name = str(labels["instance"]), str(labels[_MARK])
        except (KeyError, IndexError, TypeError, ValueError):
            continue
        if math.isfinite(value):
            found.setdefault(instance, {})[name] = value
    return found


def readings_at(scraped: Scraped | None, address: str) -> dict[str, Value]:
    """What is known of the store with this status address."""
    if scraped is None or not address:
        return {}
    values = scraped.get(address)
    if values is None or "up" not in values:
        return {
            "prometheus_up": False,
            "prometheus_problem": f"Prometheus does not scrape {address}",
        }
    up = values["up"] > 0
    problem = "" if up else f"Prometheus scrapes {address} and gets no answer"
    numbers = {name: round(value, 1) for name, value in values.items() if name != "up"}
    return {"prometheus_up": up, "prometheus_problem": problem, **numbers}
