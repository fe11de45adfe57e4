"""PD's checkers and schedulers: replicas made up, leaders evicted and balanced, admins obeyed."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from tests.engines.tikv.cluster import Cluster, Region, stores_of
from tests.engines.tikv.operations import Operations, Refused, Step

__all__ = ["Schedule"]

TOLERANCE = 5  # PD leaves leader counts alone that differ by less on either side
EVICT_BATCH = 3
EVICT, GRANT = "evict-leader-scheduler", "grant-leader-scheduler"


class Schedule:
    """What should be done next, decided anew at every tick of the leader."""

    def __init__(self, cluster: Cluster, operations: Operations) -> None:
        self._cluster, self._operations = cluster, operations

    def tick(self) -> None:
        """Look at all regions once."""
        self._operations.review()
        if not self._cluster.regions:
            return
        if not self._cluster.document.get("scattered"):
            self._scatter()
        self._replicas()
        if self._on(EVICT):
            self._evict()
        if self._on("balance-leader-scheduler"):
            self._balance()

    def _on(self, name: str) -> bool:
        until = self._cluster.document["schedulers"].get(name)
        return until is not None and until < time.time()

    def _limit(self, name: str) -> int:
        return int(self._cluster.document["schedule"][name])

    def _scatter(self) -> None:
        """The regions of a new cluster go to all stores evenly, as soon as there are enough."""
        wanted = int(self._cluster.document["replication"]["max-replicas"])
        stores = sorted(self._cluster.healthy())
        if len(stores) < wanted:
            return
        self._cluster.document["scattered"] = True
        for number, region in enumerate(self._cluster.regions.values()):
            turned = [*stores[number % len(stores) :], *stores[: number % len(stores)]]
            here = stores_of(region)
            new = [sid for sid in turned if sid not in here][: wanted - len(here)]
            steps = [self._added(sid) for sid in new]
            if turned[0] in (*here, *new) and turned[0] != region["leader"]:
                steps.append(Step("transfer-leader", store=turned[0]))
            if steps:
                self._operations.add("scatter-region", region, tuple(steps), "admin")

    def _replicas(self) -> None:
        cluster, wanted = self._cluster, int(self._cluster.document["replication"]["max-replicas"])
        names = {int(sid): cluster.state_name(sid) for sid in cluster.stores}
        healthy = {sid for sid, name in names.items() if name == "Up"}
        held = {sid: len(cluster.held_by(sid)) for sid in healthy}
        for region in cluster.regions.values():
            if region["id"] in self._operations.running:
                continue
            if self._operations.count("replica") >= self._limit("replica-schedule-limit"):
                return
            here = stores_of(region)
            free = sorted(
                (sid for sid in healthy if sid not in here and cluster.roomy(sid)),
                key=lambda sid: held[sid],
            )
            away = {sid: names.get(sid, "Tombstone") for sid in here}
            steps = self._mend(region, away, free, wanted)
            if steps is None:
                continue
            if steps[1][0].do == "add-peer":
                held[steps[1][0].store] += 1
            self._operations.add(steps[0], region, steps[1], "replica")

    def _mend(
        self, region: Region, names: Mapping[int, str], free: list[int], wanted: int
    ) -> tuple[str, tuple[Step, ...]] | None:
        here = list(names)
        down = [sid for sid, _ in region["down"] if names.get(sid) == "Down"]
        offline = [sid for sid, name in names.items() if name == "Offline"]
        if len(here) < wanted and free:
            return "add-rule-peer", (self._added(free[0]),)
        if len(here) > wanted:
            spare = next(iter([*down, *offline, *(s for s in here if s != region["leader"])]))
            return "remove-extra-replica", self._removal(region, here, spare)
        for gone, desc in ((down, "replace-rule-down-peer"), (offline, "replace-rule-offline")):
            if gone and free and len(here) == wanted:
                return desc, (self._added(free[0]), *self._removal(region, here, gone[0]))
        return None

    def _added(self, sid: int) -> Step:
        return Step("add-peer", store=sid, peer=self._cluster.new_id())

    def _removal(self, region: Region, here: list[int], sid: int) -> tuple[Step, ...]:
        heirs = [each for each in here if each != sid and each in self._cluster.healthy()]
        first = (Step("transfer-leader", store=heirs[0]),)
        leads = region["leader"] == sid and heirs
        return (*(first if leads else ()), Step("remove-peer", store=sid))

    def _heirs(self, region: Region) -> list[int]:
        """Who may lead a region instead, those with the fewest leaders first."""
        cluster = self._cluster
        evicted = cluster.document["evicted"]
        down = [sid for sid, _ in region["down"]]
        able = [
            sid
            for sid in stores_of(region)
            if sid in cluster.healthy()
            and sid not in (*evicted, *down, *region["pending"], region["leader"])
        ]
        return sorted(able, key=lambda sid: len(cluster.led_by(sid)))

    def _evict(self) -> None:
        for sid in self._cluster.document["evicted"]:
            batch = 0
            for region in self._cluster.led_by(sid):
                heirs = self._heirs(region)
                if batch == EVICT_BATCH or self._full():
                    break
                if heirs and region["id"] not in self._operations.running:
                    step = Step("transfer-leader", store=heirs[batch % len(heirs)])
                    self._operations.add("evict-leader", region, (step,))
                    batch += 1

    def _full(self) -> bool:
        return self._operations.count("leader") >= self._limit("leader-schedule-limit")

    def _balance(self) -> None:
        counts = {
            sid: len(self._cluster.led_by(sid))
            for sid in self._cluster.healthy()
            if sid not in self._cluster.document["evicted"]
        }
        for one in self._operations.running.values():  # what is on its way counts already
            step = one.steps[-1]
            if step.do == "transfer-leader" and step.store in counts:
                counts[step.store] += 1
        while len(counts) > 1 and not self._full():
            most, least = max(counts, key=counts.__getitem__), min(counts, key=counts.__getitem__)
            if counts[most] - TOLERANCE <= counts[least] + TOLERANCE:
                return
            fit = (r for r in self._cluster.led_by(most) if least in self._heirs(r))
            region = next((r for r in fit if r["id"] not in self._operations.running), None)
            if region is None:
                return
            step = Step("transfer-leader", store=least)
            self._operations.add("balance-leader", region, (step,))
            counts[most], counts[least] = counts[most] - 1, counts[least] + 1

    def admin(self, wish: Mapping[str, Any]) -> None:
        """What a person asked for. Refused with PD's reason."""
        name = wish.get("name")
        if name == "merge-region":
            self._merge(wish)
            return
        region = self._region(wish, "region_id")
        here = stores_of(region)
        match name:
            case "transfer-leader":
                sid = _number(wish, "to_store_id", "missing store id to transfer leader to")
                if sid not in here:
                    raise Refused(f"region has no voter in store {sid}")
                steps: tuple[Step, ...] = (Step("transfer-leader", store=sid),)
            case "transfer-peer":
                gone = _number(wish, "from_store_id", "invalid store id to transfer peer from")
                sid = _number(wish, "to_store_id", "invalid store id to transfer peer to")
                if gone not in here:
                    raise Refused(f"region has no peer in store {gone}")
                steps = (self._newcomer(sid, here), *self._removal(region, here, gone))
            case "add-peer":
                sid = _number(wish, "store_id", "invalid store id to transfer peer to")
                steps = (self._newcomer(sid, here),)
            case "remove-peer":
                gone = _number(wish, "store_id", "invalid store id to transfer peer to")
                if gone not in here:
                    raise Refused(f"region has no peer in store {gone}")
                steps = self._removal(region, here, gone)
            case "split-region":
                keys = tuple(str(key).upper() for key in wish.get("keys", ()))
                if not isinstance(wish.get("policy"), str):
                    raise Refused("missing split policy")
                was = (region["start_key"], region["end_key"])
                steps = (Step("split", keys=keys, was=was),)
            case _:
                raise Refused("unknown operator")
        kinds = ("admin", "split") if name == "split-region" else ("admin",)
        self._operations.add(f"admin-{name}", region, steps, *kinds)

    def _merge(self, wish: Mapping[str, Any]) -> None:
        source = self._region(wish, "source_region_id")
        target = self._region(wish, "target_region_id")
        near = source["end_key"] == target["start_key"] or target["end_key"] == source["start_key"]
        if not near:
            raise Refused("not adjacent region")
        if sorted(stores_of(source)) != sorted(stores_of(target)):
            raise Refused("The peers of the two regions are on different stores")
        step = Step("merge", target=target["id"])
        self._operations.add("admin-merge-region", source, (step,), "admin", "merge")

    def _region(self, wish: Mapping[str, Any], name: str) -> Region:
        rid = _number(wish, name, "missing region id")
        if rid not in self._cluster.regions:
            raise Refused(f"[PD:server:ErrRegionNotFound]region {rid} not found")
        return self._cluster.regions[rid]

    def _newcomer(self, sid: int, here: list[int]) -> Step:
        if sid in here:
            raise Refused(f"region already has peer in store {sid}")
        if str(sid) not in self._cluster.stores:
            raise Refused(f"[PD:core:ErrStoreNotFound]store {sid} not found")
        if sid not in self._cluster.healthy():
            raise Refused(f"store {sid} is unhealthy")
        return self._added(sid)


def _number(wish: Mapping[str, Any], name: str, problem: str) -> int:
    found = wish.get(name)
    if not isinstance(found, int | float):
        raise Refused(problem)
    return int(found)
