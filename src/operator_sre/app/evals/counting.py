"""Who counts, beside a trial, what the rig has promised to keep and does not have any more."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from operator_protocols.ports import Depot
from operator_sre.app.evals.places import RigOfTrial
from operator_sre.app.wiring import App
from operator_sre.evals.facts import TicketFact
from operator_sre.evals.trial import Working

__all__ = ["Counted", "Counting", "Watched", "depot_of"]

EVERY_S = 0.5
ANSWER_S_MAX = 1.0
PUT_S_MAX = 4.0
READ_S_MAX = 4.0
AGAIN_S = 0.3
# What a trial of half an hour has; a longer one is not watched to its end.
MARKS_MAX = 4_000


@dataclass(frozen=True, slots=True)
class Counted:
    """How many writes were acknowledged; how many are surely gone; of how many nobody can tell."""

    acknowledged: int = 0
    lost: int = 0
    unread: int = 0


class Counting:
    """Has marks kept from `start` to `stop`, and asks then which of them are gone.

    The depot is asked for when it begins, because there is a rig only then. None: the subject does
    not promise to keep anything.
    """

    def __init__(self, depot: Callable[[], Depot | None], *, every_s: float = EVERY_S) -> None:
        self._make = depot
        self._every_s = every_s
        self._depot: Depot | None = None
        self._task: asyncio.Task[None] | None = None
        self._kept: list[str] = []
        self.counted = Counted()

    def start(self) -> None:
        """Begin; the rig is up."""
        self._depot = self._make()
        if self._depot is not None:
            self._task = asyncio.create_task(self._write(self._depot))

    async def stop(self) -> Counted:
        """Write no more, and read back; also when it never began, also twice."""
        if self._task is not None and self._depot is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
            gone = await self._gone(self._depot)
            unread = len(self._kept) if gone is None else 0
            self.counted = Counted(len(self._kept), len(gone or ()), unread)
        return self.counted

    async def _write(self, depot: Depot) -> None:
        while len(self._kept) < MARKS_MAX:
            mark = secrets.token_hex(8)
            if await _acknowledged(depot, mark):
                self._kept.append(mark)
            await asyncio.sleep(self._every_s)

    async def _gone(self, depot: Depot) -> frozenset[str] | None:
        """What is gone at every look; None where no look shows anything."""
        if not self._kept:
            return frozenset()
        gone: frozenset[str] | None = None
        with suppress(TimeoutError):
            async with asyncio.timeout(READ_S_MAX):
                while gone is None or gone:
                    seen = await _read(depot, self._kept)
                    if seen is not None:
                        gone = seen if gone is None else gone & seen
                    await asyncio.sleep(AGAIN_S if gone is None or gone else 0.0)
        return gone


async def _acknowledged(depot: Depot, mark: str) -> bool:
    try:
        async with asyncio.timeout(PUT_S_MAX):
            return await depot.put(mark)
    except Exception:  # noqa: BLE001  whatever a stranger's depot raises
        return False


async def _read(depot: Depot, marks: Sequence[str]) -> frozenset[str] | None:
    try:
        return await depot.gone(marks)
    except Exception:  # noqa: BLE001  whatever a stranger's depot raises
        return None


@dataclass(frozen=True, slots=True)
class Watched:
    """A variant at work, with somebody who counts beside it."""

    working: Working
    counting: Counting

    async def start(self) -> None:
        """Begin both."""
        self.counting.start()
        await self.working.start()

    def watching(self) -> bool:
        """Whether the variant has looked at the rig."""
        return self.working.watching()

    def tickets(self) -> Sequence[TicketFact]:
        """The tickets of its home."""
        return self.working.tickets()

    async def stop(self) -> None:
        """End the variant first: what it does until then counts."""
        try:
            await self.working.stop()
        finally:
            await self.counting.stop()


def depot_of(app: App, place: RigOfTrial, subject: str) -> Depot | None:
    """Where the rig of a trial keeps what it is given; None where its subject promises nothing."""
    make = app.plugin_of(subject).depot
    if make is None:
        return None
    settings = app.settings_of(subject, lambda: place.rig.targets())
    return make(replace(settings, timeout_s=ANSWER_S_MAX))
