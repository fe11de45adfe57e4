"""Clocks that a test holds in its hand."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

__all__ = ["NOON", "HeldClock", "LeapingClock"]

NOON = datetime(2026, 3, 4, 12, 0, 0, tzinfo=UTC)


@dataclass(frozen=True, slots=True, eq=False)
class _Sleeper:
    for_s: float
    until: float
    woken: asyncio.Future[None]


class HeldClock:
    """Time stands still until the test moves it; then whoever's time has come wakes up."""

    def __init__(self, at: datetime = NOON) -> None:
        self._at = at
        self._elapsed_s = 0.0
        self._sleepers: list[_Sleeper] = []
        self._watchers: list[tuple[int, float | None, asyncio.Future[None]]] = []

    def now(self) -> datetime:
        """The wall clock, aware, in UTC."""
        return self._at + timedelta(seconds=self._elapsed_s)

    def monotonic(self) -> float:
        """Seconds that never go back."""
        return self._elapsed_s

    async def sleep(self, seconds: float) -> None:
        """Wait until the test has moved time that far."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        woken = asyncio.get_running_loop().create_future()
        sleeper = _Sleeper(seconds, self._elapsed_s + seconds, woken)
        self._sleepers.append(sleeper)
        self._tell_watchers()
        try:
            await sleeper.woken
        finally:
            if sleeper in self._sleepers:
                self._sleepers.remove(sleeper)

    def advance(self, seconds: float) -> None:
        """Move time on, and wake whoever is due."""
        self._elapsed_s += seconds
        for sleeper in [one for one in self._sleepers if one.until <= self._elapsed_s]:
            self._sleepers.remove(sleeper)
            if not sleeper.woken.done():
                sleeper.woken.set_result(None)

    async def asleep(self, count: int = 1, *, for_s: float | None = None) -> None:
        """Wait until so many sleep, for so long; what they did before has been done."""
        if self._count(for_s) < count:
            waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._watchers.append((count, for_s, waiting))
            await waiting

    def _count(self, for_s: float | None) -> int:
        return sum(for_s is None or sleeper.for_s == for_s for sleeper in self._sleepers)

    def _tell_watchers(self) -> None:
        for watcher in list(self._watchers):
            count, for_s, waiting = watcher
            if self._count(for_s) >= count:
                self._watchers.remove(watcher)
                if not waiting.done():
                    waiting.set_result(None)


class LeapingClock(HeldClock):
    """Whoever sleeps moves time, so that a single loop runs through hours at once."""

    async def sleep(self, seconds: float) -> None:
        """Leap over the wait; others get their turn."""
        self.advance(max(0.0, seconds))
        await asyncio.sleep(0)
