"""Whose turn it is to change something about a subject: one change at a time, for everybody."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from operator_protocols.domain.action import Result
from operator_protocols.domain.limits import Limits
from operator_protocols.ports import Changes, Clock

__all__ = ["Turns", "came_late"]

# How long a change waits for another of the same subject, and how often it looks.
BUSY_S_MAX, BUSY_POLL_S = 600.0, 0.2
# What limits say of a change that came while another ran.
BUSY = "another change of"


@dataclass(frozen=True, slots=True)
class Turns:
    """The turn of one subject, as all processes on one store see it."""

    subject: str
    changes: Changes
    limits: Callable[[], Limits]
    clock: Clock

    async def free(self) -> bool:
        """Wait while somebody else changes something, but not for ever; False at once if not."""
        deadline = self.clock.monotonic() + BUSY_S_MAX
        waited = False
        while self.clock.monotonic() < deadline:
            limits = self.limits()
            usage = self.changes.usage(self.subject, limits, now=self.clock.now())
            if not limits.busy(usage):
                break
            waited = True
            await self.clock.sleep(BUSY_POLL_S)
        return waited


def came_late(refused: Result) -> bool:
    """Whether a change was refused only because another one was quicker."""
    return BUSY in refused.stderr
