"""Intents without an outcome: recovered once their process is gone, never repeated."""

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

__all__ = ["Recovery", "is_abandoned"]

log = logging.getLogger(__name__)


def is_abandoned(intent: Entry, here: Initiator) -> bool:
    """True if its process on this machine is gone. Intents of other machines are not ours."""
    payload = intent.payload.get("doer")
    if payload is None:
        return False
    initiator = from_json(Initiator, payload)
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
        return [each for each in self.intents.open() if is_abandoned(each, self.initiator)]

    async def settle(self, *, wait_s: float) -> dict[int, Result | None]:
        """Record what became of each, by its entry; None where it still runs after `wait_s`.

        A command that still runs is left alone: its limits apply, and the next check finds it.
        """
        looks = {each.seq: asyncio.ensure_future(self._look(each)) for each in self.open()}
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
        except OperatorError as error:  # its subject may be gone; the next check may succeed
            log.error("cannot recover the action of entry %d: %s", intent.seq, error)
            return None
        return result
