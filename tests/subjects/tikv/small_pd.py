"""A PD inside of the test: pages of the stand-in, over stores that do at once what they are told.

It serves real HTTP, decides by PD's own rules, and is changed from outside without waiting.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from operator_protocols.domain.action import Action, Argument, Outcome, Result
from operator_protocols.domain.target import Process, Target
from operator_protocols.ports import Job, SubjectSettings
from operator_sre.clock import SystemClock
from operator_sre.subjects.tikv.tools import tikv_tools
from tests.contract.servers import serving
from tests.engines.tikv.cluster import Cluster, Region, defaults
from tests.engines.tikv.operations import Operations, Step
from tests.engines.tikv.pages import PREFIX, Pages
from tests.engines.tikv.schedule import EVICT
from tests.engines.tikv.unified import Log
from tests.engines.tikv.wire import Reply, Request, conversation

__all__ = ["SmallPd", "small_pd"]

STORES = (4, 5, 6, 7)
GB = 1 << 30


@dataclass(slots=True)
class SmallPd:
    """One PD that leads, four stores (`store-1` has id 4), six regions on the first three.

    With `obedient` off, stores do nothing of what they are told. `restarts` are those asked of it.
    """

    port: int = 0
    cluster: Cluster = field(default_factory=lambda: Cluster(disconnected_s=1000.0))
    obedient: bool = True
    restarts: list[str] = field(default_factory=list)
    commands: list[tuple[str, ...]] = field(default_factory=list)
    says: Result = field(default_factory=lambda: Result(Outcome.RAN, exit_code=0))
    options: dict[str, Any] = field(default_factory=dict)
    hot: dict[str, Any] = field(default_factory=dict)
    runs_at: str = ""
    lives: bool = True
    timeout_s: float = 60.0
    operations: Operations = field(init=False)
    pages: Pages = field(init=False)

    def __post_init__(self) -> None:
        self.operations = Operations(self.cluster)

        async def change() -> None:
            return None

        self.pages = Pages(self.cluster, self.operations, Log(""), change)

    def fill(self) -> None:
        """A cluster in which everything is well."""
        document = defaults()
        document |= {"bootstrapped": "2026-01-01T00:00:00Z", "scattered": True}
        self.cluster.take(document, {})
        for sid in STORES:
            place = f"127.0.0.1:{self.port}" if sid == STORES[0] else f"127.0.0.1:{sid}"
            self.cluster.stores[str(sid)] = {
                "id": sid,
                "address": f"10.0.0.{sid}:20160",
                "status_address": place,
                "version": "8.5.5",
                "state": 0,
            }
            self.beat(sid)
        for number in range(6):
            self.cluster.regions[100 + number] = _region(number, STORES[number % 3])

    def beat(
        self, sid: int, *, age_s: float = 0.0, started: float = 1.0, free: float = 0.5
    ) -> None:
        """What PD heard last of a store, and when."""
        room = {"capacity": GB, "available": int(GB * free), "used": 0}
        self.cluster.beats[str(sid)] = {**room, "at": time.time() - age_s, "start": started}

    def evict(self, *ids: int) -> None:
        """Leaders are driven away from these stores."""
        self.cluster.document["evicted"] = list(ids)
        self.cluster.document["schedulers"][EVICT] = 0.0

    async def answer(self, request: Request) -> Reply:
        """As the leader of PD does."""
        match request.path:
            case "/status":
                return Reply.of({})
            case "/pd/api/v1/leader":
                url = f"http://127.0.0.1:{self.port}"
                return Reply.of({"name": "pd-1", "member_id": 1, "client_urls": [url]})
            case "/pd/api/v1/hotspot/regions/write":
                return Reply.of({"as_leader": self.hot})
        if request.path.startswith(f"{PREFIX}region/key/"):
            return Reply.of(self._holding(request.path.rpartition("/")[2]))
        reply = await self.pages.answer(request)
        if self.obedient:
            self.pages.schedule.tick()
            for operation in list(self.operations.running.values()):
                for step in operation.steps[operation.at :]:
                    self._obey(operation.region, step)
            self.operations.review()
        return reply

    def _holding(self, key: str) -> dict[str, Any] | None:
        for one in self.cluster.regions.values():
            if one["start_key"] <= key and (not one["end_key"] or key < one["end_key"]):
                return {"id": one["id"]}
        return None

    def _obey(self, rid: int, step: Step) -> None:
        regions = self.cluster.regions
        region = regions[rid]
        match step.do:
            case "transfer-leader":
                region["leader"] = step.store
            case "add-peer":
                region["peers"].append([step.peer, step.store])
            case "remove-peer":
                region["peers"] = [one for one in region["peers"] if one[1] != step.store]
            case "merge":
                target = regions[step.target]
                target["start_key"] = min(target["start_key"], region["start_key"])
                target["version"] += 2
                del regions[rid]
            case "split":
                middle, new = f"{region['start_key']}8", self.cluster.new_id()
                region["version"] += 1
                regions[new] = {**region, "id": new, "start_key": middle}
                region["end_key"] = middle

    def targets(self) -> Sequence[Target]:
        """Its PD, and three of its stores; nobody listed the fourth."""
        stores = [
            Target(f"store-{turn}", "store", host=f"10.0.0.{sid}", port=20160, runs_at=self.runs_at)
            for turn, sid in enumerate(STORES[:3], start=1)
        ]
        return (Target("pd-1", "pd", port=self.port), *stores)

    async def kill(self, target: str) -> None:
        """Nobody asks for that."""
        raise AssertionError(target)

    async def restart(self, target: str) -> Process:
        """Start it anew: PD hears of it at once."""
        self.restarts.append(target)
        if target.startswith("store"):
            self.beat(STORES[int(target[-1]) - 1], started=time.time())
        return Process(1, 0.0)

    async def run(self, action: Action, job: Job) -> Result:
        """Where commands end."""
        self.commands.append((action.target, *action.argv))
        if self.says.ok:
            self.beat(STORES[0], started=time.time())
        return self.says

    async def recover(self, action: Action, job: Job) -> Result:
        """Nobody asks for that."""
        raise AssertionError(action)

    @property
    def settings(self) -> SubjectSettings:
        """What the tools are given."""
        life = self if self.lives else None
        options = {"operator_s_max": 30.0, **self.options}
        return SubjectSettings("tikv", self.targets, SystemClock(), 20.0, options, str, self, life)

    async def use(self, tool: str, **arguments: Argument) -> Result:
        """Call a tool."""
        found = next(one for one in tikv_tools(self.settings) if one.spec.name == tool)
        return await found.call(arguments, Job(timeout_s=self.timeout_s))


def _region(number: int, leader: int) -> Region:
    return {
        "id": 100 + number,
        "start_key": f"{number:02X}" if number else "",
        "end_key": f"{number + 1:02X}" if number < 5 else "",
        "conf_ver": 1,
        "version": 1,
        "peers": [[1000 + 10 * number + sid, sid] for sid in STORES[:3]],
        "leader": leader,
        "term": 5,
        "size": 20,
        "pending": [],
        "down": [],
    }


@asynccontextmanager
async def small_pd() -> AsyncIterator[SmallPd]:
    """One that answers, until the test is over."""
    pd = SmallPd()
    async with serving(conversation(pd.answer)) as pd.port:
        pd.fill()
        yield pd
