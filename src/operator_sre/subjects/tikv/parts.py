"""What is seen of each part: of stores, of PDs, and of both compared with the others. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from statistics import median

from operator_protocols.domain.observation import Seen, Value
from operator_protocols.domain.target import Target
from operator_protocols.kit.invariant import number_of
from operator_sre.subjects.tikv.kinds import (
    PD,
    STORE,
    address_of,
    addresses_of,
    host_of,
    target_at,
)
from operator_sre.subjects.tikv.leader import Leadership, PdReport
from operator_sre.subjects.tikv.options import Options
from operator_sre.subjects.tikv.state import SILENT, UNHEARD, Members, Store

__all__ = [
    "compare_parts",
    "find_differing",
    "find_listed",
    "find_needed",
    "flag_readings",
    "measure_skews",
    "metrics_addresses",
    "names_of",
    "pd_readings",
    "pds_readings",
    "store_readings",
    "with_quorum",
]

HEARD_S_MAX = 20.0  # after so long a silence PD calls a store disconnected
FRESH_S = 3.0


def names_of(stores: Sequence[Store], targets: Sequence[Target]) -> dict[int, str]:
    """The target of each store, by the store's id; an unlisted store has none.

    Addresses count more than names: inside of a network of containers a host is the name of the
    target. Where several stores had the same address, the store that has not left counts.
    """
    listed = [target for target in targets if target.kind == STORE]
    by_place = {place: target.name for target in listed for place in addresses_of(target)}
    by_host = {target.name.lower(): target.name for target in listed}
    found: dict[int, str] = {}
    taken: set[str] = set()
    for store in sorted(stores, key=lambda store: (store.state == "Tombstone", -store.id)):
        places = [address_of(store.address), address_of(store.status_address)]
        names = [by_place.get(place) for place in places]
        names += [by_host.get(host_of(place)) for place in places]
        name = next((name for name in names if name is not None and name not in taken), None)
        if name is not None:
            found[store.id] = name
            taken.add(name)
    return found


def metrics_addresses(target: Target, store: Store) -> list[str]:
    """Where its metrics are: where the user says so, else where PD does."""
    status = address_of(store.status_address)
    own = [address for address in target.endpoints if address != address_of(store.address)]
    return [*own, *([status] if status and status not in own else [])]


def store_readings(
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


def flag_readings(readings: Mapping[str, Value], options: Options) -> dict[str, Value]:
    """The same as yes or no, for comparison with causes."""
    seen = Seen("", readings)
    flags: dict[str, Value] = {}
    state, age_s = readings.get("state"), number_of(seen, "heartbeat_age_s")
    # Who does not answer us may have fallen silent for PD as well, which takes a while to say so.
    unsure = readings.get("reachable") is False and age_s is not None and age_s > FRESH_S
    if state in SILENT or (state not in (None, UNHEARD) and (age_s or 0.0) > HEARD_S_MAX):
        flags["heard"] = False
    elif state not in (None, UNHEARD) and not unsure:
        flags["heard"] = True
    p99, append = number_of(seen, "p99_ms"), number_of(seen, "append_log_p99_ms")
    if readings.get("qps") is not None:
        flags["late"] = p99 is not None and p99 > options.p99_ms_max
    score = number_of(seen, "slow_score")
    if append is not None or score is not None:
        slow = append is not None and append > options.append_log_ms_max
        flags["disk_slow"] = slow or (score is not None and score >= options.slow_score_max)
    free, used = number_of(seen, "free_ratio"), number_of(seen, "disk_ratio")
    if free is not None or used is not None:
        scarce = free is not None and free < options.free_ratio_min
        flags["disk_is_full"] = scarce or (used is not None and used > options.disk_ratio_max)
    size = number_of(seen, "log_bytes")
    if size is not None:
        flags["log_grown"] = size > options.log_bytes_max
    if readings.get("evicting") is not None:
        # A store that was drained because its disk is slow is not forgotten.
        well = state == "Up" and not flags.get("disk_slow")
        flags["eviction_left"] = bool(readings["evicting"]) and well
    return flags


def pd_readings(
    part: Target, report: PdReport | None, leader: str, members: Members | None
) -> dict[str, Value]:
    """The report of one PD, and what the others report about it."""
    if report is None or report.answer.unasked:
        return {}
    readings: dict[str, Value] = {"reachable": report.up, "error": report.answer.error}
    if report.answer.strange:
        readings["error"] = f"the answer is not from PD: {report.answer.error}"
    if report.up:
        follows = report.leader.name if report.leader is not None else ""
        readings |= {
            "leads": bool(follows) and part.name == leader,
            "follows": follows,
            "has_leader": bool(follows),
        }
    for member in members.members if members is not None else ():
        if target_at([part], [member.name], member.addresses):
            readings["version"] = member.version
    return readings


def find_listed(
    targets: Sequence[Target], members: Members | None, stores: Sequence[Store] | None
) -> dict[str, bool]:
    """Whether PD lists each of these targets, by name; nothing where that is not certain.

    While PD lists a part that is none of them, that part may be a target at another address.
    """
    found: dict[str, bool] = {}
    pds = [target for target in targets if target.kind == PD]
    started = [member for member in members.members if member.name] if members is not None else []
    listed = [target_at(pds, [member.name], member.addresses) for member in started]
    if started and all(listed):
        found |= {target.name: target.name in listed for target in pds}
    kept = [target for target in targets if target.kind == STORE]
    if stores is not None:
        names = names_of(stores, targets)
        if all(store.id in names or store.state == "Tombstone" for store in stores):
            found |= {target.name: target.name in names.values() for target in kept}
    return found


def pds_readings(seen: Sequence[Seen], leadership: Leadership, leader: str) -> dict[str, Value]:
    """What all PDs are together: how many answer, whether they are enough, who leads."""
    pds = [part for part in seen if part.readings.get("kind") == PD]
    observed = [part for part in pds if "reachable" in part.readings]
    up = [part for part in observed if part.readings["reachable"]]
    readings: dict[str, Value] = {
        "pds": len(pds),
        "pds_up": len(up),
        "pd_leader": leader if leadership.leads else "",
    }
    if up:
        readings["has_leader"] = leadership.leads or any(part.readings["has_leader"] for part in up)
    if observed and len(observed) == len(pds):
        readings["quorum"] = len(up) * 2 > len(pds)
    return readings


def with_quorum(seen: Sequence[Seen], quorum: Value) -> list[Seen]:
    """The same, and of each PD whether enough of them are there."""
    return [
        replace(part, readings={**part.readings, "quorum": quorum})
        if part.readings.get("kind") == PD
        else part
        for part in seen
    ]


def compare_parts(
    seen: Sequence[Seen], offsets: Mapping[str, float], skew_s_max: float
) -> list[Seen]:
    """The same, and of each whether its clock and its version are those of the others."""
    off = measure_skews(offsets)
    versions: dict[str, dict[str, str]] = {PD: {}, STORE: {}}
    for part in seen:
        kind, version = part.readings.get("kind"), part.readings.get("version")
        left = part.readings.get("state") == "Tombstone"
        if isinstance(version, str) and version and kind in versions and not left:
            versions[str(kind)][part.target] = version
    other = {**find_differing(versions[PD]), **find_differing(versions[STORE])}
    found = []
    for part in seen:
        added: dict[str, Value] = {}
        if part.target in off:
            added["clock_skew_s"] = off[part.target]
            added["clock_skewed"] = abs(off[part.target]) > skew_s_max
        if part.readings.get("version"):
            added["version_differs"] = part.target in other
            added["version_most"] = other.get(part.target) or ""
        found.append(replace(part, readings={**part.readings, **added}))
    return found


def find_needed(seen: Sequence[Seen]) -> frozenset[str]:
    """Parts without which the cluster is not what it should be: gone, emptied, or cut off."""
    found = set()
    for part in seen:
        kind, state = part.readings.get("kind"), part.readings.get("state")
        gone = kind in (PD, STORE) and part.readings.get("reachable") is False
        silent = kind == STORE and state in ("Disconnected", "Down")
        if gone or silent or part.readings.get("evicting") or part.readings.get("cut_from_peers"):
            found.add(part.target)
    return frozenset(found)


def measure_skews(offsets: Mapping[str, float]) -> dict[str, float]:
    """How far each clock is from the middle of all of them, ours among them.

    Each offset is how far a clock is ahead of ours; if ours were wrong, all others would agree.
    """
    middle = median([0.0, *offsets.values()])
    return {name: round(offset - middle, 1) for name, offset in offsets.items()}


def find_differing(versions: Mapping[str, str]) -> dict[str, str | None]:
    """For each whose version is not that of most, the one of most; None where there is no most."""
    known = {name: version for name, version in versions.items() if version}
    if not known:
        return {}
    value, count = Counter(known.values()).most_common(1)[0]
    most = value if count * 2 > len(known) else None
    return {name: most for name, version in known.items() if version != most}
