"""The pages of PD's HTTP API that are about stores, regions and schedules, in PD's own shapes."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any

from tests.engines.tikv.cluster import Cluster, Region, stores_of
from tests.engines.tikv.operations import Operations, Refused
from tests.engines.tikv.schedule import EVICT, Schedule
from tests.engines.tikv.unified import Log
from tests.engines.tikv.wire import Reply, Request

__all__ = ["Pages"]

PREFIX = "/pd/api/v1/"
MISSING = Reply(404, b"404 page not found\n")
STATE_NUMBERS = {"0": "Up", "1": "Offline", "2": "Tombstone"}
KNOWN = ("balance-leader", "balance-region", "balance-hot-region", "evict-slow-store")
RANGE = [{"start-key": "", "end-key": ""}]

Change = Callable[[], Awaitable[None]]


class Pages:
    """Answers as the leader of PD does; `change` keeps the document at a majority."""

    def __init__(self, cluster: Cluster, operations: Operations, log: Log, change: Change) -> None:
        self._cluster, self._operations, self._log = cluster, operations, log
        self._change = change
        self.schedule = Schedule(cluster, operations)

    async def answer(self, request: Request) -> Reply:
        """A page below /pd/api/v1/, or that there is none."""
        words = request.path.removeprefix(PREFIX).strip("/").split("/")
        if request.method != "GET":
            self._log.info("audit.go:126", "audit log", method=request.method, uri=request.path)
        match [request.method, *words]:
            case ["GET", "stores" | "store" | "regions" | "region" | "stats", *_] if (
                not self._cluster.document["bootstrapped"]
            ):
                return Reply.of("[PD:cluster:ErrNotBootstrapped]TiKV cluster not bootstrapped", 500)
            case [_, "store" | "stores", *_]:
                return await self._stores(request, words)
            case ["GET", "region" | "regions" | "stats" | "hotspot", *_]:
                return self._regions(request, words)
            case [_, "schedulers" | "scheduler-config", *_]:
                return await self._schedulers(request, words)
            case [_, "operators", *_]:
                return self._operators(request, words)
            case [_, "config", *_]:
                return await self._config(request, words)
            case _:
                return MISSING

    def metrics(self) -> list[str]:
        """What the leader counts, in the names of PD's metrics."""
        names = [self._cluster.state_name(sid) for sid in self._cluster.stores]
        lines = ["# TYPE pd_cluster_status gauge"]
        for name in ("Up", "Disconnected", "Down", "Offline", "Tombstone"):
            kind = f'{{namespace="global",type="store_{name.lower()}_count"}}'
            lines.append(f"pd_cluster_status{kind} {names.count(name)}")
        lines.append("# TYPE pd_regions_status gauge")
        for what in ("miss-peer", "extra-peer", "down-peer", "pending-peer", "offline-peer"):
            count = len(self._checked(what) or ())
            lines.append(f'pd_regions_status{{type="{what}-region-count"}} {count}')
        lines.append("# TYPE pd_scheduler_status gauge")
        for name, until in self._cluster.document["schedulers"].items():
            allowed = int(until < time.time())
            lines.append(f'pd_scheduler_status{{kind="{name}",type="allow"}} {allowed}')
        lines.append("# TYPE pd_hotspot_status gauge")
        for sid, store in self._cluster.stores.items():
            for kind in ("hot_write_region_as_leader", "hot_read_region_as_leader"):
                labels = f'address="{store["address"]}",store="{sid}",type="{kind}"'
                lines.append(f"pd_hotspot_status{{{labels}}} 0")
        return lines

    async def _stores(self, request: Request, words: list[str]) -> Reply:
        cluster = self._cluster
        match [request.method, *words]:
            case ["GET", "stores"]:
                wanted = [STATE_NUMBERS.get(one, one) for one in request.query.get("state", [])]
                numbers = {STATE_NUMBERS[str(n)] for n in (0, 1)} if not wanted else set(wanted)
                names = ("Up", "Offline", "Tombstone")
                found = [
                    cluster.store_info(sid)
                    for sid, one in cluster.stores.items()
                    if names[one.get("state", 0)] in numbers
                ]
                return Reply.of({"count": len(found), "stores": found})
            case ["GET", "stores", "limit"]:
                limit = {"add-peer": 15, "remove-peer": 15}
                return Reply.of(dict.fromkeys(cluster.stores, limit))
            case [_, "store", sid, *_] if not sid.isdigit():
                return Reply.of("invalid store id", 400)
            case [_, "store", sid, *_] if sid not in cluster.stores:
                return Reply.of(f"[PD:core:ErrStoreNotFound]store {sid} not found", 404)
            case ["GET", "store", sid]:
                return Reply.of(cluster.store_info(sid))
            case ["DELETE", "store", sid]:
                status, said = cluster.remove(sid, force="force" in request.query)
                await self._change()
                return Reply.of(said, status)
            case ["POST", "store", sid, "state"]:
                if request.query.get("state") == ["Up"]:
                    cluster.stores[sid] |= {"state": 0, "node_state": 1}
                else:
                    cluster.remove(sid, force=False)
                await self._change()
                return Reply.of("The store's state is updated.")
            case ["POST", "store", sid, "weight"]:
                wish = request.json()
                weights = cluster.document.setdefault("weights", {})
                weights[sid] = [wish.get("leader", 1), wish.get("region", 1)]
                await self._change()
                return Reply.of("The store's weight is updated.")
            case _:
                return MISSING

    def _regions(self, request: Request, words: list[str]) -> Reply:
        regions = self._cluster.regions
        match words:
            case ["region", "id", rid]:
                found = regions.get(int(rid)) if rid.isdigit() else None
                return Reply.of(None if found is None else shown(found))
            case ["region", "key", key]:
                at = key.upper() if request.query.get("format") == ["hex"] else key.encode().hex()
                holding = (
                    one
                    for one in regions.values()
                    if one["start_key"] <= at.upper() < (one["end_key"] or "~")
                )
                held = next(holding, None)
                return Reply.of(None if held is None else shown(held))
            case ["regions"]:
                return _listed(list(regions.values()))
            case ["regions", "store", sid] if sid.isdigit():
                return _listed(self._cluster.held_by(int(sid)))
            case ["regions", "size"]:
                most = int(request.query.get("limit", ["16"])[0])
                ordered = sorted(regions.values(), key=lambda one: -int(one["size"]))
                return _listed(ordered[:most])
            case ["regions", "count"]:
                return Reply.of({"count": len(regions)})
            case ["regions", "check", what]:
                checked = self._checked(what)
                return MISSING if checked is None else _listed(checked)
            case ["stats", "region"]:
                return Reply.of(self._stats())
            case ["hotspot", "regions", "read" | "write"]:
                return Reply.of({"as_peer": {}, "as_leader": self._hot()})
            case ["hotspot", "stores"]:
                names = ("bytes-write-rate", "bytes-read-rate", "keys-write-rate", "keys-read-rate")
                rates = dict.fromkeys(self._cluster.stores, 0)
                return Reply.of(dict.fromkeys(names, rates))
            case _:
                return MISSING

    def _checked(self, what: str) -> list[Region] | None:
        cluster, wanted = self._cluster, int(self._cluster.document["replication"]["max-replicas"])
        tests: dict[str, Callable[[Region], bool]] = {
            "miss-peer": lambda one: len(one["peers"]) < wanted,
            "extra-peer": lambda one: len(one["peers"]) > wanted,
            "down-peer": lambda one: bool(one["down"]),
            "pending-peer": lambda one: bool(one["pending"]),
            "learner-peer": lambda one: False,
            "empty-region": lambda one: one["size"] <= 1,
            "offline-peer": lambda one: any(
                cluster.state_name(str(sid)) == "Offline" for sid in stores_of(one)
            ),
            "oversized-region": lambda one: one["size"] > 144,
            "undersized-region": lambda one: one["size"] < 20,
        }
        test = tests.get(what)
        return None if test is None else [one for one in cluster.regions.values() if test(one)]

    def _stats(self) -> dict[str, Any]:
        regions = list(self._cluster.regions.values())
        stores = [int(sid) for sid in self._cluster.stores]
        led = {sid: self._cluster.led_by(sid) for sid in stores}
        held = {sid: self._cluster.held_by(sid) for sid in stores}
        size = {sid: sum(one["size"] for one in held[sid]) for sid in stores}
        return {
            "count": len(regions),
            "empty_count": 0,
            "storage_size": sum(one["size"] for one in regions),
            "user_storage_size": sum(one["size"] for one in regions),
            "storage_keys": sum(one["size"] for one in regions) * 1000,
            "store_leader_count": {str(sid): len(led[sid]) for sid in stores if led[sid]},
            "store_peer_count": {str(sid): len(held[sid]) for sid in stores if held[sid]},
            "store_leader_size": {str(sid): sum(r["size"] for r in led[sid]) for sid in stores},
            "store_leader_keys": {str(sid): 1000 * len(led[sid]) for sid in stores},
            "store_peer_size": {str(sid): size[sid] for sid in stores},
            "store_peer_keys": {str(sid): 1000 * len(held[sid]) for sid in stores},
        }

    def _hot(self) -> dict[str, Any]:
        none = {"total_flow_bytes": 0, "total_flow_keys": 0, "total_flow_query": 0}
        return {sid: {**none, "regions_count": 0, "statistics": []} for sid in self._cluster.stores}

    async def _schedulers(self, request: Request, words: list[str]) -> Reply:
        document = self._cluster.document
        names: dict[str, float] = document["schedulers"]
        match [request.method, *words]:
            case ["GET", "schedulers"]:
                paused = [name for name, until in names.items() if until > time.time()]
                status = request.query.get("status", [""])[0]
                if status == "disabled":
                    return Reply.of([])
                return Reply.of(paused if status == "paused" else list(names))
            case ["GET", "scheduler-config", name, "list"] if name == EVICT:
                if EVICT not in names:
                    return Reply.of("[PD:scheduler:ErrSchedulerNotFound]scheduler not found", 404)
                ranges = {str(sid): RANGE for sid in document["evicted"]}
                return Reply.of({"store-id-ranges": ranges})
            case ["POST", "schedulers"]:
                said = self._create_scheduler(request.json())
            case ["DELETE", "scheduler-config", name, "delete", sid] if name == EVICT:
                said = self._let_lead(sid)
            case ["DELETE", "schedulers", name] if name.startswith(f"{EVICT}-"):
                said = self._let_lead(name.removeprefix(f"{EVICT}-"))
            case ["DELETE", "schedulers", name]:
                if name not in names:
                    return Reply.of("[PD:scheduler:ErrSchedulerNotFound]scheduler not found", 404)
                del names[name]
                if name == EVICT:
                    document["evicted"] = []
                said = Reply.of("The scheduler is removed.")
            case ["POST", "schedulers", name]:
                said = self._pause(name, request.json().get("delay"))
            case _:
                return MISSING
        if said.status == 200:
            await self._change()
        return said

    def _create_scheduler(self, wish: dict[str, Any]) -> Reply:
        document, name = self._cluster.document, str(wish.get("name", ""))
        if name == EVICT:
            sid = wish.get("store_id")
            if not isinstance(sid, int | float):
                return Reply.of("missing store id", 400)
            if str(int(sid)) not in self._cluster.stores:
                return Reply.of(f"[PD:core:ErrStoreNotFound]store {int(sid)} not found", 500)
            there = EVICT in document["schedulers"]
            document["schedulers"].setdefault(EVICT, 0.0)
            if int(sid) not in document["evicted"]:
                document["evicted"].append(int(sid))
            applied = "The scheduler has been applied to the store."
            return Reply.of(applied if there else "The scheduler is created.")
        if name.removesuffix("-scheduler") not in KNOWN:
            return Reply.of("unknown scheduler", 400)
        if name in document["schedulers"]:
            return Reply.of("[PD:scheduler:ErrSchedulerExisted]scheduler existed", 500)
        document["schedulers"][name] = 0.0
        return Reply.of("The scheduler is created.")

    def _let_lead(self, sid: str) -> Reply:
        document = self._cluster.document
        if not sid.isdigit() or int(sid) not in document["evicted"]:
            return Reply.of(
                "[PD:scheduler:ErrScheduleConfigNotExist]the config does not exist", 404
            )
        document["evicted"].remove(int(sid))
        if not document["evicted"]:
            document["schedulers"].pop(EVICT, None)
            return Reply.of("The last store has been deleted")
        return Reply.of(None)

    def _pause(self, name: str, delay_s: object) -> Reply:
        names = self._cluster.document["schedulers"]
        if not isinstance(delay_s, int):
            return Reply.of("missing pause time", 400)
        if name not in names and name != "all":
            return Reply.of("[PD:scheduler:ErrSchedulerNotFound]scheduler not found", 500)
        for one in list(names) if name == "all" else [name]:
            names[one] = time.time() + delay_s if delay_s > 0 else 0.0
        return Reply.of("Pause or resume the scheduler successfully.")

    def _operators(self, request: Request, words: list[str]) -> Reply:
        operations, regions = self._operations, self._cluster.regions
        match [request.method, *words]:
            case ["GET", "operators"]:
                kinds = request.query.get("kind", [])
                found = [o for o in operations.running.values() if not kinds or o.kinds & {*kinds}]
                if "object" in request.query:
                    return Reply.of([one.as_object() for one in found])
                return Reply.of([one.text(regions.get(one.region)) for one in found])
            case ["GET", "operators", "records"]:
                since = float(request.query.get("from", ["0"])[0])
                return Reply.of([text for at, text in operations.records if at >= since])
            case ["GET", "operators", rid] if rid.isdigit():
                one = operations.running.get(int(rid))
                if one is None:
                    return Reply.of("operator not found", 500)
                return Reply.of(one.text(regions.get(one.region)))
            case ["DELETE", "operators"]:
                for rid_ in list(operations.running):
                    operations.cancel(rid_)
                return Reply.of("All pending operators are canceled.")
            case ["DELETE", "operators", rid] if rid.isdigit():
                gone = operations.cancel(int(rid))
                said = "The pending operator is canceled." if gone else "operator not found"
                return Reply.of(said, 200 if gone else 500)
            case ["POST", "operators"]:
                try:
                    self.schedule.admin(request.json())
                except Refused as problem:
                    bad = str(problem).startswith(("missing", "invalid", "unknown"))
                    return Reply.of(str(problem), 400 if bad else 500)
                return Reply.of("The operator is created.")
            case _:
                return MISSING

    async def _config(self, request: Request, words: list[str]) -> Reply:
        document = self._cluster.document
        sections = {"schedule": document["schedule"], "replication": document["replication"]}
        match [request.method, *words]:
            case ["GET", "config"]:
                whole = {**sections, "cluster-version": document["cluster_version"]}
                return Reply.of(whole)
            case ["GET", "config", "schedule"]:
                return Reply.of(document["schedule"])
            case ["GET", "config", "replicate"]:
                return Reply.of(document["replication"])
            case ["GET", "config", "cluster-version"]:
                return Reply.of(document["cluster_version"])
            case ["POST", "config", *_]:
                for name, value in request.json().items():
                    home = next((s for s in sections.values() if name.split(".")[-1] in s), None)
                    if home is None:
                        return Reply.of(f"config item {name} not found", 400)
                    home[name.split(".")[-1]] = value
                await self._change()
                return Reply.of("The config is updated.")
            case _:
                return MISSING


