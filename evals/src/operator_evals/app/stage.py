"""Only so many trials are measured at a time; others make their rigs or take them down meanwhile.

A trial and the process that started it meet by empty files in the folder of the trial.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from operator_evals.facts import TicketFact
from operator_evals.trial import Working

__all__ = ["Stage", "Staged", "ahead_of"]

READY, GO, LEFT = "ready", "go", "left"
POLL_S = 0.1


def ahead_of(places: int) -> int:
    """How many more trials keep so many places busy: a rig takes about as long as a trial."""
    return max(1, places - places // 4)


class Stage:
    """The places of the trials that are measured. `places` is how many there are."""

    def __init__(self, places: int) -> None:
        self._free = asyncio.Semaphore(places)

    @asynccontextmanager
    async def attend(self, folder: Path) -> AsyncIterator[None]:
        """Give the trial in this folder a place when it is ready, and take it back afterwards."""
        attending = asyncio.create_task(self._lead(folder))
        try:
            yield
        finally:
            attending.cancel()
            await asyncio.gather(attending, return_exceptions=True)

    async def _lead(self, folder: Path) -> None:
        await _until((folder / READY).exists)
        async with self._free:
            (folder / GO).touch()
            await _until((folder / LEFT).exists)


@dataclass(slots=True)
class Staged:
    """A variant that is measured only when its trial has a place; `waited_s` is for how long."""

    working: Working
    folder: Path
    first_s_max: float
    prepare: Callable[[], Awaitable[None]]
    waited_s: float = 0.0

    async def start(self) -> None:
        """Start it, let it check the rig once, prepare the trial, and wait for the place."""
        await self.working.start()
        with contextlib.suppress(TimeoutError):  # without a check the rig does not count as healthy
            async with asyncio.timeout(self.first_s_max):
                await _until(self.working.watching)
        await self.prepare()
        (self.folder / READY).touch()
        since = time.monotonic()
        await _until((self.folder / GO).exists)
        self.waited_s = round(time.monotonic() - since, 2)

    def watching(self) -> bool:
        """Whether the variant has checked the rig."""
        return self.working.watching()

    def tickets(self) -> Sequence[TicketFact]:
        """The tickets of its home."""
        return self.working.tickets()

    async def stop(self) -> None:
        """Leave the place, and end the variant."""
        with contextlib.suppress(OSError):
            (self.folder / LEFT).touch()
        await self.working.stop()


async def _until(holds: Callable[[], bool]) -> None:
    while True:
        if holds():
            return
        await asyncio.sleep(POLL_S)
