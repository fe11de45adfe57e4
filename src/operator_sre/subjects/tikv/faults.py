"""Ways to break a TiKV cluster, each with its repair and an independent check of its end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

from operator_protocols.domain.target import Target
from operator_protocols.errors import RigError
from operator_protocols.faults import (
    cut_fault,
    fill_fault,
    flood_fault,
    kill_fault,
    limit_fault,
    occupy_fault,
    pause_fault,
    slow_fault,
)
from operator_protocols.ports import CorrectOutcome, Fault, Scene, SubjectSettings
from operator_sre.clock import SystemClock
from operator_sre.subjects.tikv.client import Pd
from operator_sre.subjects.tikv.kinds import PD, STORE, addresses_of
from operator_sre.subjects.tikv.state import (
    EVICT_LEADER,
    Store,
    evicting_from,
    members_from,
    stores_from,
)

__all__ = ["FAULTS"]

ANSWER_S_MAX = 5.0
SETTLE_S_MAX = 20.0
POLL_S = 0.2
# There and back it is more than the rig allows a request to take.
SLOW_S = 1.2
# Fewer than it has open already, so that it can open no more.
FILES_MAX = 4
BALANCE_LEADER = "balance-leader-scheduler"
YEAR_S = 365 * 24 * 3600
# PD itself leaves counts alone that differ by ten.
SPREAD_MAX = 14
AT_ONCE = 8
SPLIT = "admin-split-region"
# What a cluster is without while a store is away; PD may just have asked it for something.
AWAY = (
    "store_down",
    "store_disconnected",
    "store_unreachable",
    "peers_unreachable",
    "regions_without_leader",
    "under_replicated",
    "operator_stuck",
)


class _ScenePd:
    """Asks PD about one scene, independently of the subject."""

    def __init__(self, scene: Scene) -> None:
        settings = SubjectSettings(
            "tikv", lambda: scene.targets, SystemClock(), ANSWER_S_MAX, {}, life=scene.rig
        )
        self._scene, self._pd = scene, Pd(settings)

    async def leader(self) -> Target | None:
        """The member of PD that leads, by the word of PD."""
        members = members_from((await self._pd.ask("members")).body)
        name = members.leader if members is not None else ""
        return next((member for member in self._scene.of_kind(PD) if member.name == name), None)

    async def hand_over(self, heir: Target) -> None:
        """Let this member of PD lead; nothing happens when it does."""
        now = await self.leader()
        if now is None:
            raise RigError("PD has no leader, so leadership cannot be transferred.")
        if now.name == heir.name:
            return
        await self.do("POST", f"leader/transfer/{heir.name}")

        async def leads() -> bool:
            leader = await self.leader()
            return leader is not None and leader.name == heir.name

        await self.wait_until(leads, f"{heir.name} does not come to lead PD")

    async def stores(self) -> dict[str, Store]:
        """The stores of the scene as PD has them, by the names of their targets."""
        listed = stores_from((await self._pd.ask("stores")).body) or ()
        names = {
            address: target.name
            for target in self._scene.of_kind(STORE)
            for address in addresses_of(target)
        }
        return {names[store.address]: store for store in listed if store.address in names}

    async def target_id(self) -> int:
        """The number of the scene's store; RigError when PD does not tell."""
        store = (await self.stores()).get(self._scene.target.name)
        if store is None:
            raise RigError(f"PD does not know of {self._scene.target.name}.")
        return store.id

    async def spread(self) -> int:
        """By how many leaders the stores differ; -1 where PD does not tell."""
        counts = [store.leader_count for store in (await self.stores()).values()]
        return max(counts) - min(counts) if counts else -1

    async def get(self, path: str) -> Any:
        """What PD says; None when it does not."""
        answer = await self._pd.ask(path)
        return answer.body if answer.ok else None

    async def regions(self, path: str) -> list[Any]:
        """The regions in an answer of PD."""
        listed = await self.get(path)
        return listed.get("regions", []) if isinstance(listed, dict) else []

    async def do(self, method: str, path: str, body: Mapping[str, object] | None = None) -> None:
        """Send it to PD, or raise RigError with PD's answer."""
        answer = await self._pd.ask(path, method=method, body=body)
        if not answer.ok:
            raise RigError(f"PD did not do {path!r}: {answer.error}.")

    async def wait_until(self, holds: Callable[[], Awaitable[bool]], problem: str) -> None:
        """Wait until it holds; RigError with the problem when it does not."""
        for _ in range(int(SETTLE_S_MAX / POLL_S)):
            if await holds():
                return
            await asyncio.sleep(POLL_S)
        raise RigError(f"{problem}.")

    async def find_balance_problem(self) -> str:
        """Why no scheduler balances leaders; "" where one does."""
        there, paused_ = await self.get("schedulers"), await self.get("schedulers?status=paused")
        if not isinstance(there, list) or not isinstance(paused_, list | None):
            return "PD does not tell its schedulers"
        if BALANCE_LEADER not in there:
            return f"{BALANCE_LEADER} is gone"
        return f"{BALANCE_LEADER} is paused" if BALANCE_LEADER in (paused_ or ()) else ""


