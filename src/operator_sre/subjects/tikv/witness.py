"""What an independent look shows of a rig's cluster: plain questions to PD."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from operator_protocols.domain.target import Target
from operator_protocols.errors import RigError
from operator_protocols.ports import Scene, SubjectSettings
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

__all__ = ["Witness", "witness"]

ANSWER_S_MAX = 5.0
SETTLE_S_MAX = 20.0
POLL_S = 0.2


class Witness:
    """Asks PD about one scene."""

    def __init__(self, scene: Scene, pd: Pd) -> None:
        self._scene, self._pd = scene, pd

    async def leader(self) -> Target | None:
        """The member of PD that leads, by the word of PD."""
        members = members_from((await self._pd.ask("members")).body)
        named = members.leader if members is not None else ""
        return next((one for one in self._scene.of_kind(PD) if one.name == named), None)

    async def lead(self, heir: Target) -> None:
        """Let this member of PD lead; nothing happens when it does."""
        now = await self.leader()
        if now is None:
            raise RigError("Nobody leads PD, so nobody can hand over.")
        if now.name == heir.name:
            return
        await self.do("POST", f"leader/transfer/{heir.name}")

        async def leads() -> bool:
            found = await self.leader()
            return found is not None and found.name == heir.name

        await self.until(leads, f"{heir.name} does not come to lead PD")

    async def stores(self) -> dict[str, Store]:
        """The stores of the scene as PD has them, by the names of their targets."""
        listed = stores_from((await self._pd.ask("stores")).body) or ()
        targets = {place: one for one in self._scene.of_kind(STORE) for place in addresses_of(one)}
        return {targets[one.address].name: one for one in listed if one.address in targets}

    async def id_of(self, target: Target) -> int:
        """The number of a store; RigError when PD does not tell."""
        found = (await self.stores()).get(target.name)
        if found is None:
            raise RigError(f"PD does not know of {target.name}.")
        return found.id

    async def spread(self) -> int:
        """By how many leaders the stores differ; -1 where PD does not tell."""
        counts = [one.leader_count for one in (await self.stores()).values()]
        return max(counts) - min(counts) if counts else -1

    async def evicted(self) -> frozenset[int] | None:
        """The stores that must not lead, by their numbers; None when PD does not tell."""
        names = await self.get("schedulers")
        if not isinstance(names, list):
            return None
        if EVICT_LEADER not in names:
            return frozenset()
        return evicting_from(await self.get(f"scheduler-config/{EVICT_LEADER}/list"))

    async def get(self, path: str) -> Any:
        """What PD says; None when it does not."""
        answer = await self._pd.ask(path)
        return answer.body if answer.ok else None

    async def do(self, method: str, path: str, body: Mapping[str, object] | None = None) -> None:
        """Have it done, or RigError with what PD said."""
        answer = await self._pd.ask(path, method=method, body=body)
        if not answer.ok:
            raise RigError(f"PD did not do {path!r}: {answer.error}.")

    async def until(self, holds: Callable[[], Awaitable[bool]], problem: str) -> None:
        """Wait until it holds; RigError with the problem when it does not."""
        for _ in range(int(SETTLE_S_MAX / POLL_S)):
            if await holds():
                return
            await asyncio.sleep(POLL_S)
        raise RigError(f"{problem}.")


@asynccontextmanager
async def witness(scene: Scene) -> AsyncIterator[Witness]:
    """Somebody who asks, with connections of their own."""
    settings = SubjectSettings(
        "tikv", lambda: scene.targets, SystemClock(), ANSWER_S_MAX, {}, life=scene.rig
    )
    async with Pd(settings) as pd:
        yield Witness(scene, pd)
