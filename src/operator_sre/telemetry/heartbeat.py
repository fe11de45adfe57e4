"""The dead man's heartbeat: somebody else is told that we look, only while we really do."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from operator_protocols.domain.watcher import Watch
from operator_protocols.ports import Clock

__all__ = ["Heartbeat", "why_stalled"]

# So many intervals may pass without a look before we are taken to be stuck.
INTERVALS_MAX = 3.0
SLACK_S = 15.0
log = logging.getLogger(__name__)


def why_stalled(watches: Sequence[Watch], since: datetime, now: datetime) -> str:
    """Why we are not really looking, or "". Pure; `since` is when watching began."""
    if not watches:
        return "nothing is watched"
    for one in watches:
        last = one.last_at or since
        if (now - last).total_seconds() > INTERVALS_MAX * one.interval_s + SLACK_S:
            return f"the last check of {one.subject} is too old"
    if not any(watch.last_at for watch in watches):
        return "no check has finished yet"
    return ""


@dataclass(slots=True)
class Heartbeat:
    """Calls `beat` every so often. `beat` says why it could not, or ""."""

    watches: Callable[[], Sequence[Watch]]
    beat: Callable[[], Awaitable[str]]
    clock: Clock
    every_s: float
    problem: str = ""

    async def run(self) -> None:
        """Until cancelled; what goes wrong is told once, and the next beat is tried as ever."""
        since = self.clock.now()
        while True:
            why = why_stalled(self.watches(), since, self.clock.now())
            if why:
                why = f"no heartbeat, because {why}"
            elif why := await self.beat():
                why = f"the heartbeat was not taken: {why}"
            if why and why != self.problem:
                log.warning("%s", why)
            self.problem = why
            # Soon again until the first one, so that a restart is not taken for a death.
            await self.clock.sleep(min(1.0, self.every_s) if why else self.every_s)
