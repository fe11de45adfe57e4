"""What must hold of a TiKV cluster: of its stores and of its PDs. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from operator_protocols.domain.health import Severity
from operator_protocols.domain.observation import Seen
from operator_protocols.ports import Invariant
from operator_sre.subjects.tikv.invariants_cluster import cluster_invariants
from operator_sre.subjects.tikv.judging import (
    WELL,
    Opinion,
    PartInvariant,
    broken,
    number_of,
    unknown,
)
from operator_sre.subjects.tikv.kinds import PD, STORE
from operator_sre.subjects.tikv.options import Options
from operator_sre.subjects.tikv.state import UNHEARD

__all__ = ["invariants_of"]

GB, MB = 1 << 30, 1 << 20
GRACE_S_MAX = 3_599.0
NOT_HEARD = unknown("PD cannot be asked about it")
NOT_YET = unknown("PD has not heard of it yet")
NEW_LEADER = unknown("the leader of PD is new and has yet to hear of it")
NOT_LOOKED_AT = unknown("it was not looked at yet")


def invariants_of(options: Options) -> Sequence[Invariant]:
    """All of them, with the thresholds and the patience of one subject."""
    found = (
        *_presence(),
        *_doing(options),
        *_keeping(),
        *_alike(options),
        *cluster_invariants(),
    )
    return tuple(
        replace(one, grace_s=min(GRACE_S_MAX, one.grace_s * options.grace_ratio)) for one in found
    )


def _presence() -> Sequence[PartInvariant]:
    return (
        PartInvariant(
            name="store_down",
            sentence="No store that should serve is gone.",
            severity=Severity.CRITICAL,
            grace_s=0.0,
            kinds=(STORE,),
            judge=_down,
        ),
        PartInvariant(
            name="store_disconnected",
            sentence="PD hears every store that should serve.",
            severity=Severity.CRITICAL,
            grace_s=0.0,
            kinds=(STORE,),
            judge=_disconnected,
        ),
        PartInvariant(
            name="store_unreachable",
            sentence="Every store that PD hears answers at its status address.",
            severity=Severity.WARNING,
            grace_s=30.0,
            kinds=(STORE,),
            judge=_unreachable,
        ),
        PartInvariant(
            name="pd_member_down",
            sentence="Every PD answers.",
            severity=Severity.CRITICAL,
            grace_s=5.0,
            kinds=(PD,),
            judge=_pd_down,
        ),
    )


def _doing(options: Options) -> Sequence[PartInvariant]:
    return (
        PartInvariant(
            name="high_latency",
            sentence="Requests to a store are answered soon.",
            severity=Severity.WARNING,
            grace_s=30.0,
            kinds=(STORE,),
            judge=lambda seen: _latency(seen, options),
        ),
        PartInvariant(
            name="apply_lag",
            sentence="A store applies soon what was agreed on.",
            severity=Severity.WARNING,
            grace_s=60.0,
            kinds=(STORE,),
            judge=lambda seen: _applying(seen, options),
        ),
        PartInvariant(
            name="peers_unreachable",
            sentence="Every store reaches all others that are up.",
            severity=Severity.CRITICAL,
            grace_s=30.0,
            kinds=(STORE,),
            judge=_peers,
        ),
    )


def _keeping() -> Sequence[PartInvariant]:
    return (
        PartInvariant(
            name="low_disk_space",
            sentence="There is room on every disk.",
            severity=Severity.CRITICAL,
            grace_s=60.0,
            kinds=(STORE, PD),
            judge=lambda seen: _pd_space(seen) if seen.readings["kind"] == PD else _space(seen),
        ),
        PartInvariant(
            name="log_oversized",
            sentence="No log is huge.",
            severity=Severity.WARNING,
            grace_s=0.0,
            kinds=(STORE, PD),
            judge=_log,
        ),
        PartInvariant(
            name="scheduler_left",
            sentence="Leaders are not driven from a store for longer than it takes to mend it.",
            severity=Severity.WARNING,
            grace_s=1_800.0,
            kinds=(STORE,),
            judge=_evicting,
        ),
        PartInvariant(
            name="prometheus_target_missing",
            sentence="Prometheus scrapes every store.",
            severity=Severity.WARNING,
            grace_s=120.0,
            kinds=(STORE,),
            judge=_scraped,
        ),
    )


def _alike(options: Options) -> Sequence[PartInvariant]:
    return (
        PartInvariant(
            name="clock_skew",
            sentence="All clocks of a cluster agree.",
            severity=Severity.WARNING,
            grace_s=60.0,
            kinds=(PD, STORE),
            judge=lambda seen: _clock(seen, options),
        ),
        PartInvariant(
            name="versions_differ",
            sentence="All stores, and all PDs, are of one version.",
            severity=Severity.WARNING,
            grace_s=900.0,
            kinds=(PD, STORE),
            judge=_version,
        ),
    )


def _serving(seen: Seen) -> Opinion | None:
    """Why there is nothing to say of a store; None for one that PD expects to serve."""
    if "known" not in seen.readings:
        return NOT_HEARD
    if not seen.readings["known"]:
        return unknown("PD knows of no store at its address")
    if seen.readings.get("state") == UNHEARD:
        return NEW_LEADER
    return WELL if seen.readings.get("planned") else None


def _down(seen: Seen) -> Opinion:
    if (opinion := _serving(seen)) is not None:
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


def _disconnected(seen: Seen) -> Opinion:
    if (opinion := _serving(seen)) is not None:
        return opinion
    state, age = seen.readings.get("state"), number_of(seen, "heartbeat_age_s")
    if state not in ("Disconnected", "Down"):
        return WELL
    if age is None:
        return NOT_YET
    answers = ", and yet it answers us" if seen.readings.get("reachable") else ""
    return broken(f"its last heartbeat was {age:.0f} s ago{answers}")


def _unreachable(seen: Seen) -> Opinion | None:
    if (opinion := _serving(seen)) is not None:
        return opinion
    if seen.readings.get("state") != "Up":
        return unknown("PD does not hear it either")
    reachable = seen.readings.get("reachable")
    if reachable is None:
        return None  # its metrics come from elsewhere
    return WELL if reachable else broken(f"PD hears it, but {seen.readings.get('error')}")


def _pd_down(seen: Seen) -> Opinion:
    reachable = seen.readings.get("reachable")
    if reachable is None:
        return NOT_LOOKED_AT
    return WELL if reachable else broken(str(seen.readings.get("error") or "it does not answer"))


def _latency(seen: Seen, options: Options) -> Opinion:
    if (opinion := _answering(seen)) is not None:
        return opinion
    if (opinion := _paced(seen)) is not None:
        return opinion
    p99 = number_of(seen, "p99_ms")
    if p99 is None or p99 <= options.p99_ms_max:
        return WELL  # where nobody asks, nobody waits
    return broken(f"99 of 100 requests take up to {p99:.0f} ms")


def _paced(seen: Seen) -> Opinion | None:
    """Why nothing is known of how long requests take; None where it is."""
    if "qps" not in seen.readings:
        return unknown("its pace is known after the second look")
    if seen.readings["qps"] is None:
        return unknown("it does not show how long requests take")
    return None


def _applying(seen: Seen, options: Options) -> Opinion:
    if (opinion := _answering(seen)) is not None:
        return opinion
    if (opinion := _paced(seen)) is not None:
        return opinion
    wait = number_of(seen, "apply_wait_p99_ms")
    if wait is None or wait <= options.apply_wait_ms_max:
        return WELL
    return broken(f"what was agreed on waits up to {wait:.0f} ms to be applied")


def _peers(seen: Seen) -> Opinion | None:
    if seen.readings.get("prometheus_up") is not None and "reachable" not in seen.readings:
        return None  # only the store itself tells it
    if (opinion := _answering(seen)) is not None:
        return opinion
    if "unreachable_peers" not in seen.readings:
        return unknown("whom it reaches is known after the second look")
    lost = seen.readings.get("cut_from")
    return broken(f"it is cut off from {lost}") if lost else WELL


def _answering(seen: Seen) -> Opinion | None:
    """Why its pace is not known; None where it can be."""
    if seen.readings.get("planned"):
        return WELL
    if seen.readings.get("reachable") is False:
        return unknown(str(seen.readings.get("error") or "it does not answer"))
    if seen.readings.get("reachable") is None and seen.readings.get("prometheus_up") is not True:
        return NOT_HEARD if "known" not in seen.readings else unknown("nobody shows its metrics")
    return None


def _space(seen: Seen) -> Opinion:
    if (opinion := _serving(seen)) is not None:
        return opinion
    if seen.readings.get("disk_is_full"):
        return broken(_room(seen))
    if number_of(seen, "free_ratio") is None:
        return unknown("PD does not know how large its disk is")
    return WELL


def _pd_space(seen: Seen) -> Opinion | None:
    full = seen.readings.get("disk_is_full")
    if full is None:
        return None  # its disk is not on this machine
    return broken(_room(seen)) if full else WELL


def _room(seen: Seen) -> str:
    used, left = number_of(seen, "disk_ratio"), number_of(seen, "disk_free_bytes")
    if used is None or left is None:
        used, left = 1 - (number_of(seen, "free_ratio") or 0.0), number_of(seen, "available_bytes")
    return f"it is {used:.0%} full, {(left or 0) / GB:.1f} GiB are left"


def _log(seen: Seen) -> Opinion | None:
    size = number_of(seen, "log_bytes")
    if size is None:
        return None  # it is not on this machine
    return broken(f"it has {size / MB:.0f} MiB") if seen.readings.get("log_grown") else WELL


def _evicting(seen: Seen) -> Opinion:
    if (opinion := _serving(seen)) is not None:
        return opinion
    evicting = seen.readings.get("evicting")
    if evicting is None:
        return unknown("PD was not asked yet from which stores leaders are driven")
    if not evicting:
        return WELL
    if seen.readings.get("state") != "Up":
        return unknown("it is not well, so that its leaders may be driven away on purpose")
    return broken("an evict-leader scheduler keeps every leader away from it")


def _scraped(seen: Seen) -> Opinion | None:
    if "prometheus_up" not in seen.readings:
        return None  # there is no Prometheus, or it was not asked yet
    if seen.readings.get("planned"):
        return WELL
    if seen.readings["prometheus_up"]:
        return WELL
    return broken(str(seen.readings.get("prometheus_problem")))


def _clock(seen: Seen, options: Options) -> Opinion | None:
    skew = number_of(seen, "clock_skew_s")
    if skew is None:
        if seen.readings.get("planned") or "prometheus_up" in seen.readings:
            return None
        return unknown("nobody tells what time it is there")
    if abs(skew) <= options.clock_skew_s_max:
        return WELL
    return broken(f"its clock is {abs(skew):.1f} s {'ahead' if skew > 0 else 'behind'}")


def _version(seen: Seen) -> Opinion:
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
