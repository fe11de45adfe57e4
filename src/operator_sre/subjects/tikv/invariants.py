"""What must hold of a TiKV cluster: of its stores, of its PDs, and of all of it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from operator_protocols.domain.health import Severity
from operator_protocols.domain.observation import Seen
from operator_protocols.kit.invariant import (
    WELL,
    Opinion,
    PartInvariant,
    broken,
    number_of,
    unknown,
)
from operator_protocols.ports import Invariant
from operator_sre.subjects.tikv.kinds import CLUSTER, PD, PROMETHEUS, STORE
from operator_sre.subjects.tikv.options import Options
from operator_sre.subjects.tikv.state import UNHEARD

__all__ = ["invariants_of"]

GB, MB = 1 << 30, 1 << 20
GRACE_S_MAX = 3_599.0
NOT_HEARD = unknown("PD cannot be asked about it")
NOT_YET = unknown("PD has not heard of it yet")
NEW_LEADER = unknown("the leader of PD is new and has yet to hear of it")
NOT_LOOKED_AT = unknown("it was not looked at yet")
CRITICAL, WARNING = Severity.CRITICAL, Severity.WARNING

Judge = Callable[[Seen, Options], Opinion | None]
# An invariant, once the thresholds and the patience of its subject are known.
Rule = Callable[[Options], PartInvariant]


def _rule(
    name: str, sentence: str, severity: Severity, grace_s: float, *kinds: str
) -> Callable[[Judge], Rule]:
    """The decorated function judges every part of these kinds."""

    def bind(judge: Judge, options: Options) -> PartInvariant:
        scaled_s = min(GRACE_S_MAX, grace_s * options.grace_ratio)
        return PartInvariant(
            name, sentence, severity, scaled_s, kinds, lambda seen: judge(seen, options)
        )

    return lambda judge: partial(bind, judge)


def invariants_of(options: Options) -> Sequence[Invariant]:
    """All of them, with the thresholds and the patience of one subject."""
    rules = (
        *(_store_down, _store_disconnected, _store_unreachable, _pd_down),
        *(_high_latency, _apply_lag, _peers_unreachable),
        *(_low_disk_space, _log_oversized, _scheduler_left, _target_missing),
        *(_clock_skew, _versions_differ),
        *(_no_leader, _under_replicated, _leaderless_regions, _leader_imbalance),
        *(_operator_stuck, _hot_region, _schedulers_idle, _prometheus_down),
    )
    return tuple(rule(options) for rule in rules)


def _require_serving(seen: Seen) -> Opinion | None:
    """Why there is nothing to say of a store; None for one that PD expects to serve."""
    if "known" not in seen.readings:
        return NOT_HEARD
    if not seen.readings["known"]:
        return unknown("PD knows of no store at its address")
    if seen.readings.get("state") == UNHEARD:
        return NEW_LEADER
    return WELL if seen.readings.get("planned") else None


def _require_answer(seen: Seen) -> Opinion | None:
    """Why its pace is not known; None where it can be."""
    if seen.readings.get("planned"):
        return WELL
    if seen.readings.get("reachable") is False:
        return unknown(str(seen.readings.get("error") or "it does not answer"))
    if seen.readings.get("reachable") is None and seen.readings.get("prometheus_up") is not True:
        return NOT_HEARD if "known" not in seen.readings else unknown("nobody shows its metrics")
    return None


def _require_pace(seen: Seen) -> Opinion | None:
    """Why nothing is known of how long requests take; None where it is."""
    if (opinion := _require_answer(seen)) is not None:
        return opinion
    if "qps" not in seen.readings:
        return unknown("its pace is known after the second look")
    if seen.readings["qps"] is None:
        return unknown("it does not show how long requests take")
    return None


@_rule("store_down", "No store that should serve is gone.", CRITICAL, 0.0, STORE)
def _store_down(seen: Seen, options: Options) -> Opinion:
    if (opinion := _require_serving(seen)) is not None:
        return opinion
    state, age = seen.readings.get("state"), number_of(seen, "heartbeat_age_s")
    if state not in ("Down", "Disconnected"):
        return WELL
    if age is None:
        return NOT_YET
    heard = f"PD heard of it {age:.0f} s ago"
    if state == "Down":
        return broken(f"PD calls it down: {heard}")
    reachable = seen.readings.get("reachable")
    if reachable is None:
        return unknown(f"it is disconnected: {heard}")
    # It lives as long as it answers anybody; that PD does not hear it is told apart.
    return WELL if reachable else broken(f"{heard}, and {seen.readings.get('error')}")


@_rule("store_disconnected", "PD hears every store that should serve.", CRITICAL, 0.0, STORE)
def _store_disconnected(seen: Seen, options: Options) -> Opinion:
    if (opinion := _require_serving(seen)) is not None:
        return opinion
    state, age = seen.readings.get("state"), number_of(seen, "heartbeat_age_s")
    if state not in ("Disconnected", "Down"):
        return WELL
    if age is None:
        return NOT_YET
    answers = ", and yet it answers us" if seen.readings.get("reachable") else ""
    return broken(f"its last heartbeat was {age:.0f} s ago{answers}")


@_rule(
    "store_unreachable",
    "Every store that PD hears answers at its status address.",
    WARNING,
    30.0,
    STORE,
)
def _store_unreachable(seen: Seen, options: Options) -> Opinion | None:
    if (opinion := _require_serving(seen)) is not None:
        return opinion
    if seen.readings.get("state") != "Up":
        return unknown("PD does not hear it either")
    reachable = seen.readings.get("reachable")
    if reachable is None:
        return None  # its metrics come from elsewhere
    return WELL if reachable else broken(f"PD hears it, but {seen.readings.get('error')}")


@_rule("pd_member_down", "Every PD answers.", CRITICAL, 5.0, PD)
def _pd_down(seen: Seen, options: Options) -> Opinion:
    reachable = seen.readings.get("reachable")
    if reachable is None:
        return NOT_LOOKED_AT
    return WELL if reachable else broken(str(seen.readings.get("error") or "it does not answer"))


@_rule("high_latency", "Requests to a store are answered soon.", WARNING, 30.0, STORE)
def _high_latency(seen: Seen, options: Options) -> Opinion:
    if (opinion := _require_pace(seen)) is not None:
        return opinion
    p99 = number_of(seen, "p99_ms")
    if p99 is None or p99 <= options.p99_ms_max:
        return WELL  # where nobody asks, nobody waits
    return broken(f"99 of 100 requests take up to {p99:.0f} ms")


@_rule("apply_lag", "A store applies soon what was agreed on.", WARNING, 60.0, STORE)
def _apply_lag(seen: Seen, options: Options) -> Opinion:
    if (opinion := _require_pace(seen)) is not None:
        return opinion
    wait = number_of(seen, "apply_wait_p99_ms")
    if wait is None or wait <= options.apply_wait_ms_max:
        return WELL
    return broken(f"what was agreed on waits up to {wait:.0f} ms to be applied")


@_rule("peers_unreachable", "Every store reaches all others that are up.", CRITICAL, 30.0, STORE)
def _peers_unreachable(seen: Seen, options: Options) -> Opinion | None:
    if seen.readings.get("prometheus_up") is not None and "reachable" not in seen.readings:
        return None  # only the store itself tells it
    if (opinion := _require_answer(seen)) is not None:
        return opinion
    if "unreachable_peers" not in seen.readings:
        return unknown("whom it reaches is known after the second look")
    lost = seen.readings.get("cut_from")
    return broken(f"it is cut off from {lost}") if lost else WELL


@_rule("low_disk_space", "There is room on every disk.", CRITICAL, 60.0, STORE, PD)
def _low_disk_space(seen: Seen, options: Options) -> Opinion | None:
    full, free_ratio = seen.readings.get("disk_is_full"), number_of(seen, "free_ratio")
    if seen.readings["kind"] == PD and full is None:
        return None  # its disk is not on this machine
    if seen.readings["kind"] == STORE and (opinion := _require_serving(seen)) is not None:
        return opinion
    if full:
        used, left = number_of(seen, "disk_ratio"), number_of(seen, "disk_free_bytes")
        if used is None or left is None:
            used, left = 1 - (free_ratio or 0.0), number_of(seen, "available_bytes")
        return broken(f"it is {used:.0%} full, {(left or 0) / GB:.1f} GiB are left")
    if seen.readings["kind"] == STORE and free_ratio is None:
        return unknown("PD does not know how large its disk is")
    return WELL


@_rule("log_oversized", "No log is huge.", WARNING, 0.0, STORE, PD)
def _log_oversized(seen: Seen, options: Options) -> Opinion | None:
    size = number_of(seen, "log_bytes")
    if size is None:
        return None  # it is not on this machine
    return broken(f"it has {size / MB:.0f} MiB") if seen.readings.get("log_grown") else WELL


@_rule(
    "scheduler_left",
    "Leaders are not driven from a store for longer than it takes to mend it.",
    WARNING,
    1_800.0,
    STORE,
)
def _scheduler_left(seen: Seen, options: Options) -> Opinion:
    if (opinion := _require_serving(seen)) is not None:
        return opinion
    evicting = seen.readings.get("evicting")
    if evicting is None:
        return unknown("PD was not asked yet from which stores leaders are driven")
    if not evicting:
        return WELL
    if seen.readings.get("state") != "Up":
        return unknown("it is not well, so that its leaders may be driven away on purpose")
    return broken("an evict-leader scheduler keeps every leader away from it")


@_rule("prometheus_target_missing", "Prometheus scrapes every store.", WARNING, 120.0, STORE)
def _target_missing(seen: Seen, options: Options) -> Opinion | None:
    if "prometheus_up" not in seen.readings:
        return None  # there is no Prometheus, or it was not asked yet
    if seen.readings.get("planned") or seen.readings["prometheus_up"]:
        return WELL
    return broken(str(seen.readings.get("prometheus_problem")))


@_rule("clock_skew", "All clocks of a cluster agree.", WARNING, 60.0, PD, STORE)
def _clock_skew(seen: Seen, options: Options) -> Opinion | None:
    skew = number_of(seen, "clock_skew_s")
    if skew is None:
        if seen.readings.get("planned") or "prometheus_up" in seen.readings:
            return None
        return unknown("nobody tells what time it is there")
    if abs(skew) <= options.clock_skew_s_max:
        return WELL
    return broken(f"its clock is {abs(skew):.1f} s {'ahead' if skew > 0 else 'behind'}")


@_rule("versions_differ", "All stores, and all PDs, are of one version.", WARNING, 900.0, PD, STORE)
def _versions_differ(seen: Seen, options: Options) -> Opinion:
    if seen.readings.get("planned"):
        return WELL
    differs = seen.readings.get("version_differs")
    if differs is None:
        return unknown("its version is not known yet")
    if not differs:
        return WELL
    most = seen.readings.get("version_most")
    rest = f"and most others of {most}" if most else "and there is no version that most are of"
    return broken(f"it is of version {seen.readings.get('version')}, {rest}")


@_rule("pd_no_leader", "PD has a leader.", CRITICAL, 10.0, CLUSTER)
def _no_leader(seen: Seen, options: Options) -> Opinion:
    if seen.readings.get("has_leader"):
        return WELL
    if not seen.readings.get("pds_up"):
        return unknown("no PD answers")
    up, all_ = seen.readings.get("pds_up"), seen.readings.get("pds")
    return broken(f"{up} of {all_} PDs answer, and none of them knows of a leader")


@_rule("under_replicated", "Every region has all of its copies.", CRITICAL, 600.0, CLUSTER)
def _under_replicated(seen: Seen, options: Options) -> Opinion:
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


@_rule(
    "regions_without_leader", "Every region has a leader that PD hears.", CRITICAL, 60.0, CLUSTER
)
def _leaderless_regions(seen: Seen, options: Options) -> Opinion:
    count = number_of(seen, "regions_without_leader")
    if count is None:
        return unknown("the regions were not counted yet")
    silent = seen.readings.get("stores_silent")
    where = f"; PD does not hear {silent}" if silent else ""
    return broken(f"{count:g} regions have no leader that PD hears{where}") if count else WELL


@_rule("leader_imbalance", "Leaders lie evenly on the stores.", WARNING, 600.0, CLUSTER)
def _leader_imbalance(seen: Seen, options: Options) -> Opinion:
    uneven = seen.readings.get("leaders_uneven")
    if uneven is None:
        return unknown("PD has not told yet who could lead")
    if not uneven:
        return WELL
    most, least = seen.readings.get("leader_most"), seen.readings.get("leader_least")
    return broken(f"{most} and {least} have {seen.readings.get('leaders_told')}")


@_rule("operator_stuck", "What PD has regions do is done soon.", WARNING, 0.0, CLUSTER)
def _operator_stuck(seen: Seen, options: Options) -> Opinion:
    stuck = number_of(seen, "operators_stuck")
    if stuck is None:
        return unknown("PD was not asked yet what it has regions do")
    if not stuck:
        return WELL
    age, oldest = number_of(seen, "operator_oldest_s"), seen.readings.get("operator_oldest")
    region = seen.readings.get("operator_region")
    return broken(f"{stuck:g} take too long; {oldest} of region {region} for {age or 0:.0f} s")


@_rule("hot_region", "No region does most of the work.", WARNING, 300.0, CLUSTER)
def _hot_region(seen: Seen, options: Options) -> Opinion:
    hot = seen.readings.get("hot")
    if hot is None:
        return unknown("PD was not asked yet which regions are hot")
    if not hot:
        return WELL
    ratio, rate = number_of(seen, "hot_ratio") or 0.0, number_of(seen, "hot_bytes") or 0.0
    region, where = seen.readings.get("hot_region"), seen.readings.get("hot_store")
    done = "written" if seen.readings.get("hot_kind") == "write" else "read"
    share = f"{ratio:.0%} of all that is {done}, {rate / MB:.1f} MiB in a second"
    return broken(f"region {region} on {where} takes {share}")


@_rule("schedulers_idle", "PD is let to balance.", WARNING, 600.0, CLUSTER)
def _schedulers_idle(seen: Seen, options: Options) -> Opinion:
    if "schedulers" not in seen.readings:
        return unknown("PD was not asked yet who schedules")
    problems = {
        "is paused": seen.readings.get("balance_paused"),
        "is not there": seen.readings.get("balance_missing"),
        "is left over": seen.readings.get("scheduler_stray"),
    }
    idle = [f"{name} {problem}" for problem, name in problems.items() if name]
    return broken(", ".join(idle)) if idle else WELL


@_rule("prometheus_down", "Prometheus answers.", WARNING, 60.0, PROMETHEUS)
def _prometheus_down(seen: Seen, options: Options) -> Opinion:
    reachable = seen.readings.get("reachable")
    if reachable is None:
        return unknown("it was not asked yet")
    return WELL if reachable else broken(str(seen.readings.get("error")))
