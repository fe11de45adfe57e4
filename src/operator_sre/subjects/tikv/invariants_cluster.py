"""What must hold of the cluster as a whole. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from operator_protocols.domain.health import Severity
from operator_protocols.domain.observation import Seen
from operator_sre.subjects.tikv.judging import (
    WELL,
    Opinion,
    PartInvariant,
    broken,
    number_of,
    unknown,
)
from operator_sre.subjects.tikv.kinds import CLUSTER, PROMETHEUS

__all__ = ["cluster_invariants"]

MB = 1 << 20


def cluster_invariants() -> Sequence[PartInvariant]:
    """All of them, before their graces are scaled."""
    critical, warning = Severity.CRITICAL, Severity.WARNING
    of = (CLUSTER,)
    return (
        PartInvariant("pd_no_leader", "PD has a leader.", critical, 10.0, of, _leader),
        PartInvariant(
            "under_replicated",
            "Every region has all of its copies.",
            critical,
            600.0,
            of,
            _replicated,
        ),
        PartInvariant(
            "regions_without_leader",
            "Every region has a leader that PD hears.",
            critical,
            60.0,
            of,
            _led,
        ),
        PartInvariant(
            "leader_imbalance",
            "Leaders lie evenly on the stores.",
            warning,
            600.0,
            of,
            _even,
        ),
        PartInvariant(
            "operator_stuck",
            "What PD has regions do is done soon.",
            warning,
            0.0,
            of,
            _operators,
        ),
        PartInvariant(
            "hot_region",
            "No region does most of the work.",
            warning,
            300.0,
            of,
            _hot,
        ),
        PartInvariant(
            "schedulers_idle",
            "PD is let to balance.",
            warning,
            600.0,
            of,
            _balancing,
        ),
        PartInvariant(
            "prometheus_down", "Prometheus answers.", warning, 60.0, (PROMETHEUS,), _prometheus
        ),
    )


def _leader(seen: Seen) -> Opinion:
    if seen.readings.get("has_leader"):
        return WELL
    if not seen.readings.get("pds_up"):
        return unknown("no PD answers")
    up, all_ = seen.readings.get("pds_up"), seen.readings.get("pds")
    return broken(f"{up} of {all_} PDs answer, and none of them knows of a leader")


def _replicated(seen: Seen) -> Opinion:
    missing = number_of(seen, "under_replicated")
    if missing is None:
        return unknown("PD has not told yet how many copies are missing")
    if not missing:
        return WELL
    parts = [
        f"{number_of(seen, 'miss_peer') or 0:g} miss a copy",
        f"{number_of(seen, 'down_peer') or 0:g} have one that is down",
        f"{number_of(seen, 'peers_silent') or 0:g} copies are on stores that PD does not hear",
    ]
    return broken(f"of the regions {', '.join(parts)}")


def _led(seen: Seen) -> Opinion:
    count = number_of(seen, "regions_without_leader")
    if count is None:
        return unknown("the regions were not counted yet")
    silent = seen.readings.get("stores_silent")
    where = f"; PD does not hear {silent}" if silent else ""
    return broken(f"{count:g} regions have no leader that PD hears{where}") if count else WELL


def _even(seen: Seen) -> Opinion:
    uneven = seen.readings.get("leaders_uneven")
    if uneven is None:
        return unknown("PD has not told yet who could lead")
    if not uneven:
        return WELL
    most, least = seen.readings.get("leader_most"), seen.readings.get("leader_least")
    return broken(f"{most} and {least} have {seen.readings.get('leaders_told')}")


def _operators(seen: Seen) -> Opinion:
    stuck = number_of(seen, "operators_stuck")
    if stuck is None:
        return unknown("PD was not asked yet what it has regions do")
    if not stuck:
        return WELL
    age, oldest = number_of(seen, "operator_oldest_s"), seen.readings.get("operator_oldest")
    region = seen.readings.get("operator_region")
    return broken(f"{stuck:g} take too long; {oldest} of region {region} for {age or 0:.0f} s")


def _hot(seen: Seen) -> Opinion:
    hot = seen.readings.get("hot")
    if hot is None:
        return unknown("PD was not asked yet which regions are hot")
    if not hot:
        return WELL
    ratio, rate = number_of(seen, "hot_ratio") or 0.0, number_of(seen, "hot_bytes") or 0.0
    region, where = seen.readings.get("hot_region"), seen.readings.get("hot_store")
    what = "written" if seen.readings.get("hot_kind") == "write" else "read"
    share = f"{ratio:.0%} of all that is {what}, {rate / MB:.1f} MiB in a second"
    return broken(f"region {region} on {where} takes {share}")


def _balancing(seen: Seen) -> Opinion:
    if "schedulers" not in seen.readings:
        return unknown("PD was not asked yet who schedules")
    told = {
        "is paused": seen.readings.get("balance_paused"),
        "is not there": seen.readings.get("balance_missing"),
        "is left over": seen.readings.get("scheduler_stray"),
    }
    found = [f"{name} {what}" for what, name in told.items() if name]
    return broken(", ".join(found)) if found else WELL


def _prometheus(seen: Seen) -> Opinion:
    reachable = seen.readings.get("reachable")
    if reachable is None:
        return unknown("it was not asked yet")
    return WELL if reachable else broken(str(seen.readings.get("error")))
