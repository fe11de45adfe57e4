"""The regions of one store: who leads them, who votes for whom, who has not been heard of.

One table for all regions. A leader needs a majority that it heard of not long ago; whoever misses
the leader of a region asks the other peers for their votes, and they give them only when they miss
it too. What is newer (version, configuration, term) wins wherever two tables meet.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.engines.tikv.unified import Log, write_whole

__all__ = ["Regions"]

Region = dict[str, Any]
FILE = "regions.json"


class Regions:
    """What one store has of every region; `heard` says when it heard of which store."""

    def __init__(self, place: Path, log: Log, *, election_s: float, down_s: float) -> None:
        self._file, self._log = place / FILE, log
        self._election_s, self._down_s = election_s, down_s
        self.id = 0
        self.all: dict[int, Region] = {}
        self.heard: dict[int, float] = {}
        self._since = time.monotonic()
        self._voted: dict[int, int] = {}  # the last term in which it gave its vote to anybody
        self._unled: dict[int, float] = {}
        self.changed = False
        # How often it changed, begun anew higher than ever before.
        self.number = time.time_ns()
        self.failed = ""
        if self._file.exists():
            record = json.loads(self._file.read_text(encoding="utf-8"))
            self.id = record["id"]
            self.all = {one["id"]: {**one, "leader": 0} for one in record["regions"]}

    def save(self) -> None:
        """Keep it; a full disk is told of once, and does not end the store."""
        try:
            write_whole(self._file, {"id": self.id, "regions": list(self.all.values())})
            self.failed = ""
        except OSError as problem:
            if not self.failed:
                said = problem.strerror or str(problem)
                self._log.error("peer.rs:4512", "IO error: No space left on device", err=said)
            self.failed = str(problem)

    def begin(self, sid: int, regions: Iterable[Region]) -> None:
        """Be the store of this number, with these regions if it is the first."""
        self.id = sid
        self.all |= {one["id"]: {"down": [], "pending": [], **one} for one in regions}
        self.save()

    def touch(self) -> None:
        """Something is other than it was."""
        self.changed = True
        self.number += 1

    def fresh(self, sid: int) -> bool:
        """Whether a store was heard of not long ago."""
        return sid == self.id or self.missing_s(sid) < self._election_s

    def missing_s(self, sid: int) -> float:
        """How long a store was not heard of; who was never, since this one started."""
        return time.monotonic() - self.heard.get(sid, self._since)

    def led(self) -> list[Region]:
        """The regions it leads, with who is down and who has nothing yet."""
        found = [one for one in self.all.values() if one["leader"] == self.id]
        for one in found:
            others = [sid for _, sid in one["peers"] if sid != self.id]
            gone = [(sid, self.missing_s(sid)) for sid in others]
            one["down"] = [[sid, int(for_s)] for sid, for_s in gone if for_s > self._down_s]
        return found

    def tick(self) -> dict[int, int]:
        """Lay down what it cannot lead; region -> term of those it wants to lead."""
        now, wanted = time.monotonic(), {}
        for rid, one in self.all.items():
            peers = [sid for _, sid in one["peers"]]
            alive = sorted(sid for sid in peers if self.fresh(sid))
            if len(alive) <= len(peers) // 2 or self.id not in peers:
                if one["leader"] == self.id:
                    one["leader"] = 0
                    self.touch()
                continue
            if one["leader"] and self.fresh(one["leader"]):
                self._unled.pop(rid, None)
                continue
            # Each region has another peer that is the first to notice; the others wait for it.
            turn = (alive.index(self.id) - rid) % len(alive)
            if now - self._unled.setdefault(rid, now) >= turn * self._election_s / 2:
                wanted[rid] = max(one["term"], self._voted.get(rid, 0)) + 1
                self._voted[rid] = wanted[rid]
        return wanted

    def vote(self, who: int, wanted: dict[str, int]) -> list[int]:
        """Those regions in which this store prefers them to nobody."""
        given = []
        for name, term in wanted.items():
            one = self.all.get(int(name))
            if one is None:
                continue
            led = one["leader"] and one["leader"] != who and self.fresh(one["leader"])
            if not led and term > max(one["term"], self._voted.get(int(name), 0)):
                self._voted[int(name)] = term
                given.append(int(name))
        return given

    def win(self, rid: int, term: int) -> None:
        """Lead a region."""
        one = self.all[rid]
        one["leader"], one["term"] = self.id, term
        self.touch()
        self._log.info("raft.rs:1177", "became leader at term", region_id=rid, term=term)

    def meet(self, theirs: Iterable[Region], *, leader: int) -> None:
        """Take over what is newer in the table of another store."""
        for other in theirs:
            mine = self.all.get(other["id"])
            here = self.id in (sid for _, sid in other["peers"])
            if mine is None and not here:
                continue
            if mine is None or _age(other) > _age(mine):
                self._take(other, mine, here=here)
            elif _age(other) == _age(mine) and not mine["leader"] and other["leader"] == leader:
                mine["leader"] = leader

    def _take(self, other: Region, mine: Region | None, *, here: bool) -> None:
        self.touch()
        self._drop_swallowed(other)
        if not here:
            self.all.pop(other["id"], None)
            self._log.info("peer.rs:1301", "peer destroys itself", region_id=other["id"])
            return
        if mine is None:
            self._log.info("snap.rs:412", "received snapshot", region_id=other["id"])
        elif mine["leader"] == self.id and other["leader"] != self.id:
            term = other["term"]
            self._log.info("raft.rs:902", "became follower at term", region=other["id"], term=term)
        self.all[other["id"]] = {**other, "down": [], "pending": list(other["pending"])}

    def _drop_swallowed(self, new: Region) -> None:
        bounds = (new["start_key"], new["end_key"] or "~")
        for rid, old in list(self.all.items()):
            inside = bounds[0] <= old["start_key"] and (old["end_key"] or "~") <= bounds[1]
            if rid != new["id"] and inside and old["version"] < new["version"]:
                del self.all[rid]

    def confirm(self, sid: int, theirs: Iterable[int]) -> None:
        """A store said which regions it has: it waits for none of them any more."""
        has = set(theirs)
        for one in self.all.values():
            if one["leader"] == self.id and sid in one["pending"] and one["id"] in has:
                one["pending"].remove(sid)
                self.touch()

    def obey(self, order: dict[str, Any]) -> None:
        """Do what PD wants of a region that this store leads, as far as it can."""
        one = self.all.get(order["region"])
        if one is None or one["leader"] != self.id:
            return
        sid, peers = order["store"], one["peers"]
        here = [each for _, each in peers]
        match order["do"]:
            case "transfer-leader" if sid in here and self.fresh(sid) and sid not in one["pending"]:
                one["leader"], one["term"] = sid, one["term"] + 1
            case "add-peer" if sid not in here:
                one["peers"] = [*peers, [order["peer"], sid]]
                one["pending"] = [*one["pending"], sid]
                one["conf_ver"] += 1
            case "remove-peer" if sid in here and sid != self.id:
                one["peers"] = [each for each in peers if each[1] != sid]
                one["pending"] = [each for each in one["pending"] if each != sid]
                one["conf_ver"] += 1
            case "split":
                self._split(one, order)
            case "merge":
                self._merge(one, order["target"])
            case _:
                return
        self.touch()

    def _split(self, one: Region, order: dict[str, Any]) -> None:
        end = one["end_key"] or "~"
        keys = [str(key) for key in order["keys"] if one["start_key"] < str(key) < end]
        if not keys:
            self._log.warn("pd.rs:1450", "invalid key, split is ignored", region_id=one["id"])
            return
        ids = list(order["id"])
        left = {**one, "id": ids.pop(0), "end_key": keys[0], "version": one["version"] + 1}
        left["peers"] = [[ids.pop(0), sid] for _, sid in one["peers"]]
        left["size"] = one["size"] // 2
        one |= {"start_key": keys[0], "version": one["version"] + 1, "size": one["size"] // 2}
        self.all[left["id"]] = left

    def _merge(self, source: Region, target_id: int) -> None:
        target = self.all.get(target_id)
        if target is None or target["leader"] != self.id:
            return  # the leaders of both must be on one store first
        if source["end_key"] == target["start_key"] and source["end_key"]:
            target["start_key"] = source["start_key"]
        else:
            target["end_key"] = source["end_key"]
        target["version"] = max(source["version"], target["version"]) + 1
        target["size"] += source["size"]
        del self.all[source["id"]]


def _age(region: Region) -> tuple[int, int, int]:
    return region["version"], region["conf_ver"], region["term"]
