"""Operators of PD: what it wants done to a region, step by step, until it is seen to be done."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from tests.engines.tikv.cluster import DOWN, Cluster, Region, stores_of

__all__ = ["Operation", "Operations", "Refused", "Step"]

FAST_S, SLOW_S = 60.0, 600.0
FAST_S_PER_MB = 0.012
RECORDS_MAX = 200
ORDER = ("admin", "merge", "range", "replica", "split", "hot-region", "region", "leader")


class Refused(Exception):
    """PD does not do this."""


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that the leader of a region is asked to do; `do` is its verb."""

    do: str
    store: int = 0
    peer: int = 0
    keys: tuple[str, ...] = ()
    target: int = 0
    was: tuple[str, str] = ("", "")

    def said(self, region: Region | None) -> str:
        """How PD writes it."""
        match self.do:
            case "transfer-leader":
                leader = region["leader"] if region else 0
                return f"transfer leader from store {leader} to store {self.store}"
            case "add-peer":
                return f"add peer {self.peer} on store {self.store}"
            case "remove-peer":
                return f"remove peer on store {self.store}"
            case "merge":
                return f"merge region into region {self.target}"
            case _:
                return "split region with policy USEKEY"

    def done(self, region: Region) -> bool:
        """Whether it is, by what the leader of the region reports."""
        match self.do:
            case "transfer-leader":
                return bool(region["leader"] == self.store)
            case "add-peer":
                return self.store in stores_of(region) and self.store not in region["pending"]
            case "remove-peer":
                return self.store not in stores_of(region)
            case "merge":
                return False  # it is when the region is no more
            case _:
                return (region["start_key"], region["end_key"]) != self.was


@dataclass(slots=True)
class Operation:
    """One operator; it begins when it is made."""

    desc: str
    brief: str
    region: int
    kinds: frozenset[str]
    steps: tuple[Step, ...]
    within_s: float
    began: float = field(default_factory=time.time)
    at: int = 0
    epoch: tuple[int, int] = (1, 1)
    size: int = 0

    @property
    def kind(self) -> str:
        """Its kinds in PD's order."""
        return ",".join(one for one in ORDER if one in self.kinds)

    def text(self, region: Region | None, end: str = "") -> str:
        """How PD writes it."""
        at = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(self.began))
        when = f"{at}.{int(self.began % 1 * 1e6):06d} +0000 UTC"
        steps = ", ".join(f"{n}:{{{one.said(region)}}}" for n, one in enumerate(self.steps))
        minutes, left = divmod(int(self.within_s), 60)
        return (
            f"{self.desc} {{{self.brief}}} (kind:{self.kind}, region:{self.region}"
            f"({self.epoch[0]}, {self.epoch[1]}), createAt:{when}, startAt:{when}, "
            f"currentStep:{self.at}, size:{self.size}, steps:[{steps}], "
            f"timeout:[{minutes}m{left}s]){end}"
        )

    def as_object(self) -> dict[str, Any]:
        """The same as an object."""
        return {
            "desc": self.desc,
            "brief": self.brief,
            "region_id": self.region,
            "region_epoch": {"version": self.epoch[0], "conf_ver": self.epoch[1]},
            "kind": self.kind,
            "timeout": f"{int(self.within_s)}s",
            "status": "Started",
        }


class Operations:
    """Those that run, at most one for each region, and those that ran."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.running: dict[int, Operation] = {}
        self.records: list[tuple[float, str]] = []

    def count(self, kind: str) -> int:
        """How many of a kind run."""
        return sum(kind in one.kinds for one in self.running.values())

    def add(self, desc: str, region: Region, steps: tuple[Step, ...], *kinds: str) -> Operation:
        """Begin one. Refused when another runs on the region, unless an admin asks."""
        rid = region["id"]
        if rid in self.running and "admin" not in kinds:
            raise Refused("region already has an operator")
        slow = any(one.do in ("add-peer", "merge") for one in steps)
        fast_s = max(FAST_S, FAST_S_PER_MB * region["size"])
        moves = {one.do for one in steps}
        named = set(kinds) | ({"leader"} if "transfer-leader" in moves else set())
        if moves & {"add-peer", "remove-peer"}:
            named.add("region")
        self.running[rid] = Operation(
            desc=desc,
            brief=self._brief(region, steps),
            region=rid,
            kinds=frozenset(named),
            steps=steps,
            within_s=SLOW_S if slow else fast_s * len(steps),
            epoch=(region["version"], region["conf_ver"]),
            size=region["size"],
        )
        return self.running[rid]

    def _brief(self, region: Region, steps: tuple[Step, ...]) -> str:
        first, last = steps[0], steps[-1]
        match first.do:
            case "transfer-leader" if len(steps) == 1:
                return f"transfer leader: store {region['leader']} to [{first.store}]"
            case "add-peer" if last.do == "remove-peer":
                return f"mv peer: store [{last.store}] to [{first.store}]"
            case "add-peer":
                return f"add peer: store [{first.store}]"
            case "merge":
                return f"merge: region {region['id']} to {first.target}"
            case "split":
                keys = " ".join(first.keys)
                return f"split: region {region['id']} use policy USEKEY and keys [{keys}]"
            case _:
                return f"rm peer: store [{last.store}]"

    def cancel(self, rid: int) -> bool:
        """End one before it is done; whether there was one."""
        gone = self.running.pop(rid, None)
        if gone is not None:
            self._record(gone, " canceled")
        return gone is not None

    def review(self) -> None:
        """Go on to the next step, or end those that are done, or too old, or whose region is."""
        for rid, one in list(self.running.items()):
            region = self._cluster.regions.get(rid)
            while region is not None and one.at < len(one.steps) and one.steps[one.at].done(region):
                one.at += 1
            if region is None or one.at == len(one.steps):
                self._record(self.running.pop(rid), " finished")
            elif time.time() - one.began > one.within_s:
                self._record(self.running.pop(rid), " timeout")
            elif self._in_vain(one.steps[one.at]):
                self._record(self.running.pop(rid), " canceled")

    def _in_vain(self, step: Step) -> bool:
        """Whether it is to end at a store that is down."""
        sid = str(step.store)
        to = step.do in ("transfer-leader", "add-peer") and sid in self._cluster.stores
        return to and self._cluster.state_name(sid) == DOWN

    def _record(self, one: Operation, end: str) -> None:
        text = one.text(self._cluster.regions.get(one.region), end)
        took_s = time.time() - one.began
        self.records.append((time.time(), f"{text} (duration:{took_s:.3f}s)"))
        del self.records[:-RECORDS_MAX]

    def orders(self, sid: int) -> list[dict[str, Any]]:
        """What a store has to do now for the regions that it leads."""
        found = []
        for rid, one in self.running.items():
            region = self._cluster.regions.get(rid)
            if region is not None and region["leader"] == sid and one.at < len(one.steps):
                step = one.steps[one.at]
                order = {"region": rid, "do": step.do, "store": step.store, "peer": step.peer}
                extra = {"keys": step.keys, "target": step.target}
                found.append({**order, **extra, "id": self._new_ids(step)})
        return found

    def _new_ids(self, step: Step) -> list[int]:
        """For a split: the id of the new region, and of its peers."""
        if step.do != "split":
            return []
        return [self._cluster.new_id() for _ in range(8)]
