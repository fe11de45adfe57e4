"""The heartbeat: another monitoring system hears of Operator only while the checks run."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from operator_protocols.domain.watcher import Watch
from operator_protocols.ports import Clock

__all__ = ["Heartbeat", "why_stalled"]

# So many intervals may pass without a check before the monitor counts as stalled.
INTERVALS_MAX = 3.0
SLACK_S = 15.0
log = logging.getLogger(__name__)


def why_stalled(watches: Sequence[Watch], since: datetime, now: datetime) -> str:
    """Why we are not really looking, or "". Pure; `since` is when watching began."""
    if not watches:
        return "nothing is watched"
    for watch in watches:
        last = watch.last_at or since
        if (now - last).total_seconds() > INTERVALS_MAX * watch.interval_s + SLACK_S:
            return f"the last check of {watch.subject} is too old"
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
        """Beat until cancelled; a failure is logged once, and the next beat is sent as usual."""
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
