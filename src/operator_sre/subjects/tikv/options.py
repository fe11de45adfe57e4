"""What a user may set for a TiKV cluster, each with a sane value of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from operator_protocols.kit.options import read_options

__all__ = ["METRICS_FROM", "Options", "options_from"]

METRICS_FROM = ("stores", "prometheus")
RESTARTS = ("", "docker", "systemd", "tiup")


@dataclass(frozen=True, slots=True)
class Options:
    """Thresholds and habits of one subject.

    Every grace is multiplied by `grace_ratio`. `discover`: parts that PD knows of and the
    configuration does not list are observed too. `settle_s`: so long after a change of PD's leader,
    that it counts no unwell regions says nothing, because it has yet to hear of them. Leaders are
    uneven when stores differ by more than `leader_spread_min` of them and one is further than
    `leader_ratio_max` from the mean. A region is hot when it takes more than `hot_ratio_max` of all
    bytes of its kind and more than `hot_bytes_min` in a second. `disk_ratio_max` and
    `log_bytes_max` are about what lies on this machine.
    """

    grace_ratio: float = 1.0
    discover: bool = True
    metrics_from: str = "stores"
    settle_s: float = 60.0
    p99_ms_max: float = 500.0
    append_log_ms_max: float = 500.0
    apply_wait_ms_max: float = 1_000.0
    slow_score_max: int = 80
    free_ratio_min: float = 0.2
    operator_s_max: float = 600.0
    leader_ratio_max: float = 0.5
    leader_spread_min: int = 10
    hot_ratio_max: float = 0.5
    hot_bytes_min: int = 1 << 20
    clock_skew_s_max: float = 3.0
    disk_ratio_max: float = 0.9
    log_bytes_max: int = 256 << 20
    restart_by: str = ""
    tiup_cluster: str = ""
    store_unit: str = "tikv-{port}"
    pd_unit: str = "pd-{port}"
    tikv_ctl: str = "tikv-ctl"


_CHOICES: Mapping[str, tuple[str, ...]] = {"metrics_from": METRICS_FROM, "restart_by": RESTARTS}


def options_from(given: Mapping[str, Any]) -> Options:
    """The options of a subject; ConfigError for a name or a value that does not fit."""
    return read_options(Options, given, subject="a tikv subject", choices=_CHOICES)
