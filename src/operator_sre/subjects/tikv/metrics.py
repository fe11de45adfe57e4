"""What a store tells of itself in its metrics, and what that means since the last look. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from operator_protocols.domain.observation import Value
from operator_sre.subjects.tikv.exposition import (
    Buckets,
    blocks_of,
    buckets_of,
    quantile_of,
    samples_of,
    since,
)

__all__ = ["GRPC", "NOT_ASKED_OF_USERS", "Pace", "StoreMetrics", "store_metrics_from"]

GRPC = "tikv_grpc_msg_duration_seconds"
APPLY_WAIT = "tikv_raftstore_apply_wait_time_duration_secs"
APPEND_LOG = "tikv_raftstore_append_log_duration_seconds"
LOG_LAG = "tikv_raftstore_log_lag"
UNREACHABLE = "tikv_server_report_failure_msg_total"
SIZE = "tikv_store_size_bytes"
CPU = "process_cpu_seconds_total"
WANTED = (GRPC, APPLY_WAIT, APPEND_LOG, LOG_LAG, UNREACHABLE, SIZE, CPU)
# Collecting garbage takes long and nobody waits; who waits for a lock waits for another user.
NOT_ASKED_OF_USERS = frozenset({b"kv_gc", b"kv_pessimistic_lock", b"kv_unsafe_destroy_range"})
AT = 0.99


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
    """What a store did between two looks. Nothing is known of that before the second one."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[float, StoreMetrics]] = {}

    def readings(self, name: str, now: StoreMetrics, at_s: float) -> dict[str, Value]:
        """Rates and quantiles since the last look at this store."""
        before = self._last.get(name)
        self._last[name] = (at_s, now)
        found: dict[str, Value] = {"store_bytes": now.size_bytes}
        if before is None or at_s <= before[0]:
            return found
        span_s, last = at_s - before[0], before[1]
        asked = since(now.grpc, last.grpc)
        found |= {
            "qps": round(max(asked.values(), default=0.0) / span_s, 1) if now.grpc else None,
            "p99_ms": _ms(asked),
            "apply_wait_p99_ms": _ms(since(now.apply_wait, last.apply_wait)),
            "append_log_p99_ms": _ms(since(now.append_log, last.append_log)),
            "raft_log_lag_p99": _rounded(quantile_of(since(now.log_lag, last.log_lag), AT)),
        }
        if now.cpu_s is not None and last.cpu_s is not None and now.cpu_s >= last.cpu_s:
            found["cpu_cores"] = round((now.cpu_s - last.cpu_s) / span_s, 2)
        return found

    def unreached(self, name: str, now: StoreMetrics) -> frozenset[int] | None:
        """The ids of the stores to which it could not send something since the last look.

        To be asked before `readings`, which forgets what was before.
        """
        before = self._last.get(name)
        if before is None:
            return None
        last = before[1].failures
        return frozenset(id_ for id_, count in now.failures.items() if count > last.get(id_, 0.0))

    def forget(self, name: str) -> None:
        """Whoever did not answer is compared with nothing when it does again."""
        self._last.pop(name, None)


def _ms(buckets: Buckets) -> float | None:
    found = quantile_of(buckets, AT)
    return None if found is None else round(found * 1000, 1)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)
