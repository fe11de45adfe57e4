"""Faults of a database that is full of history."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping

from operator_protocols.errors import RigError
from operator_protocols.ports import Fault, Scene
from operator_sre.subjects.etcd.members import KIND
from operator_sre.subjects.etcd.witness import Witness, witness

__all__ = ["COMPACTION_LAG", "QUOTA_REACHED"]

QUOTA_VALUE_BYTES = 48 * 1024
LAG_VALUE_BYTES = 24 * 1024  # many enough to be mostly history before they are near to the quota
WRITERS = 8
KEYS = 6
WRITES_MAX = 8_000
LAG_RATIO = 0.4  # of the quota: more than history may take, less than is near to it
HISTORY_RATIO_MAX = 0.25
SIZE_RATIO_MAX = 0.8

Enough = Callable[[], Awaitable[bool]]


async def _reach_quota(scene: Scene) -> Mapping[str, str]:
    """Write the same few keys until nothing more is taken."""
    async with witness(scene) as sees:

        async def refused() -> bool:
            # A slow member refuses as well, so a refusal alone does not say that it is full.
            problem = await sees.put(scene.target, "shop/stock/0", bytes(QUOTA_VALUE_BYTES))
            return bool(problem) and "NOSPACE" in await sees.alarms()

        await _write_until(sees, refused, QUOTA_VALUE_BYTES)
    return {}


async def _keep_history(scene: Scene) -> Mapping[str, str]:
    """Write the same few keys until their history takes a good part of the quota."""
    async with witness(scene) as sees:

        async def enough() -> bool:
            return await sees.in_use_ratio() > LAG_RATIO

        await _write_until(sees, enough, LAG_VALUE_BYTES)
    return {}


async def _write_until(sees: Witness, enough: Enough, size_bytes: int) -> None:
    done = 0
    while done < WRITES_MAX:
        if await enough():
            return
        await asyncio.gather(*(_some(sees, turn, size_bytes) for turn in range(WRITERS)))
        done += WRITERS * KEYS
    raise RigError(f"{WRITES_MAX} writes were not enough.")


async def _some(sees: Witness, turn: int, size_bytes: int) -> None:
    target = sees.members[turn % len(sees.members)]
    for key in range(KEYS):
        await sees.put(target, f"shop/stock/{key}", secrets.token_bytes(size_bytes))


async def _free(scene: Scene) -> None:
    """Forget all history, give the space back, and take the alarms back."""
    async with witness(scene) as sees:
        first = sees.members[0]
        await sees.compact(first)
        for target in sees.members:
            await sees.do(target, "maintenance/defragment")
        told = await sees.do(first, "maintenance/alarm", action="GET")
        for alarm in told.get("alarms", []):
            await sees.do(first, "maintenance/alarm", **{**alarm, "action": "DEACTIVATE"})


async def _has_room(scene: Scene) -> str:
    """No alarm, files well below the quota, and a write that is taken."""
    async with witness(scene) as sees:
        if alarms := await sees.alarms():
            return f"there are alarms: {', '.join(alarms)}"
        if (ratio := await sees.size_ratio()) > SIZE_RATIO_MAX:
            return f"a file takes {ratio:.0%} of its quota"
        if problem := await sees.put(scene.target, "shop/open", b"yes"):
            return f"a write is refused: {problem}"
    return ""


async def _is_compacted(scene: Scene) -> str:
    """Little of the quota is in use."""
    async with witness(scene) as sees:
        ratio = await sees.in_use_ratio()
    return "" if ratio < HISTORY_RATIO_MAX else f"{ratio:.0%} of the quota are in use"


QUOTA_REACHED = Fault(
    name="quota_reached",
    sentence="The history of a few keys has used the quota of the database up.",
    kind=KIND,
    breaks=("alarm_raised", "database_near_quota", "slow_write", "compaction_lag"),
    inject=_reach_quota,
    heal=_free,
    oracle=_has_room,
)
COMPACTION_LAG = Fault(
    name="compaction_lag",
    sentence="The history of a few keys is kept and takes a good part of the quota.",
    kind=KIND,
    breaks=("compaction_lag",),
    inject=_keep_history,
    heal=_free,
    oracle=_is_compacted,
)