def _listed(regions: list[Region]) -> Reply:
    return Reply.of({"count": len(regions), "regions": [shown(one) for one in regions]})


def shown(region: Region) -> dict[str, Any]:
    """A region as PD shows it."""
    peers = {sid: _peer(pid, sid) for pid, sid in region["peers"]}
    found: dict[str, Any] = {
        "id": region["id"],
        "start_key": region["start_key"],
        "end_key": region["end_key"],
        "epoch": {"conf_ver": region["conf_ver"], "version": region["version"]},
        "peers": list(peers.values()),
        "leader": peers.get(region["leader"], {"role_name": "Voter"}),
        "cpu_usage": 0,
        "written_bytes": 0,
        "read_bytes": 0,
        "written_keys": 0,
        "read_keys": 0,
        "approximate_size": region["size"],
        "approximate_keys": 1000 * region["size"],
    }
    if region["down"]:
        found["down_peers"] = [
            {"down_seconds": int(for_s), "peer": peers[sid]}
            for sid, for_s in region["down"]
            if sid in peers
        ]
    if region["pending"]:
        found["pending_peers"] = [peers[sid] for sid in region["pending"] if sid in peers]
    return found


def _peer(pid: int, sid: int) -> dict[str, Any]:
    return {"id": pid, "store_id": sid, "role_name": "Voter"}
