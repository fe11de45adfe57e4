"""The region that does more than the others, as PD tells it. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from operator_sre.subjects.tikv.state import whole_from

__all__ = ["Hot", "hottest_from"]

STORES_MAX = 10_000
REGIONS_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Hot:
    """The hottest region of one kind (`write` or `read`), and its share of all hot ones' bytes.

    `ratio` is of what all stores do of that kind, as far as PD tells it; `stores` have a copy.
    """

    kind: str
    region: int
    store: int
    bytes_per_s: float
    ratio: float
    degree: int
    stores: tuple[int, ...] = ()

    def beyond(self, *, ratio_max: float, bytes_min: float) -> bool:
        """It takes more than its share, and more than is worth a word."""
        return self.ratio > ratio_max and self.bytes_per_s > bytes_min


def hottest_from(body: Any, kind: str) -> Hot | None:
    """The hottest region of an answer to `hotspot/regions/KIND`; None where nothing is hot."""
    leaders = body.get("as_leader") if isinstance(body, dict) else None
    if not isinstance(leaders, dict):
        return None
    found = list(_regions(leaders))
    if not found:
        return None
    store, entry = max(found, key=lambda one: _rate(one[1], "flow_bytes"))
    total = sum(_rate(one, "store_bytes") for one in list(leaders.values())[:STORES_MAX])
    listed = sum(_rate(one, "flow_bytes") for _, one in found)
    flow = _rate(entry, "flow_bytes")
    return Hot(
        kind=kind,
        region=whole_from(entry.get("region_id")),
        store=store,
        bytes_per_s=round(flow, 1),
        ratio=round(flow / max(total, listed, flow, 1e-9), 3),
        degree=whole_from(entry.get("hot_degree")),
        stores=_ids(entry.get("stores")),
    )


def _regions(leaders: dict[Any, Any]) -> Iterator[tuple[int, dict[str, Any]]]:
    for id_, told in list(leaders.items())[:STORES_MAX]:
        listed = told.get("statistics") if isinstance(told, dict) else None
        for one in (listed if isinstance(listed, list) else [])[:REGIONS_MAX]:
            if isinstance(one, dict):
                yield int(id_) if str(id_).isdecimal() else 0, one


def _ids(value: Any) -> tuple[int, ...]:
    return tuple(whole_from(one) for one in value[:100]) if isinstance(value, list) else ()


def _rate(entry: Any, name: str) -> float:
    value = entry.get(name) if isinstance(entry, dict) else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return 0.0
    return max(0.0, float(value))
