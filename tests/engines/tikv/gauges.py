"""What a store counts, and its metrics page in TiKV's names."""

from __future__ import annotations

import resource
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["Gauges", "Histogram", "page"]

BOUNDS_S = tuple(0.0005 * 2**step for step in range(16))  # 0.5 ms to 16 s


@dataclass(slots=True)
class Histogram:
    """How long things took."""

    _counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS_S) + 1))
    _sum_s: float = 0.0

    def add(self, took_s: float) -> None:
        """One thing more."""
        self._sum_s += took_s
        place = next((n for n, most in enumerate(BOUNDS_S) if took_s <= most), len(BOUNDS_S))
        self._counts[place] += 1

    def lines(self, name: str, labels: str = "") -> list[str]:
        """It as a metric of this name."""
        lines, so_far = [], 0
        comma = "," if labels else ""
        for most, count in zip((*BOUNDS_S, "+Inf"), self._counts, strict=True):
            so_far += count
            lines.append(f'{name}_bucket{{{labels}{comma}le="{most}"}} {so_far}')
        around = f"{{{labels}}}" if labels else ""
        lines.insert(0, f"# TYPE {name} histogram")
        return [*lines, f"{name}_sum{around} {self._sum_s:.6f}", f"{name}_count{around} {so_far}"]


@dataclass(slots=True)
class Gauges:
    """What a store counts since it started: whole writes, and what its own disk took of them."""

    disk: dict[str, Any] = field(default_factory=dict)
    leaders: int = 0
    regions: int = 0
    unreachable: dict[int, int] = field(default_factory=dict)
    writes: Histogram = field(default_factory=Histogram)
    appends: Histogram = field(default_factory=Histogram)


def page(gauges: Gauges, version: str, started: float) -> str:
    """All of it as Prometheus reads it."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    sizes = {name: gauges.disk.get(name, 0) for name in ("capacity", "available", "used")}
    counts = {"region": gauges.regions, "leader": gauges.leaders}
    missed = {
        f'store_id="{sid}",type="unreachable"': count for sid, count in gauges.unreachable.items()
    }
    lines = [
        *_metric("tikv_server_info", "gauge", {f'hash="stand-in",version="{version}"': 1}),
        *_metric("tikv_store_size_bytes", "gauge", _typed(sizes)),
        *_metric("tikv_engine_size_bytes", "gauge", {'db="kv",type="default"': sizes["used"]}),
        *_metric("tikv_raftstore_region_count", "gauge", _typed(counts)),
        *gauges.writes.lines("tikv_grpc_msg_duration_seconds", 'type="raw_put"'),
        *gauges.appends.lines("tikv_raftstore_append_log_duration_seconds"),
        *Histogram().lines("tikv_raftstore_apply_wait_time_duration_secs"),
        *Histogram().lines("tikv_raftstore_log_lag"),
        *_metric("tikv_server_report_failure_msg_total", "counter", missed),
        *_metric("process_cpu_seconds_total", "counter", {"": used.ru_utime + used.ru_stime}),
        *_metric("process_resident_memory_bytes", "gauge", {"": pages * resource.getpagesize()}),
        *_metric("process_start_time_seconds", "gauge", {"": started}),
        *_metric("process_max_fds", "gauge", {"": resource.getrlimit(resource.RLIMIT_NOFILE)[0]}),
    ]
    return "\n".join([*lines, ""])


def _typed(values: Mapping[str, float]) -> dict[str, float]:
    return {f'type="{name}"': value for name, value in values.items()}


def _metric(name: str, kind: str, values: Mapping[str, float]) -> list[str]:
    samples = (f"{name}{{{labels}}}" if labels else name for labels in values)
    told = (f"{sample} {value}" for sample, value in zip(samples, values.values(), strict=True))
    return [f"# TYPE {name} {kind}", *told]
