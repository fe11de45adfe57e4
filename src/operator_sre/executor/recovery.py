"""Intents that nobody ended: looked at once their operator is gone, never run again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from operator_protocols.domain.action import Result
from operator_protocols.domain.entry import Entry
from operator_protocols.domain.target import Initiator
from operator_protocols.errors import OperatorError
from operator_protocols.ports import Intents
from operator_sre.codec import from_json
from operator_sre.executor.execute import Executor
from operator_sre.processes.identity import alive

__all__ = ["Recovery", "abandoned"]

log = logging.getLogger(__name__)


def abandoned(intent: Entry, here: Initiator) -> bool:
    """Whoever began it on this machine is gone; what began elsewhere is not for us to say."""
    told = intent.payload.get("doer")
    if told is None:
        return False
    initiator = from_json(Initiator, told)
    if initiator.host != here.host:
        return False
    return initiator.boot != here.boot or not alive(initiator.process)


@dataclass(frozen=True, slots=True)
class Recovery:
    """Looks after what was left open. `executor` is the one for the subject of an intent."""

    intents: Intents
    initiator: Initiator
    executor: Callable[[Entry], Executor]

    def open(self) -> list[Entry]:
        """The intents whose operator is gone."""
        return [one for one in self.intents.open() if abandoned(one, self.initiator)]

    async def settle(self, *, wait_s: float) -> dict[int, Result | None]:
        """Record what became of each, by its entry; None where it still runs after `wait_s`.

        What still runs is left to run: its limits hold, and the next look finds it again.
        """
        looks = {one.seq: asyncio.ensure_future(self._look(one)) for one in self.open()}
        if not looks:
            return {}
        _, waiting = await asyncio.wait(looks.values(), timeout=wait_s)
        for look in waiting:
            look.cancel()
        if waiting:
            await asyncio.wait(waiting)
        return {seq: None if look.cancelled() else look.result() for seq, look in looks.items()}

    async def _look(self, intent: Entry) -> Result | None:
        try:
            result, _ = await self.executor(intent).recover(intent)
        except OperatorError as error:  # its subject may be gone; the next look may do better
            log.error("cannot look after entry %d: %s", intent.seq, error)
            return None
        return result