def _aim_at_pd(fault: Fault, *, leads: bool, sentence: str) -> Fault:
    """The same fault at a member of PD that leads, or does not, whichever led before."""

    async def inject(scene: Scene) -> Mapping[str, str]:
        pd = _ScenePd(scene)
        leader = await pd.leader()
        if leads:
            await pd.hand_over(scene.target)
        elif leader is not None and leader.name == scene.target.name:
            others = [member for member in scene.of_kind(PD) if member.name != leader.name]
            await pd.hand_over(others[0])
        return await fault.inject(scene)

    return replace(fault, inject=inject, sentence=sentence)


def _scheduler_left() -> Fault:
    async def inject(scene: Scene) -> Mapping[str, str]:
        """Someone sets this before they work on a store, and forgets it afterwards."""
        pd = _ScenePd(scene)
        id_ = await pd.target_id()
        await pd.do("POST", "schedulers", {"name": EVICT_LEADER, "store_id": id_})
        return {"store": str(id_)}

    async def heal(scene: Scene) -> None:
        if await oracle(scene):
            path = f"schedulers/{EVICT_LEADER}-{scene.notes['store']}"
            await _ScenePd(scene).do("DELETE", path)

    async def oracle(scene: Scene) -> str:
        """The store may lead again, by PD's own list."""
        pd = _ScenePd(scene)
        names = await pd.get("schedulers")
        evicted: frozenset[int] | None = frozenset()
        if not isinstance(names, list):
            evicted = None
        elif EVICT_LEADER in names:
            evicted = evicting_from(await pd.get(f"scheduler-config/{EVICT_LEADER}/list"))
        if evicted is None:
            return "PD does not tell its schedulers"
        kept = int(scene.notes["store"]) in evicted
        return f"leaders are kept away from {scene.target.name}" if kept else ""

    return Fault(
        name="scheduler_left",
        sentence="Leaders are kept away from one healthy store.",
        kind=STORE,
        breaks=("scheduler_left",),
        inject=inject,
        heal=heal,
        oracle=oracle,
    )


def _leader_imbalance() -> Fault:
    async def inject(scene: Scene) -> Mapping[str, str]:
        """No scheduler balances leaders, and one store leads everything."""
        pd = _ScenePd(scene)
        await pd.do("POST", f"schedulers/{BALANCE_LEADER}", {"delay": YEAR_S})
        store = await pd.target_id()
        regions = await pd.regions("regions")
        elsewhere = [
            region["id"] for region in regions if region["leader"].get("store_id") != store
        ]
        moves = [
            {"name": "transfer-leader", "region_id": region, "to_store_id": store}
            for region in elsewhere
        ]
        for start in range(0, len(moves), AT_ONCE):
            batch = moves[start : start + AT_ONCE]
            await asyncio.gather(*(pd.do("POST", "operators", move) for move in batch))

        async def is_piled_up() -> bool:
            return await pd.spread() > len(regions) // 2

        await pd.wait_until(is_piled_up, f"The leaders do not come to {scene.target.name}")
        return {}

    async def heal(scene: Scene) -> None:
        pd = _ScenePd(scene)
        if await pd.find_balance_problem():
            await pd.do("POST", f"schedulers/{BALANCE_LEADER}", {"delay": 0})

    async def oracle(scene: Scene) -> str:
        """A scheduler balances again, and the numbers show it."""
        pd = _ScenePd(scene)
        if problem := await pd.find_balance_problem():
            return problem
        spread = await pd.spread()
        if spread < 0:
            return "PD does not tell its stores"
        return f"the stores differ by {spread} leaders" if spread > SPREAD_MAX else ""

    return Fault(
        name="leader_imbalance",
        sentence="One store leads nearly everything, and the scheduler that balances is paused.",
        kind=STORE,
        breaks=("leader_imbalance", "schedulers_idle"),
        inject=inject,
        heal=heal,
        oracle=oracle,
    )


