"""Losses are counted where they can be read, and what nobody can tell is not lost."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from operator_evals.app import trial_facts as module
from operator_evals.app.trial_facts import Counted, Counting, Watched, depot_of
from operator_evals.app.trial_rig import RigOfTrial
from operator_evals.facts import TicketFact
from operator_evals.trial import Working
from operator_protocols.errors import RigError
from operator_protocols.ports import Depot
from tests.app.home import opened
from tests.every import every

pytestmark = pytest.mark.asyncio
TICKET = TicketFact(1, "open", "till-1", ("answers",))


@dataclass
class Shelf:
    """Takes every second mark, and loses the first ones; who is `blind` can tell nothing."""

    loses: int = 0
    blind: bool = False
    raises: bool = False
    recovers_after: int = 10**9
    puts: int = 0
    looks: int = 0
    kept: list[str] = field(default_factory=list)
    enough: asyncio.Event = field(default_factory=asyncio.Event)

    async def put(self, mark: str) -> bool:
        self.puts += 1
        if self.puts >= 11:
            self.enough.set()
        if self.puts % 2:
            self.kept.append(mark)
            return True
        if self.raises:
            raise OSError("no")
        return False

    async def find_lost(self, marks: Sequence[str]) -> frozenset[str] | None:
        self.looks += 1
        if self.looks > self.recovers_after:
            return frozenset()
        if self.raises:
            raise OSError("no")
        return None if self.blind else frozenset(marks[: self.loses])


async def _counted(shelf: Shelf) -> Counted:
    counting = Counting(lambda: shelf, every_s=0.001)
    counting.start()
    async with asyncio.timeout(30):
        await shelf.enough.wait()
    counted = await counting.stop()
    assert counted.acknowledged == len(shelf.kept) >= 5  # and not what was refused
    assert await counting.stop() == counting.counted == counted
    return counted


CASES = (
    (Shelf(), 0, False),
    (Shelf(loses=2), 2, False),
    (Shelf(blind=True), 0, True),
    (Shelf(raises=True), 0, True),
    (Shelf(blind=True, recovers_after=2), 0, False),
    (Shelf(loses=2, recovers_after=2), 0, False),  # it was only late
)


@every(("shelf", "lost", "unread"), CASES)
async def test_only_what_is_read_as_absent_is_lost(
    shelf: Shelf, lost: int, unread: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "READ_S_MAX", 0.3)
    monkeypatch.setattr(module, "AGAIN_S", 0.01)
    counted = await _counted(shelf)
    assert isinstance(shelf, Depot)
    assert counted.lost == lost
    assert counted.unread == (counted.acknowledged if unread else 0)


async def test_who_promises_nothing_loses_nothing_and_whoever_never_began_has_counted_nothing() -> (
    None
):
    for counting in (Counting(lambda: None), Counting(Shelf)):
        assert await counting.stop() == Counted()
    nothing = Counting(lambda: None)
    nothing.start()
    assert await nothing.stop() == Counted()


async def test_who_keeps_what_it_acknowledges_says_where(tmp_path: Path) -> None:
    with opened(tmp_path) as app:
        for subject, promises in (("etcd", True), ("postgres", True), ("ratelimiter", False)):
            depot = depot_of(app, RigOfTrial(app, subject), subject)
            assert isinstance(depot, Depot) is promises, subject


@dataclass
class Worker:
    """A variant that destroys something while it ends."""

    shelf: Shelf
    done: list[str] = field(default_factory=list)

    async def start(self) -> None:
        self.done.append("start")

    def watching(self) -> bool:
        return True

    def tickets(self) -> Sequence[TicketFact]:
        return (TICKET,)

    async def stop(self) -> None:
        self.shelf.loses = 3
        raise RigError("It does not end.")


async def test_what_a_variant_destroys_at_its_very_end_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "READ_S_MAX", 0.1)
    shelf = Shelf()
    counting = Counting(lambda: shelf, every_s=0.001)
    watched = Watched(Worker(shelf), counting)
    assert isinstance(watched, Working)
    await watched.start()
    assert (watched.watching(), list(watched.tickets())) == (True, [TICKET])
    async with asyncio.timeout(30):
        await shelf.enough.wait()
    with pytest.raises(RigError):
        await watched.stop()
    assert counting.counted.lost == 3
