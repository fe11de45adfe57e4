"""Whose turn it is to change something about a subject: one change at a time, for everybody."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from operator_protocols.domain.limits import BUSY, Limits

if TYPE_CHECKING:
    from operator_protocols.domain.action import Result
    from operator_protocols.domain.verdict import Verdict
    from operator_protocols.ports import Changes, Clock

__all__ = ["Turns", "came_late", "refused_as_busy"]

# How long a change waits for another of the same subject, and how often it looks.
BUSY_S_MAX, BUSY_POLL_S = 600.0, 0.2


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


def refused_as_busy(verdict: Verdict, why: str) -> Result:
    """The refusal of a change against which there is nothing but another one that runs."""
    return replace(verdict.refusal(why), data={BUSY: True})


def came_late(refused: Result) -> bool:
    """Whether a change was refused only because another one was quicker.

    Never told by the words: they hold what commands are called and what people say.
    """
    return refused.data.get(BUSY) is True