def _split_ignored() -> Fault:
    async def inject(scene: Scene) -> Mapping[str, str]:
        """A split without a key, which stores ignore; the larger the region, the longer it is."""
        pd = _ScenePd(scene)
        regions = await pd.regions("regions/size?limit=1")
        if not regions:
            raise RigError("PD tells of no region.")
        region = int(regions[0]["id"])
        wish = {"name": "split-region", "region_id": region, "policy": "usekey", "keys": []}
        await pd.do("POST", "operators", wish)
        return {"region": str(region)}

    async def heal(scene: Scene) -> None:
        if await oracle(scene):
            await _ScenePd(scene).do("DELETE", f"operators/{scene.notes['region']}")

    async def oracle(scene: Scene) -> str:
        """No region waits for that split any more, by PD's own list."""
        listed = await _ScenePd(scene).get("operators")
        if not isinstance(listed, list):
            return "PD does not tell its operators"
        region = f"region:{scene.notes['region']}("
        still = any(text.startswith(SPLIT) and region in text for text in map(str, listed))
        return f"region {scene.notes['region']} is still to be split" if still else ""

    return Fault(
        name="split_ignored",
        sentence="PD waits for a region split that no store executes.",
        kind=PD,
        breaks=("operator_stuck",),
        inject=inject,
        heal=heal,
        oracle=oracle,
    )


PD_FAULTS: tuple[Fault, ...] = (
    _aim_at_pd(
        kill_fault("pd_leader_kill", PD, breaks=("pd_member_down", "pd_no_leader")),
        leads=True,
        sentence="The PD leader is killed.",
    ),
    _aim_at_pd(
        pause_fault("pd_leader_pause", PD, breaks=("pd_member_down", "pd_no_leader")),
        leads=True,
        sentence="The PD leader is frozen.",
    ),
    _aim_at_pd(
        kill_fault("pd_member_kill", PD, breaks=("pd_member_down",)),
        leads=False,
        sentence="A PD member that is not the leader is killed.",
    ),
    # Members that are lost may have to be replaced by force, which is for people to decide.
    replace(
        kill_fault("pd_quorum_lost", PD, breaks=("pd_no_leader", "pd_member_down"), count=2),
        end=CorrectOutcome.ESCALATED,
        sentence="Two PD members are killed, and the remaining one cannot lead.",
    ),
)

FAULTS: tuple[Fault, ...] = (
    kill_fault("node_kill", STORE, breaks=AWAY),
    kill_fault("stores_kill", STORE, breaks=AWAY, count=2),
    pause_fault("node_pause", STORE, breaks=AWAY),
    slow_fault("latency", STORE, breaks=("high_latency",), delay_s=SLOW_S, others=(STORE,)),
    cut_fault(
        "network_partition",
        STORE,
        breaks=("store_disconnected", "store_down", *AWAY[2:]),
        others=(PD,),
    ),
    cut_fault("network_isolation", STORE, breaks=AWAY),
    cut_fault(
        "peers_cut",
        STORE,
        breaks=("peers_unreachable", "high_latency", *AWAY[4:], "leader_imbalance"),
        others=(STORE,),
    ),
    replace(
        fill_fault("disk_pressure", STORE, breaks=("low_disk_space",)), end=CorrectOutcome.ESCALATED
    ),
    limit_fault("file_descriptors", STORE, breaks=AWAY, files=FILES_MAX),
    # Whose process holds the port, and whether it may go, is known to people only.
    replace(occupy_fault("port_taken", STORE, breaks=AWAY), end=CorrectOutcome.ESCALATED),
    flood_fault("log_flood", STORE, breaks=("log_oversized",)),
    *PD_FAULTS,
    _scheduler_left(),
    _leader_imbalance(),
    _split_ignored(),
)
