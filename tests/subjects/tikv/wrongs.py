"""Everything that can be wrong with a cluster, what breaks then and where, as data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.subjects.tikv.recorded import Recorded

__all__ = ["PROVOKED", "STORE", "Wrong"]


@dataclass
class Wrong:
    """One thing that goes wrong: what it does, what breaks where, and what is said of it."""

    breaks: dict[tuple[str, str], str]
    does: Callable[[Recorded], None]
    heals: Callable[[Recorded], None]
    prometheus: bool = False


def _store(**said: Any) -> Callable[[Recorded], None]:
    def change(cluster: Recorded) -> None:
        for name, value in said.items():
            setattr(cluster.stores[0], name, value)

    return change


def _cluster(**said: Any) -> Callable[[Recorded], None]:
    def change(cluster: Recorded) -> None:
        for name, value in said.items():
            setattr(cluster, name, value)

    return change


def _pd(number: int, **said: Any) -> Callable[[Recorded], None]:
    def change(cluster: Recorded) -> None:
        for name, value in said.items():
            setattr(cluster.pds[number], name, value)

    return change


def _evicts(*ids: int) -> Callable[[Recorded], None]:
    def change(cluster: Recorded) -> None:
        cluster.evicting = list(ids)
        cluster.schedulers.pop("evict-leader-scheduler", None)
        cluster.schedulers |= {"evict-leader-scheduler": True} if ids else {}

    return change


def _balancing(*, allowed: bool) -> Callable[[Recorded], None]:
    def change(cluster: Recorded) -> None:
        cluster.schedulers["balance-leader-scheduler"] = allowed

    return change


def _cut(cluster: Recorded) -> None:
    for store in cluster.stores[1:]:
        store.failures[cluster.stores[0].id] += 5


def _leads(*counts: int) -> Callable[[Recorded], None]:
    def change(cluster: Recorded) -> None:
        for store, count in zip(cluster.stores, counts, strict=True):
            store.leaders = count

    return change


STORE = "store-4"
OPERATOR = (
    "balance-region {mv peer: store [4] to [5]} (kind:region, region:8(5, 3),"
    " createAt:2026-03-04 10:00:00.5 +0000 UTC m=+1.5, startAt:2026-03-04 10:00:01.5 +0000 UTC"
    " m=+2.5, currentStep:0, size:96, steps:[0:{add learner peer 9 on store 5}], timeout:[10m0s])"
)
HOT = {
    "as_leader": {
        "4": {
            "store_bytes": 9e6,
            "statistics": [
                {"region_id": 77, "flow_bytes": 8e6, "hot_degree": 9, "stores": [4, 5, 6]}
            ],
        }
    }
}
GONE = _store(state="Disconnected", silent_s=33.0, up=False, leaders=0)
BACK = _store(state="Up", silent_s=1.0, up=True, leaders=40)
# A silent store leads nothing: others lead what it led, or nobody does.
PROVOKED: dict[str, Wrong] = {
    "a store that is gone": Wrong(
        {
            ("store_down", STORE): "last heartbeat 3",
            ("store_disconnected", STORE): "heartbeat 3",
            ("under_replicated", "cluster"): "120 replicas are on stores without heartbeats",
        },
        lambda cluster: (GONE(cluster), _leads(0, 60, 60)(cluster), None)[-1],
        lambda cluster: (BACK(cluster), _leads(40, 40, 40)(cluster), None)[-1],
    ),
    "a store that PD does not hear and we do": Wrong(
        {
            ("store_disconnected", STORE): "although it answers Operator",
            ("under_replicated", "cluster"): "120 replicas",
            ("regions_without_leader", "cluster"): "40 regions have no leader",
        },
        _store(state="Disconnected", silent_s=33.0),
        _store(state="Up", silent_s=1.0),
    ),
    "a store that was silent for long": Wrong(
        {
            ("store_down", STORE): "PD reports it as Down",
            ("store_disconnected", STORE): "32 min ago",
            ("under_replicated", "cluster"): "120 replicas",
            ("regions_without_leader", "cluster"): f"no heartbeats from {STORE}",
        },
        _store(state="Down", silent_s=1900.0, up=False),
        _store(state="Up", silent_s=1.0, up=True),
    ),
    "a status port that is gone": Wrong(
        {("store_unreachable", STORE): "PD gets its heartbeats, but"},
        _store(up=False),
        _store(up=True),
    ),
    "what is not a store at its status port": Wrong(
        {("store_unreachable", STORE): "contains no metrics of a store"},
        _store(raw=b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"),
        _store(raw=b""),
    ),
    "slow answers": Wrong(
        {("high_latency", STORE): "is 9"}, _store(latency_s=5.0), _store(latency_s=0.005)
    ),
    "slow appliance": Wrong(
        {("apply_lag", STORE): "to be applied"}, _store(apply_s=5.0), _store(apply_s=0.005)
    ),
    "a full disk": Wrong(
        {("low_disk_space", STORE): "95% full"}, _store(available="5GiB"), _store(available="60GiB")
    ),
    "a store that the others do not reach": Wrong(
        {("peers_unreachable", STORE): "cut off from store-5, store-6"}, _cut, lambda _: None
    ),
    "leaders that are kept away": Wrong(
        {("scheduler_left", STORE): "keeps all leaders away"}, _evicts(4), _evicts()
    ),
    "a clock that is ahead": Wrong(
        {("clock_skew", STORE): " s ahead"}, _store(clock_s=9.0), _store(clock_s=0.0)
    ),
    "a PD whose clock is behind": Wrong(
        {("clock_skew", "pd-2"): " s behind"}, _pd(1, clock_s=-9.0), _pd(1, clock_s=0.0)
    ),
    "an older store": Wrong(
        {("versions_differ", STORE): "7.5.0, most others run 8.1.0"},
        _store(version="7.5.0"),
        _store(version="8.1.0"),
    ),
    "an older PD": Wrong(
        {("versions_differ", "pd-2"): "most others run 8.1.0"},
        _pd(1, version="v7.5.0"),
        _pd(1, version="v8.1.0"),
    ),
    "a PD that is gone": Wrong(
        {("pd_member_down", "pd-3"): "127.0.0.1"}, _pd(2, up=False), _pd(2, up=True)
    ),
    "something else in the place of a PD": Wrong(
        {("pd_member_down", "pd-3"): "the answer is not from PD"},
        _pd(2, raw=b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"),
        _pd(2, raw=b""),
    ),
    "copies that are missing": Wrong(
        {("under_replicated", "cluster"): "7 regions miss a replica"},
        _cluster(checks={"miss-peer": 7}),
        _cluster(checks={}),
    ),
    "copies that are down": Wrong(
        {("under_replicated", "cluster"): "3 have a replica that is down"},
        _cluster(checks={"down-peer": 3}),
        _cluster(checks={}),
    ),
    "regions that nobody leads": Wrong(
        {("regions_without_leader", "cluster"): "5 regions"},
        _cluster(count=125),
        _cluster(count=120),
    ),
    "leaders on one store": Wrong(
        {("leader_imbalance", "cluster"): "store-4 and store-5 have 100 and 10 leaders"},
        _leads(100, 10, 10),
        _leads(40, 40, 40),
    ),
    "an operator that does not end": Wrong(
        {("operator_stuck", "cluster"): "balance-region {mv peer: store [4] to [5]} of region 8"},
        _cluster(operators=[OPERATOR]),
        _cluster(operators=[]),
    ),
    "a region that does most of the work": Wrong(
        {("hot_region", "cluster"): "region 77 on store-4 takes 89% of all writes"},
        _cluster(hot=HOT),
        _cluster(hot={}),
    ),
    "balancing that is paused": Wrong(
        {("schedulers_idle", "cluster"): "balance-leader-scheduler is paused"},
        _balancing(allowed=False),
        _balancing(allowed=True),
    ),
    "a store that Prometheus does not scrape": Wrong(
        {("prometheus_target_missing", STORE): "does not scrape 127.0.0.1:"},
        _cluster(scraped=False),
        _cluster(scraped=True),
        prometheus=True,
    ),
}
