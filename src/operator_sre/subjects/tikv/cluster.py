"""What is seen of the cluster as a whole, from what PD and its stores say. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from statistics import fmean

from operator_protocols.domain.observation import Value
from operator_sre.subjects.tikv.facts import CHECKS, Facts
from operator_sre.subjects.tikv.options import Options
from operator_sre.subjects.tikv.state import UNHEARD, Store, count_led

__all__ = [
    "balance_readings",
    "cluster_readings",
    "hot_readings",
    "operator_readings",
    "region_readings",
]

BALANCING = ("balance-leader-scheduler", "balance-region-scheduler", "balance-hot-region-scheduler")
STRAYS = ("grant-leader-", "grant-hot-region-", "shuffle-", "scatter-range", "random-merge-")
OPERATORS_TOLD = 160


def cluster_readings(
    stores: Sequence[Store],
    names: Mapping[int, str],
    facts: Facts,
    options: Options,
    now: datetime,
    *,
    settled: bool = True,
    away: frozenset[int] = frozenset(),
) -> dict[str, Value]:
    """All that PD's leader tells of the cluster; `names` are the targets of the stores, by id.

    `settled`: the leader of PD has had the time to hear of every store and region. Who is `away`
    does not answer us, whatever PD still believes.
    """
    # A part that neither the leader of PD nor we hear from is silent.
    stores = [
        replace(store, state="Disconnected")
        if store.state == UNHEARD and store.id in away
        else store
        for store in stores
    ]
    evicting = facts.evicting
    serving = [store for store in stores if not store.planned]
    silent = [store for store in serving if store.silent]
    readings: dict[str, Value] = {
        "stores": len(serving),
        "stores_up": len(serving) - len(silent),
        "stores_silent": _list_names(names, [store.id for store in silent]),
        "evicting": None if evicting is None else _list_names(names, evicting),
        "settled": settled,
    }
    readings |= region_readings(stores, facts, settled=settled)
    readings |= operator_readings(facts, now, options.operator_s_max)
    known = facts.schedulers
    if known is not None:
        paused = [name for name in BALANCING if known.get(name) is False]
        missing = [name for name in BALANCING if name not in known]
        stray = [name for name in sorted(known) if name.startswith(STRAYS)]
        readings |= {
            "schedulers": ", ".join(sorted(known)),
            "balance_paused": next(iter(paused), None),
            "balance_is_paused": bool(paused),
            "balance_missing": next(iter(missing), None),
            "balance_is_missing": bool(missing),
            "scheduler_stray": next(iter(stray), None),
            "scheduler_is_stray": bool(stray),
        }
    if settled:
        without = away | (evicting or frozenset())
        readings |= balance_readings(stores, names, without, options)
    return readings | hot_readings(facts, stores, names, options)


def _list_names(names: Mapping[int, str], ids: Iterable[int]) -> str:
    return ", ".join(sorted(names.get(id_, f"store {id_}") for id_ in ids))


def region_readings(stores: Sequence[Store], facts: Facts, *, settled: bool) -> dict[str, Value]:
    """How many regions lack a leader, and how many copies are missing, down or out of reach."""
    found: dict[str, Value] = {"regions": facts.count, "leaders": count_led(stores)}
    # A silent store leads nothing, whatever PD heard of it last.
    lost = sum(store.leader_count for store in stores if store.silent)
    if lost or (settled and facts.leaderless is not None):
        found["regions_without_leader"] = max(facts.leaderless or 0, lost)
    peers_silent = sum(store.region_count for store in stores if store.silent)
    found["peers_silent"] = peers_silent
    for kind in CHECKS:
        count = facts.checks.get(kind)
        # A new leader has not heard of every region yet.
        unheard = not settled and not count
        found[kind.replace("-", "_")] = None if unheard else count
        if facts.samples.get(kind):
            ids = ", ".join(str(region) for region in facts.samples[kind])
            found[f"{kind.replace('-', '_')}_regions"] = ids
    missing, down = facts.checks.get("miss-peer"), facts.checks.get("down-peer")
    lacking = (missing or 0) + max(down or 0, peers_silent)
    if lacking or (settled and missing is not None and down is not None):
        found["under_replicated"] = lacking
    return found


def operator_readings(facts: Facts, now: datetime, s_max: float) -> dict[str, Value]:
    """How many operators run, and how long the oldest has."""
    if facts.operators is None:
        return {}
    ages = [
        (age, operator) for operator in facts.operators if (age := operator.age_s(now)) is not None
    ]
    stuck = [pair for pair in ages if pair[0] > s_max]
    found: dict[str, Value] = {
        "operators": len(facts.operators),
        "operators_stuck": len(stuck),
        "operator_is_stuck": bool(stuck),
    }
    if ages:
        age, oldest = max(ages, key=lambda pair: pair[0])
        found["operator_oldest_s"] = round(age, 1)
        found["operator_oldest"] = f"{oldest.desc} {{{oldest.brief}}}"[:OPERATORS_TOLD]
        found["operator_region"] = oldest.region
    return found


def balance_readings(
    stores: Sequence[Store], names: Mapping[int, str], without: frozenset[int], options: Options
) -> dict[str, Value]:
    """How evenly the leaders lie on the stores that are to have some; not on those `without`."""
    fit = [
        store
        for store in stores
        if store.state == "Up"
        and store.leads
        and store.leader_weight > 0
        and store.id not in without
    ]
    if not fit:
        return {}
    scores = {store.id: store.leader_count / store.leader_weight for store in fit}
    most, least = (
        max(fit, key=lambda store: scores[store.id]),
        min(fit, key=lambda store: scores[store.id]),
    )
    spread, mean = scores[most.id] - scores[least.id], fmean(scores.values())
    away = max(scores[most.id] - mean, mean - scores[least.id])
    uneven = spread > options.leader_spread_min and away > options.leader_ratio_max * mean
    return {
        "leader_most": names.get(most.id, str(most.id)),
        "leader_least": names.get(least.id, str(least.id)),
        "leader_spread": round(spread, 1),
        "leaders_uneven": uneven,
        "leaders_told": f"{most.leader_count} and {least.leader_count} leaders",
    }


def hot_readings(
    facts: Facts, stores: Sequence[Store], names: Mapping[int, str], options: Options
) -> dict[str, Value]:
    """The hottest region, the store that leads it, and who could lead it instead."""
    if not facts.hot:
        return {}
    hottest = facts.hottest
    if hottest is None:
        return {"hot": False}
    fit = [
        store
        for store in stores
        if store.id in hottest.stores
        and store.id != hottest.store
        and store.state == "Up"
        and store.leads
    ]
    heir = min(fit, key=lambda store: store.leader_count, default=None)
    return {
        "hot": hottest.beyond(ratio_max=options.hot_ratio_max, bytes_min=options.hot_bytes_min),
        "hot_kind": hottest.kind,
        "hot_region": hottest.region,
        "hot_store": names.get(hottest.store, str(hottest.store)),
        "hot_ratio": hottest.ratio,
        "hot_bytes": int(hottest.bytes_per_s),
        "hot_heir": names.get(heir.id) if heir is not None else None,
    }
