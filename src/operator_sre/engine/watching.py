"""When each subject is looked at: on its own beat, side by side; nobody waits for a slow one."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from operator_protocols.domain.watcher import Watcher
from operator_protocols.errors import OperatorError
from operator_protocols.ports import Clock, Watchers
from operator_sre.monitor import WatchStats

__all__ = ["Rounds"]

# So many subjects are looked at side by side; one that hangs holds its place until its time-out.
LOOKS_MAX = 256
# First looks are spread over so long at most, so that nobody waits for the first word.
SPREAD_S_MAX = 5.0
BEAT_S = 5.0
log = logging.getLogger(__name__)


@dataclass(slots=True)
class Rounds:
    """Looks at subjects, each on its interval, until cancelled.

    `look` looks once and files what it finds. Looks are due on a grid that does not drift, each up
    to `jitter` of its interval late, so that what is watched by many is not asked by all at once.
    """

    look: Callable[[str], Awaitable[object]]
    clock: Clock
    interval_of: Callable[[str], float]
    stats: WatchStats
    worker: str
    watchers: Watchers | None = None
    jitter: float = 0.0
    looks_max: int = LOOKS_MAX
    chance: Callable[[], float] = random.random
    _places: asyncio.Semaphore = field(init=False)

    def __post_init__(self) -> None:
        self._places = asyncio.Semaphore(self.looks_max)

    async def run(self, subjects: Sequence[str]) -> None:
        """Watch these subjects until cancelled."""
        started = self.clock.now()
        try:
            async with asyncio.TaskGroup() as group:
                for number, subject in enumerate(subjects):
                    wait_s = self._spread_s(subject, number, len(subjects))
                    self.stats.begin(subject, self.interval_of(subject))
                    group.create_task(self._follow(subject, wait_s))
                group.create_task(self._beat(started))
        finally:
            for subject in subjects:
                self.stats.end(subject)

    def _spread_s(self, subject: str, number: int, count: int) -> float:
        return min(self.interval_of(subject), SPREAD_S_MAX) * number / count

    async def _follow(self, subject: str, wait_s: float) -> None:
        interval_s = self.interval_of(subject)
        first = self.clock.monotonic() + wait_s
        due, turn = first, 0
        while True:
            await self.clock.sleep(max(0.0, due - self.clock.monotonic()))
            await self._look(subject)
            turn += 1
            late_s = self.clock.monotonic() - (first + turn * interval_s)
            if late_s >= interval_s:
                missed = int(late_s // interval_s)
                turn += missed
                self._miss(subject, missed, interval_s)
            due = first + turn * interval_s + self.chance() * self.jitter * interval_s

    async def _look(self, subject: str) -> None:
        async with self._places:
            started = self.clock.monotonic()
            try:
                await self.look(subject)
            except OperatorError as error:  # a full disk now is no reason not to look again later
                self._fail(subject, str(error))
            except Exception as error:  # noqa: BLE001  one broken subject must not blind us to all
                self._fail(subject, repr(error))
            else:
                took_s = self.clock.monotonic() - started
                self.stats.looked(subject, self.clock.now(), took_s)

    def _fail(self, subject: str, problem: str) -> None:
        self.stats.failed(subject)
        log.error("cannot watch %s: %s", subject, problem, extra={"subject": subject})

    def _miss(self, subject: str, count: int, interval_s: float) -> None:
        self.stats.missed(subject, count)
        log.warning(
            "%s took longer than its interval of %g s to look at: %d looks missed",
            subject,
            interval_s,
            count,
            extra={"subject": subject},
        )

    async def _beat(self, started: datetime) -> None:
        """Say again and again that we are here, so that silence means that nobody is."""
        if self.watchers is None:
            return
        try:
            while True:
                me = Watcher(self.worker, started, self.clock.now(), tuple(self.stats.watches()))
                try:
                    await self.watchers.beat(me)
                except OperatorError as error:  # the store may be back at the next beat
                    log.error("cannot say that we watch: %s", error)
                await self.clock.sleep(BEAT_S)
        finally:
            await self._leave()

    async def _leave(self) -> None:
        assert self.watchers is not None
        try:
            await asyncio.shield(self.watchers.leave(self.worker))
        except OperatorError as error:
            log.error("cannot say that we stop watching: %s", error)
