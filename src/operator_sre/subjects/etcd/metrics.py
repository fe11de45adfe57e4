"""What a member tells of itself in its metrics. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["Metrics", "metrics_from", "quantile_of"]

FSYNC = "etcd_disk_wal_fsync_duration_seconds_bucket"
PEER = "etcd_network_active_peers"
RECEIVED = "etcd_network_peer_received_bytes_total"
WANTED = {
    "etcd_server_quota_backend_bytes": "quota_bytes",
    "etcd_server_proposals_failed_total": "proposals_failed",
    "etcd_server_proposals_pending": "proposals_pending",
    "etcd_debugging_mvcc_compact_revision": "compact_revision",
    "etcd_debugging_mvcc_keys_total": "keys",
}
_LABEL = re.compile(r'(\w+)="([^"]{0,100})"')


@dataclass(frozen=True, slots=True)
class Metrics:
    """Numbers by our own names, peers by their id in hex, fsyncs by the bound of their bucket.

    `peers` says to whom a connection stands, `received` how many bytes came from whom.
    """

    numbers: Mapping[str, int] = field(default_factory=dict)
    peers: Mapping[str, bool] = field(default_factory=dict)
    fsyncs: Mapping[float, float] = field(default_factory=dict)
    received: Mapping[str, int] = field(default_factory=dict)


def metrics_from(text: str) -> Metrics:
    """Read the lines that are wanted; whatever else is there is passed over."""
    numbers: dict[str, int] = {}
    peers: dict[str, bool] = {}
    fsyncs: dict[float, float] = {}
    received: dict[str, int] = {}
    for line in text.splitlines():
        if not line.startswith("etcd_"):
            continue
        left, _, right = line.rpartition(" ")
        value = _number(right)
        if value is None or math.isinf(value):
            continue
        name, _, labels = left.partition("{")
        if name in WANTED:
            numbers[WANTED[name]] = int(value)
        elif name == PEER:
            peers[dict(_LABEL.findall(labels)).get("Remote", "")] = value > 0
        elif name == RECEIVED:
            received[dict(_LABEL.findall(labels)).get("From", "")] = int(value)
        elif name == FSYNC:
            bound = _number(dict(_LABEL.findall(labels)).get("le", ""))
            if bound is not None:
                fsyncs[bound] = value
    return Metrics(numbers, peers, fsyncs, received)


def quantile_of(
    buckets: Mapping[float, float], before: Mapping[float, float], at: float
) -> float | None:
    """The bound below which that share of what came since `before` lies; None when nothing did."""
    bounds = sorted(buckets)
    if not bounds or (before and any(before.get(one, 0.0) > buckets[one] for one in bounds)):
        before = {}  # it was started anew, and counts from 0
    counts = [buckets[bound] - before.get(bound, 0.0) for bound in bounds]
    if not counts or counts[-1] <= 0:
        return None
    finite = [bound for bound in bounds if not math.isinf(bound)]
    for bound, count in zip(bounds, counts, strict=True):
        if count >= at * counts[-1] and not math.isinf(bound):
            return bound
    return finite[-1] if finite else None


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return None if math.isnan(value) else value
