"""Faults of what PD was told: leaders kept away, nobody who balances, a deed that never ends."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from operator_protocols.errors import RigError
from operator_protocols.ports import Fault, Scene
from operator_sre.subjects.tikv.kinds import PD, STORE
from operator_sre.subjects.tikv.state import EVICT_LEADER
from operator_sre.subjects.tikv.witness import Witness, witness

__all__ = ["LEADER_IMBALANCE", "SCHEDULER_LEFT", "SPLIT_IGNORED"]

BALANCE_LEADER = "balance-leader-scheduler"
YEAR_S = 365 * 24 * 3600
# PD itself leaves counts alone that differ by ten.
SPREAD_MAX = 14
AT_ONCE = 8
SPLIT = "admin-split-region"


async def _keep_leaders_away(scene: Scene) -> Mapping[str, str]:
    """As somebody does before they work on a store, who then forgets that they did."""
    async with witness(scene) as sees:
        number = await sees.id_of(scene.target)
        wish = {"name": EVICT_LEADER, "store_id": number}
        await sees.do("POST", "schedulers", wish)
    return {"store": str(number)}


async def _let_lead(scene: Scene) -> None:
    if await _kept_away(scene):
        async with witness(scene) as sees:
            await sees.do("DELETE", f"schedulers/{EVICT_LEADER}-{scene.notes['store']}")


async def _kept_away(scene: Scene) -> str:
    """The store may lead again, by PD's own list."""
    async with witness(scene) as sees:
        evicted = await sees.evicted()
    if evicted is None:
        return "PD does not tell its schedulers"
    kept = int(scene.notes["store"]) in evicted
    return f"leaders are kept away from {scene.target.name}" if kept else ""


async def _pile_up(scene: Scene) -> Mapping[str, str]:
    """Nobody balances leaders, and one store leads everything."""
    async with witness(scene) as sees:
        await sees.do("POST", f"schedulers/{BALANCE_LEADER}", {"delay": YEAR_S})
        number = await sees.id_of(scene.target)
        listed = await sees.get("regions")
        regions = listed.get("regions", []) if isinstance(listed, dict) else []
        elsewhere = [one["id"] for one in regions if one["leader"].get("store_id") != number]
        for start in range(0, len(elsewhere), AT_ONCE):
            batch = elsewhere[start : start + AT_ONCE]
            await asyncio.gather(*(_move(sees, region, number) for region in batch))

        async def piled() -> bool:
            return await sees.spread() > len(regions) // 2

        await sees.until(piled, f"The leaders do not come to {scene.target.name}")
    return {}


async def _move(sees: Witness, region: int, store: int) -> None:
    wish = {"name": "transfer-leader", "region_id": region, "to_store_id": store}
    await sees.do("POST", "operators", wish)


async def _balance(scene: Scene) -> None:
    async with witness(scene) as sees:
        if await _not_balanced_by(sees):
            await sees.do("POST", f"schedulers/{BALANCE_LEADER}", {"delay": 0})


async def _unbalanced(scene: Scene) -> str:
    """Somebody balances again, and it shows."""
    async with witness(scene) as sees:
        if said := await _not_balanced_by(sees):
            return said
        spread = await sees.spread()
    if spread < 0:
        return "PD does not tell its stores"
    return f"the stores differ by {spread} leaders" if spread > SPREAD_MAX else ""


async def _not_balanced_by(sees: Witness) -> str:
    there, paused = await sees.get("schedulers"), await sees.get("schedulers?status=paused")
    if not isinstance(there, list) or not isinstance(paused, list | None):
        return "PD does not tell its schedulers"
    if BALANCE_LEADER not in there:
        return f"{BALANCE_LEADER} is gone"
    return f"{BALANCE_LEADER} is paused" if BALANCE_LEADER in (paused or ()) else ""


async def _ask_in_vain(scene: Scene) -> Mapping[str, str]:
    """A split without a key, which every store ignores; the larger the region, the longer it is."""
    async with witness(scene) as sees:
        listed = await sees.get("regions/size?limit=1")
        regions = listed.get("regions", []) if isinstance(listed, dict) else []
        if not regions:
            raise RigError("PD tells of no region.")
        region = int(regions[0]["id"])
        wish = {"name": "split-region", "region_id": region, "policy": "usekey", "keys": []}
        await sees.do("POST", "operators", wish)
    return {"region": str(region)}


async def _call_off(scene: Scene) -> None:
    if await _waits(scene):
        async with witness(scene) as sees:
            await sees.do("DELETE", f"operators/{scene.notes['region']}")


async def _waits(scene: Scene) -> str:
    """Nobody waits for that split any more, by PD's own list."""
    async with witness(scene) as sees:
        listed = await sees.get("operators")
    if not isinstance(listed, list):
        return "PD does not tell its operators"
    of_it = [one for one in listed if f"region:{scene.notes['region']}(" in str(one)]
    still = any(str(one).startswith(SPLIT) for one in of_it)
    return f"region {scene.notes['region']} is still to be split" if still else ""


SCHEDULER_LEFT = Fault(
    name="scheduler_left",
    sentence="Leaders are kept away from one store that is well.",
    kind=STORE,
    breaks=("scheduler_left",),
    inject=_keep_leaders_away,
    heal=_let_lead,
    oracle=_kept_away,
)
LEADER_IMBALANCE = Fault(
    name="leader_imbalance",
    sentence="One store leads nearly everything, and the scheduler that balances is paused.",
    kind=STORE,
    breaks=("leader_imbalance", "schedulers_idle"),
    inject=_pile_up,
    heal=_balance,
    oracle=_unbalanced,
)
SPLIT_IGNORED = Fault(
    name="split_ignored",
    sentence="PD waits for a split of a region that no store will do.",
    kind=PD,
    breaks=("operator_stuck",),
    inject=_ask_in_vain,
    heal=_call_off,
    oracle=_waits,
)
