"""What the leader of PD shows in its metrics: how many regions are unwell, and who schedules.

One request tells what would otherwise take one for each kind of unwell region, and each of those
lists may be as long as there are regions. PD counts anew every ten seconds. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from operator_sre.subjects.tikv.exposition import samples_of

__all__ = ["CHECKS", "Screen", "screen_from"]

# The kinds of unwell regions that matter here, as PD's list of each is called.
CHECKS = ("miss-peer", "down-peer", "pending-peer")


@dataclass(frozen=True, slots=True)
class Screen:
    """Numbers of regions by kind, schedulers and whether they may schedule, and what is hot.

    A kind that PD does not tell of is not there, and a scheduler that is paused may not schedule.
    """

    regions: Mapping[str, int] = field(default_factory=dict)
    schedulers: Mapping[str, bool] = field(default_factory=dict)
    hot: Mapping[str, int] = field(default_factory=dict)

    @property
    def told(self) -> bool:
        """It is what the leader of PD shows; who follows shows the same names, and zeros."""
        return bool(self.schedulers) and all(kind in self.regions for kind in CHECKS)


def screen_from(content: bytes) -> Screen:
    """Read what is wanted of the metrics of a leader."""
    regions: dict[str, int] = {}
    for labels, value in samples_of(content, "pd_regions_status"):
        kind = labels.get("type", "").removesuffix("-region-count")
        if 0 <= value < 2**53:
            regions[kind] = int(value)
    schedulers = {
        labels["kind"]: value > 0
        for labels, value in samples_of(content, "pd_scheduler_status")
        if labels.get("type") == "allow" and "kind" in labels
    }
    hot = {"write": 0, "read": 0}
    for labels, value in samples_of(content, "pd_hotspot_status"):
        for kind in hot:
            if labels.get("type") == f"hot_{kind}_region_as_leader" and 0 <= value < 2**53:
                hot[kind] += int(value)
    return Screen(regions, schedulers, hot)
