"""The invariants of a TiKV cluster: of its stores, its PD members and the cluster. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from operator_protocols.domain.health import Severity
from operator_protocols.domain.observation import Seen, Trouble
from operator_protocols.kit.invariant import (
    WELL,
    Opinion,
    PartInvariant,
    broken,
    number_of,
    unknown,
)
from operator_protocols.kit.units import format_bytes, format_duration
from operator_protocols.ports import Invariant
from operator_sre.subjects.tikv.kinds import CLUSTER, PD, PROMETHEUS, STORE
from operator_sre.subjects.tikv.options import Options
from operator_sre.subjects.tikv.state import UNHEARD

__all__ = ["invariants_of"]

GRACE_S_MAX = 3_599.0
NOT_HEARD = unknown("PD does not answer, so the state of the store is unknown")
NOT_YET = unknown("PD has had no heartbeat of it yet")
NEW_LEADER = unknown("the PD leader is new and has had no heartbeat of it yet")
NOT_OBSERVED = unknown("not observed yet")
CRITICAL, WARNING = Severity.CRITICAL, Severity.WARNING

Judge = Callable[[Seen, Options], Opinion | None]
# An invariant, once the thresholds of its subject are known.
Rule = Callable[[Options], PartInvariant]


def _rule(
    name: str,
    sentence: str,
    severity: Severity,
    grace_s: float,
    *kinds: str,
    trouble: Trouble = Trouble.NOTHING,
) -> Callable[[Judge], Rule]:
    """The decorated function checks every target of these kinds."""

    def bind(judge: Judge, options: Options) -> PartInvariant:
        scaled_s = min(GRACE_S_MAX, grace_s * options.grace_ratio)
        return PartInvariant(
            *(name, sentence, severity, scaled_s, kinds, lambda seen: judge(seen, options)),
            trouble=trouble,
        )

    return lambda judge: partial(bind, judge)


def invariants_of(options: Options) -> Sequence[Invariant]:
    """All invariants, with the thresholds and grace ratio of one subject."""
    rules = (
        *(_store_down, _store_disconnected, _store_unreachable, _pd_down),
        *(_not_listed, _ghost_member),
        *(_high_latency, _apply_lag, _peers_unreachable),
        *(_low_disk_space, _log_oversized, _scheduler_left, _target_missing),
        *(_clock_skew, _versions_differ),
        *(_no_leader, _under_replicated, _leaderless_regions, _leader_imbalance),
        *(_operator_stuck, _hot_region, _schedulers_idle, _prometheus_down),
    )
    return tuple(rule(options) for rule in rules)


def _require_serving(seen: Seen) -> Opinion | None:
    """The opinion on a store that PD does not expect to serve, else None."""
    if "known" not in seen.readings:
        return NOT_HEARD
    if not seen.readings["known"]:
        return unknown("PD lists no store at this address")
    if seen.readings.get("state") == UNHEARD:
        return NEW_LEADER
    return WELL if seen.readings.get("planned") else None


def _require_answer(seen: Seen) -> Opinion | None:
    """The opinion on a store whose metrics are unavailable, else None."""
    if seen.readings.get("planned"):
        return WELL
    if seen.readings.get("reachable") is False:
        return unknown(str(seen.readings.get("error") or "does not answer"))
    if seen.readings.get("reachable") is None and seen.readings.get("prometheus_up") is not True:
        return NOT_HEARD if "known" not in seen.readings else unknown("no metrics available")
    return None


def _require_pace(seen: Seen) -> Opinion | None:
    """The opinion on a store whose latency is unknown, else None."""
    if (opinion := _require_answer(seen)) is not None:
        return opinion
    if "qps" not in seen.readings:
        return unknown("rates are known after the second observation")
    if seen.readings["qps"] is None:
        return unknown("the store does not report request latency")
    return None


@_rule("store_down", "Every store that should serve is up.", CRITICAL, 0.0, STORE)
def _store_down(seen: Seen, options: Options) -> Opinion:
    if (opinion := _require_serving(seen)) is not None:
        return opinion
    state, age = seen.readings.get("state"), number_of(seen, "heartbeat_age_s")
    if state not in ("Down", "Disconnected"):
        return WELL
    if age is None:
        return NOT_YET
    heard = f"last heartbeat {format_duration(age)} ago"
    if state == "Down":
        return broken(f"PD reports it as Down: {heard}")
    reachable = seen.readings.get("reachable")
    if reachable is None:
        return unknown(f"disconnected: {heard}")
    # A part is up as long as it answers anyone; that PD does not hear it is a separate violation.
    return WELL if reachable else broken(f"{heard}, and {seen.readings.get('error')}")


@_rule(
    "store_disconnected",
    "PD gets heartbeats from every store that should serve.",
    CRITICAL,
    0.0,
    STORE,
)
def _store_disconnected(seen: Seen, options: Options) -> Opinion:
    if (opinion := _require_serving(seen)) is not None:
        return opinion
    state, age = seen.readings.get("state"), number_of(seen, "heartbeat_age_s")
    if state not in ("Disconnected", "Down"):
        return WELL
    if age is None:
        return NOT_YET
    answers = ", although it answers Operator" if seen.readings.get("reachable") else ""
    return broken(f"last heartbeat {format_duration(age)} ago{answers}")


@_rule(
    "store_unreachable",
    "Every store with heartbeats answers at its status address.",
    WARNING,
    30.0,
    STORE,
    trouble=Trouble.DEPENDENCY,
)
def _store_unreachable(seen: Seen, options: Options) -> Opinion | None:
    if (opinion := _require_serving(seen)) is not None:
        return opinion
    if seen.readings.get("state") != "Up":
        return unknown("PD gets no heartbeats from it either")
    reachable = seen.readings.get("reachable")
    if reachable is None:
        return None  # its metrics come from Prometheus
    return (
        WELL if reachable else broken(f"PD gets its heartbeats, but {seen.readings.get('error')}")
    )


@_rule("pd_member_down", "Every PD member answers.", CRITICAL, 5.0, PD)
def _pd_down(seen: Seen, options: Options) -> Opinion:
    reachable = seen.readings.get("reachable")
    if reachable is None:
        return NOT_OBSERVED
    return WELL if reachable else broken(str(seen.readings.get("error") or "does not answer"))


@_rule("not_listed", "PD lists every store and every PD member.", CRITICAL, 30.0, STORE, PD)
def _not_listed(seen: Seen, options: Options) -> Opinion | None:
    listed = seen.readings.get("listed")
    if listed is None:
        return None  # PD does not answer, or it may be listed with another address
    return WELL if listed else broken("PD does not list it: it was removed, or never joined")


@_rule("ghost_member", "Every listed PD member has started.", WARNING, 60.0, CLUSTER)
def _ghost_member(seen: Seen, options: Options) -> Opinion:
    ghosts = seen.readings.get("ghosts")
    if ghosts is None:
        return unknown("PD does not list its members")
    return broken(f"listed but never started: member {ghosts}") if ghosts else WELL


@_rule(
    "high_latency",
    "The p99 latency of every store is low.",
    WARNING,
    30.0,
    STORE,
    trouble=Trouble.SLOW,
)
def _high_latency(seen: Seen, options: Options) -> Opinion:
    if (opinion := _require_pace(seen)) is not None:
        return opinion
    p99 = number_of(seen, "p99_ms")
    if p99 is None or p99 <= options.p99_ms_max:
        return WELL  # without requests there is no latency
    return broken(f"p99 latency of requests is {p99:.0f} ms")


@_rule("apply_lag", "Every store applies committed entries quickly.", WARNING, 60.0, STORE)
def _apply_lag(seen: Seen, options: Options) -> Opinion:
    if (opinion := _require_pace(seen)) is not None:
        return opinion
    wait = number_of(seen, "apply_wait_p99_ms")
    if wait is None or wait <= options.apply_wait_ms_max:
        return WELL
    return broken(f"committed entries wait {wait:.0f} ms (p99) to be applied")


@_rule(
    "peers_unreachable",
    "Every store reaches all other stores that are up.",
    CRITICAL,
    30.0,
    STORE,
    trouble=Trouble.DEPENDENCY,
)
def _peers_unreachable(seen: Seen, options: Options) -> Opinion | None:
    if seen.readings.get("prometheus_up") is not None and "reachable" not in seen.readings:
        return None  # only the store itself reports it
    if (opinion := _require_answer(seen)) is not None:
        return opinion
    if "unreachable_peers" not in seen.readings:
        return unknown("peers are known after the second observation")
    lost = seen.readings.get("cut_from")
    return broken(f"cut off from {lost}") if lost else WELL


@_rule(
    "low_disk_space",
    "Every disk has free space.",
    CRITICAL,
    60.0,
    STORE,
    PD,
    trouble=Trouble.NO_SPACE,
)
def _low_disk_space(seen: Seen, options: Options) -> Opinion | None:
    full, free_ratio = seen.readings.get("disk_is_full"), number_of(seen, "free_ratio")
    if seen.readings["kind"] == PD and full is None:
        return None  # the disk is not on this machine
    if seen.readings["kind"] == STORE and (opinion := _require_serving(seen)) is not None:
        return opinion
    if full:
        used, left = number_of(seen, "disk_ratio"), number_of(seen, "disk_free_bytes")
        if used is None or left is None:
            used, left = 1 - (free_ratio or 0.0), number_of(seen, "available_bytes")
        return broken(f"disk {used:.0%} full, {format_bytes(left or 0)} free")
    if seen.readings["kind"] == STORE and free_ratio is None:
        return unknown("PD does not report the size of its disk")
    return WELL


@_rule("log_oversized", "No log is too large.", WARNING, 0.0, STORE, PD, trouble=Trouble.LOG)
def _log_oversized(seen: Seen, options: Options) -> Opinion | None:
    size = number_of(seen, "log_bytes")
    if size is None:
        return None  # the log is not on this machine
    grown = seen.readings.get("log_grown")
    return broken(f"log has grown to {format_bytes(size)}") if grown else WELL


@_rule(
    "scheduler_left",
    "No store is left drained of its leaders.",
    WARNING,
    1_800.0,
    STORE,
)
def _scheduler_left(seen: Seen, options: Options) -> Opinion:
    if (opinion := _require_serving(seen)) is not None:
        return opinion
    evicting = seen.readings.get("evicting")
    if evicting is None:
        return unknown("the schedulers of PD were not read yet")
    if not evicting:
        return WELL
    if seen.readings.get("state") != "Up":
        return unknown("the store is not Up, so its leaders may be evicted on purpose")
    return broken("an evict-leader-scheduler keeps all leaders away from it")


@_rule("prometheus_target_missing", "Prometheus scrapes every store.", WARNING, 120.0, STORE)
def _target_missing(seen: Seen, options: Options) -> Opinion | None:
    if "prometheus_up" not in seen.readings:
        return None  # there is no Prometheus, or it was not queried yet
    if seen.readings.get("planned") or seen.readings["prometheus_up"]:
        return WELL
    return broken(str(seen.readings.get("prometheus_problem")))


@_rule("clock_skew", "All clocks of the cluster agree.", WARNING, 60.0, PD, STORE)
def _clock_skew(seen: Seen, options: Options) -> Opinion | None:
    skew = number_of(seen, "clock_skew_s")
    if skew is None:
        if seen.readings.get("planned") or "prometheus_up" in seen.readings:
            return None
        return unknown("the clock of its machine is not reported")
    if abs(skew) <= options.clock_skew_s_max:
        return WELL
    return broken(f"clock {format_duration(abs(skew))} {'ahead' if skew > 0 else 'behind'}")


@_rule(
    "versions_differ",
    "All stores, and all PD members, run the same version.",
    WARNING,
    900.0,
    PD,
    STORE,
    trouble=Trouble.DRIFT,
)
def _versions_differ(seen: Seen, options: Options) -> Opinion:
    if seen.readings.get("planned"):
        return WELL
    differs = seen.readings.get("version_differs")
    if differs is None:
        return unknown("version not known yet")
    if not differs:
        return WELL
    most = seen.readings.get("version_most")
    rest = f"most others run {most}" if most else "no version is the most common"
    return broken(f"runs version {seen.readings.get('version')}, {rest}")


@_rule("pd_no_leader", "PD has a leader.", CRITICAL, 10.0, CLUSTER, trouble=Trouble.QUORUM)
def _no_leader(seen: Seen, options: Options) -> Opinion:
    if seen.readings.get("has_leader"):
        return WELL
    if not seen.readings.get("pds_up"):
        return unknown("no PD member answers")
    up, all_ = seen.readings.get("pds_up"), seen.readings.get("pds")
    return broken(f"{up} of {all_} PD members answer, and none reports a leader")


@_rule("under_replicated", "Every region has all of its replicas.", CRITICAL, 600.0, CLUSTER)
def _under_replicated(seen: Seen, options: Options) -> Opinion:
    missing = number_of(seen, "under_replicated")
    if missing is None:
        return unknown("PD has not reported missing replicas yet")
    if not missing:
        return WELL
    parts = [
        f"{number_of(seen, 'miss_peer') or 0:g} regions miss a replica",
        f"{number_of(seen, 'down_peer') or 0:g} have a replica that is down",
        f"{number_of(seen, 'peers_silent') or 0:g} replicas are on stores without heartbeats",
    ]
    return broken(", ".join(parts))


@_rule(
    "regions_without_leader",
    "Every region has a leader.",
    CRITICAL,
    60.0,
    CLUSTER,
    trouble=Trouble.QUORUM,
)
def _leaderless_regions(seen: Seen, options: Options) -> Opinion:
    count = number_of(seen, "regions_without_leader")
    if count is None:
        return unknown("the regions were not counted yet")
    silent = seen.readings.get("stores_silent")
    where = f"; no heartbeats from {silent}" if silent else ""
    return broken(f"{count:g} regions have no leader{where}") if count else WELL


@_rule(
    "leader_imbalance", "Leaders are evenly distributed over the stores.", WARNING, 600.0, CLUSTER
)
def _leader_imbalance(seen: Seen, options: Options) -> Opinion:
    uneven = seen.readings.get("leaders_uneven")
    if uneven is None:
        return unknown("PD has not reported yet which stores can lead")
    if not uneven:
        return WELL
    most, least = seen.readings.get("leader_most"), seen.readings.get("leader_least")
    return broken(f"{most} and {least} have {seen.readings.get('leaders_told')}")


@_rule("operator_stuck", "PD operators finish in time.", WARNING, 0.0, CLUSTER)
def _operator_stuck(seen: Seen, options: Options) -> Opinion:
    stuck = number_of(seen, "operators_stuck")
    if stuck is None:
        return unknown("the operators of PD were not read yet")
    if not stuck:
        return WELL
    age, oldest = number_of(seen, "operator_oldest_s"), seen.readings.get("operator_oldest")
    region = seen.readings.get("operator_region")
    longest = f"{oldest} of region {region} for {format_duration(age or 0)}"
    return broken(f"{stuck:g} PD operators stuck; {longest}")


@_rule("hot_region", "No region takes most of the traffic.", WARNING, 300.0, CLUSTER)
def _hot_region(seen: Seen, options: Options) -> Opinion:
    hot = seen.readings.get("hot")
    if hot is None:
        return unknown("the hot regions of PD were not read yet")
    if not hot:
        return WELL
    ratio, rate = number_of(seen, "hot_ratio") or 0.0, number_of(seen, "hot_bytes") or 0.0
    region, where = seen.readings.get("hot_region"), seen.readings.get("hot_store")
    traffic = "writes" if seen.readings.get("hot_kind") == "write" else "reads"
    share = f"{ratio:.0%} of all {traffic} ({format_bytes(rate)}/s)"
    return broken(f"region {region} on {where} takes {share}")


@_rule("schedulers_idle", "The balance schedulers of PD are active.", WARNING, 600.0, CLUSTER)
def _schedulers_idle(seen: Seen, options: Options) -> Opinion:
    if "schedulers" not in seen.readings:
        return unknown("the schedulers of PD were not read yet")
    problems = {
        "is paused": seen.readings.get("balance_paused"),
        "is missing": seen.readings.get("balance_missing"),
        "is left over": seen.readings.get("scheduler_stray"),
    }
    idle = [f"{name} {problem}" for problem, name in problems.items() if name]
    return broken(", ".join(idle)) if idle else WELL


@_rule("prometheus_down", "Prometheus answers.", WARNING, 60.0, PROMETHEUS)
def _prometheus_down(seen: Seen, options: Options) -> Opinion:
    reachable = seen.readings.get("reachable")
    if reachable is None:
        return unknown("not observed yet")
    return WELL if reachable else broken(str(seen.readings.get("error")))
