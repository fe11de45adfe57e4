"""What the leader of PD knows of stores and regions, and PD's own rules about them."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from tests.engines.tikv.unified import byte_size, seconds

__all__ = ["DISCONNECTED", "DOWN", "Cluster", "defaults", "rfc3339"]

UP, OFFLINE, TOMBSTONE = 0, 1, 2
STATES = ("Up", "Offline", "Tombstone")
SERVING, REMOVING, REMOVED = 1, 2, 3
DISCONNECTED, DOWN = "Disconnected", "Down"
VERSION = "8.1.0-stand-in"
PERSISTED_S = 300.0
FIRST_REGION, REGIONS = 1001, 90
SIZE_MB, HUGE_MB = 96, 60_000

Region = dict[str, Any]


def defaults() -> dict[str, Any]:
    """The document of a new cluster."""
    balancing = ("balance-hot-region", "balance-leader", "balance-region", "evict-slow-store")
    return {
        "cluster_id": time.time_ns() // 1000,
        "bootstrapped": "",
        "next_id": FIRST_REGION + REGIONS,
        "next_store": 3,
        "stores": {},
        "schedule": _schedule(),
        "replication": {
            "max-replicas": 3,
            "location-labels": "",
            "strictly-match-label": "false",
            "enable-placement-rules": "true",
            "enable-placement-rules-cache": "false",
            "isolation-level": "",
        },
        "schedulers": {f"{name}-scheduler": 0.0 for name in balancing},
        "evicted": [],
        "cluster_version": VERSION,
    }


def _schedule() -> dict[str, Any]:
    return {
        "max-snapshot-count": 64,
        "max-pending-peer-count": 64,
        "max-merge-region-size": 20,
        "max-merge-region-keys": 200000,
        "patrol-region-interval": "10ms",
        "max-store-down-time": "30m0s",
        "leader-schedule-limit": 4,
        "leader-schedule-policy": "count",
        "region-schedule-limit": 2048,
        "replica-schedule-limit": 64,
        "merge-schedule-limit": 8,
        "hot-region-schedule-limit": 4,
        "tolerant-size-ratio": 0,
        "low-space-ratio": 0.8,
        "high-space-ratio": 0.7,
        "enable-remove-down-replica": "true",
        "enable-replace-offline-replica": "true",
        "enable-make-up-replica": "true",
        "enable-remove-extra-replica": "true",
        "enable-joint-consensus": "true",
    }


def rfc3339(at: float) -> str:
    """A moment as Go writes it in JSON."""
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at))
    return f"{whole}.{int(at % 1 * 1e9):09d}Z"


class Cluster:
    """Stores by id and regions by id; `document` is what the members keep together."""

    def __init__(self, *, disconnected_s: float) -> None:
        self.disconnected_s = disconnected_s
        self.document: dict[str, Any] = {}
        self.beats: dict[str, dict[str, Any]] = {}
        self.regions: dict[int, Region] = {}

    def take(self, document: dict[str, Any], hearsay: dict[str, Any]) -> None:
        """Go on with what the leader before knew.

        PD writes down only now and then when it heard of a store, and not what. So a new leader
        takes all of them for silent, and knows no size of their disks, until the next word of each.
        """
        self.document = document
        self.beats = {
            sid: {"at": beat["at"] - PERSISTED_S, "start": beat.get("start", 0.0)}
            for sid, beat in hearsay.get("beats", {}).items()
        }
        self.regions = {int(rid): region for rid, region in hearsay.get("regions", {}).items()}

    @property
    def hearsay(self) -> dict[str, Any]:
        """What the other members should know too, to go on with it."""
        return {"beats": self.beats, "regions": self.regions}

    def new_id(self) -> int:
        """A number that nothing else has."""
        self.document["next_id"] += 1
        return int(self.document["next_id"])

    @property
    def stores(self) -> dict[str, dict[str, Any]]:
        """What is kept of every store, by its id."""
        found: dict[str, dict[str, Any]] = self.document.get("stores", {})
        return found

    def silent_s(self, sid: str) -> float:
        """How long nobody heard of a store."""
        return time.time() - float(self.beats.get(sid, {}).get("at", 0.0))

    def state_name(self, sid: str) -> str:
        """Up, Disconnected, Down, Offline or Tombstone, as PD has it."""
        state = self.stores[sid].get("state", UP)
        if state != UP:
            return STATES[state]
        silent_s = self.silent_s(sid)
        if silent_s > seconds(self.document["schedule"]["max-store-down-time"]):
            return DOWN
        return DISCONNECTED if silent_s > self.disconnected_s else "Up"

    def healthy(self) -> list[int]:
        """Stores that are Up and heard of."""
        return [int(sid) for sid in self.stores if self.state_name(sid) == "Up"]

    def roomy(self, sid: int) -> bool:
        """Whether a store has room for more."""
        beat = self.beats.get(str(sid), {})
        low = float(self.document["schedule"]["low-space-ratio"])
        capacity = beat.get("capacity", 0)
        return bool(capacity) and beat["available"] > capacity * (1 - low)

    def led_by(self, sid: int) -> list[Region]:
        """The regions that a store leads, by the last that was said of them."""
        return [one for one in self.regions.values() if one["leader"] == sid]

    def held_by(self, sid: int) -> list[Region]:
        """The regions that a store has a peer of."""
        return [one for one in self.regions.values() if sid in stores_of(one)]

    def put(self, meta: dict[str, Any]) -> tuple[int, list[Region]]:
        """Enter a store; whoever comes first gets all regions to begin with."""
        for sid, known in self.stores.items():
            if known["address"] == meta["address"] and known.get("state", UP) != TOMBSTONE:
                known.update(meta)
                return int(sid), []
        new = self.document["next_store"] = self.document["next_store"] + 1
        self.stores[str(new)] = {"id": new, **meta, "state": UP, "node_state": SERVING}
        if self.document["bootstrapped"]:
            return new, []
        self.document["bootstrapped"] = rfc3339(time.time())
        return new, [self._first(number, new) for number in range(REGIONS)]

    def _first(self, number: int, sid: int) -> Region:
        return {
            "id": FIRST_REGION + number,
            "start_key": f"{number:04X}" if number else "",
            "end_key": f"{number + 1:04X}" if number < REGIONS - 1 else "",
            "conf_ver": 1,
            "version": 1,
            "peers": [[self.new_id(), sid]],
            "leader": sid,
            "term": 5,
            "size": SIZE_MB if number else HUGE_MB,
        }

    def heard(self, sid: str, beat: dict[str, Any], led: Iterable[Region]) -> bool:
        """Take down what a store says; whether its regions are others than before."""
        self.beats[sid] = {**beat, "at": time.time()}
        changed = False
        for one in led:
            old = self.regions.get(one["id"])
            if old is not None and _age(one) < _age(old):
                continue  # it does not know yet that somebody else leads
            changed |= old != one
            self.regions[one["id"]] = one
            self._drop_overlapping(one)
        return changed

    def _drop_overlapping(self, new: Region) -> None:
        """Regions that it swallowed are no more."""
        swallowed = [
            rid
            for rid, old in self.regions.items()
            if rid != new["id"] and old["version"] < new["version"] and _overlap(old, new)
        ]
        for rid in swallowed:
            del self.regions[rid]

    def store_info(self, sid: str) -> dict[str, Any]:
        """A store as `/store/ID` shows it."""
        meta = {name: value for name, value in self.stores[sid].items() if value != 0}
        beat = self.beats.get(sid, {})
        led, held = self.led_by(int(sid)), self.held_by(int(sid))
        weights = self.document.get("weights", {}).get(sid, [1, 1])
        status: dict[str, Any] = {
            "capacity": byte_size(beat.get("capacity", 0)),
            "available": byte_size(beat.get("available", 0)),
            "used_size": byte_size(beat.get("used", 0)),
            "leader_count": len(led),
            "leader_weight": weights[0],
            "leader_score": len(led),
            "leader_size": sum(one["size"] for one in led),
            "region_count": len(held),
            "region_weight": weights[1],
            "region_score": sum(one["size"] for one in held),
            "region_size": sum(one["size"] for one in held),
        }
        if "capacity" in beat:
            status["slow_score"] = 1
        if beat.get("start"):
            status["start_ts"] = rfc3339(beat["start"])
        if beat.get("at"):
            status["last_heartbeat_ts"] = rfc3339(beat["at"])
            status["uptime"] = _duration(beat["at"] - beat.get("start", beat["at"]))
            meta["last_heartbeat"] = int(beat["at"] * 1e9)
        return {"store": {**meta, "state_name": self.state_name(sid)}, "status": status}

    def settle(self) -> list[str]:
        """Offline stores without a peer become tombstones; which ones."""
        done = []
        for sid, store in self.stores.items():
            if store.get("state") == OFFLINE and not self.held_by(int(sid)):
                store["state"], store["node_state"] = TOMBSTONE, REMOVED
                done.append(sid)
        return done

    def remove(self, sid: str, *, force: bool) -> tuple[int, str]:
        """Take a store out of service: a status and what to say."""
        store = self.stores.get(sid)
        if store is None:
            return 404, f"[PD:core:ErrStoreNotFound]store {sid} not found"
        if store.get("state") == TOMBSTONE:
            return 410, f"[PD:core:ErrStoreRemoved]store {sid} has been removed"
        left = sum(one.get("state", UP) == UP for one in self.stores.values()) - 1
        wanted = int(self.document["replication"]["max-replicas"])
        if store.get("state", UP) == UP and left < wanted and not force:
            return 400, (
                f"[PD:cluster:ErrStoresNotEnough]can not remove store {sid} since the number of "
                f"up stores would be {left} while need {wanted}"
            )
        store["state"], store["node_state"] = OFFLINE, REMOVING
        if force:
            store["physically_destroyed"] = True
        return 200, "The store is set as Offline."


def stores_of(region: Region) -> list[int]:
    """Where the peers of a region are."""
    return [sid for _, sid in region["peers"]]


def _age(region: Region) -> tuple[int, int, int]:
    return region["version"], region["conf_ver"], region["term"]


def _overlap(one: Region, other: Region) -> bool:
    ends = (one["end_key"] or "~", other["end_key"] or "~")
    return bool(one["start_key"] < ends[1] and other["start_key"] < ends[0])


def _duration(span_s: float) -> str:
    hours, rest = divmod(max(0.0, span_s), 3600)
    minutes, left = divmod(rest, 60)
    words = [f"{int(hours)}h" * bool(hours), f"{int(minutes)}m" * bool(hours or minutes)]
    return f"{''.join(words)}{left:.9g}s"
