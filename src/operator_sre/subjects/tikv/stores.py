"""What is seen of one store: what PD says of it, and what it says itself. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime

from operator_protocols.domain.observation import Value
from operator_protocols.domain.target import Target
from operator_sre.subjects.tikv.kinds import STORE, address_of, addresses_of, host_of
from operator_sre.subjects.tikv.options import Options
from operator_sre.subjects.tikv.state import SILENT, UNHEARD, Store

__all__ = ["cut_apart", "heard_readings", "judged", "names_of", "places_of"]

HEARD_S_MAX = 20.0  # after so long a silence PD calls a store disconnected
FRESH_S = 3.0


def names_of(stores: Sequence[Store], targets: Sequence[Target]) -> dict[int, str]:
    """The target of each store, by the store's id; one that nobody listed has none.

    Addresses count more than names: inside of a network of containers a host is the name of the
    target. Where several stores had the same address, the one that has not left counts.
    """
    listed = [one for one in targets if one.kind == STORE]
    by_place = {place: one.name for one in listed for place in addresses_of(one)}
    by_host = {one.name.lower(): one.name for one in listed}
    found: dict[int, str] = {}
    taken: set[str] = set()
    for store in sorted(stores, key=lambda one: (one.state == "Tombstone", -one.id)):
        places = [address_of(store.address), address_of(store.status_address)]
        names = [by_place.get(one) for one in places]
        names += [by_host.get(host_of(one)) for one in places]
        name = next((one for one in names if one is not None and one not in taken), None)
        if name is not None:
            found[store.id] = name
            taken.add(name)
    return found


def places_of(target: Target, store: Store) -> list[str]:
    """Where its metrics are: where the user says so, else where PD does."""
    status = address_of(store.status_address)
    own = [one for one in target.endpoints if one != address_of(store.address)]
    return [*own, *([status] if status and status not in own else [])]


def heard_readings(
    store: Store, now: datetime, evicting: frozenset[int] | None
) -> dict[str, Value]:
    """What PD says of it."""
    age_s = None if store.heartbeat is None else (now - store.heartbeat).total_seconds()
    found: dict[str, Value] = {
        "known": True,
        "id": store.id,
        "state": store.state,
        "planned": store.planned,
        "address": store.address,
        "status_address": store.status_address,
        "version": store.version,
        "capacity_bytes": store.capacity_bytes,
        "available_bytes": store.available_bytes,
        "leader_count": store.leader_count,
        "region_count": store.region_count,
        "slow_score": store.slow_score,
        "busy": store.busy,
        "heartbeat_age_s": None if age_s is None else round(max(0.0, age_s), 1),
    }
    if store.capacity_bytes:
        found["free_ratio"] = round(store.available_bytes / store.capacity_bytes, 4)
    if evicting is not None:
        found["evicting"] = store.id in evicting
    return found


def cut_apart(missed: Mapping[int, frozenset[int]]) -> dict[int, frozenset[int]]:
    """Who is cut off, and from whom, by who could not send something to whom.

    Where one store is cut off, all others complain about it: it is the one in most of what is told,
    and the others are well. Of two that only complain about each other, both are.
    """
    pairs = {frozenset((one, other)) for one, others in missed.items() for other in others}
    pairs = {pair for pair in pairs if len(pair) == 2}
    found: dict[int, frozenset[int]] = {}
    while pairs:
        counts = Counter(id_ for pair in pairs for id_ in pair)
        most = max(counts.values())
        for id_ in sorted(one for one, count in counts.items() if count == most):
            found[id_] = frozenset().union(*(pair for pair in pairs if id_ in pair)) - {id_}
        pairs = {pair for pair in pairs if not pair & found.keys()}
    return found


def judged(readings: Mapping[str, Value], options: Options) -> dict[str, Value]:
    """The same as yes or no, for whoever compares causes."""
    found: dict[str, Value] = {}
    heard = _heard(readings)
    if heard is not None:
        found["heard"] = heard
    p99, append = _number(readings, "p99_ms"), _number(readings, "append_log_p99_ms")
    if readings.get("qps") is not None:
        found["late"] = p99 is not None and p99 > options.p99_ms_max
    score = _number(readings, "slow_score")
    if append is not None or score is not None:
        slow = append is not None and append > options.append_log_ms_max
        found["disk_slow"] = slow or (score is not None and score >= options.slow_score_max)
    free, used = _number(readings, "free_ratio"), _number(readings, "disk_ratio")
    if free is not None or used is not None:
        scarce = free is not None and free < options.free_ratio_min
        found["disk_is_full"] = scarce or (used is not None and used > options.disk_ratio_max)
    size = _number(readings, "log_bytes")
    if size is not None:
        found["log_grown"] = size > options.log_bytes_max
    if readings.get("evicting") is not None:
        # Whoever was emptied because its disk is slow has not been forgotten.
        well = readings.get("state") == "Up" and not found.get("disk_slow")
        found["eviction_left"] = bool(readings["evicting"]) and well
    return found


def _heard(readings: Mapping[str, Value]) -> bool | None:
    """Whether PD hears it; None where that cannot be told.

    Who does not answer us may have fallen silent for PD as well, which takes a while to say so.
    """
    state, age_s = readings.get("state"), _number(readings, "heartbeat_age_s")
    if state in (None, UNHEARD):
        return None
    if state in SILENT or (age_s is not None and age_s > HEARD_S_MAX):
        return False
    unsure = readings.get("reachable") is False and age_s is not None and age_s > FRESH_S
    return None if unsure else True


def _number(readings: Mapping[str, Value], name: str) -> float | None:
    value = readings.get(name)
    return None if isinstance(value, bool) or not isinstance(value, int | float) else value
