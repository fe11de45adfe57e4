"""What a Prometheus knows of the stores, in one question; it knows them by status address."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from operator_protocols.domain.observation import Value
from operator_sre.subjects.tikv.metrics import (
    APPEND_LOG,
    APPLY_WAIT,
    GRPC,
    LOG_LAG,
    NOT_ASKED_OF_USERS,
)

__all__ = ["Scraped", "paths_to", "readings_at", "scraped_from"]

# What is known by the address that was scraped: numbers by the name of the reading.
Scraped = Mapping[str, Mapping[str, float]]
SERIES_MAX = 100_000
SPAN = "1m"
_MARK = "operator_reading"
_WITHOUT = "|".join(sorted(one.decode() for one in NOT_ASKED_OF_USERS))
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


def paths_to(*, metrics: bool) -> str:
    """Where to ask for all of it at once; without `metrics` only for what is scraped at all."""
    asked = {"up": "max by (instance) (up)", **(QUERIES if metrics else {})}
    marked = (
        f'label_replace({query}, "{_MARK}", "{name}", "", "")' for name, query in asked.items()
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
    told = scraped.get(address)
    if told is None or "up" not in told:
        return {"prometheus_up": False, "prometheus_problem": f"it does not scrape {address}"}
    up = told["up"] > 0
    problem = "" if up else f"it scrapes {address} and gets no answer"
    numbers = {name: round(value, 1) for name, value in told.items() if name != "up"}
    return {"prometheus_up": up, "prometheus_problem": problem, **numbers}
