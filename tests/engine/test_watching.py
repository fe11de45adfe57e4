"""Subjects are looked at side by side, each on its interval, and nobody waits for a slow one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path

import pytest
import pytest_asyncio

from operator_protocols.errors import StoreError
from operator_sre.engine.local import BEAT_S, Rounds
from operator_sre.monitor import WatchStats
from operator_sre.store import Store, open_store
from tests.contract.clock import HeldClock

pytestmark = pytest.mark.asyncio


class _World:
    """What is looked at, and when; some of it hangs until the test lets it go."""

    def __init__(self) -> None:
        self.clock = HeldClock()
        self.stats = WatchStats()
        self.looks: list[tuple[str, float]] = []
        self.hanging: dict[str, asyncio.Event] = {}
        self.failing: dict[str, Exception] = {}
        self.now = self.most = 0

    async def look(self, subject: str) -> None:
        self.looks.append((subject, self.clock.monotonic()))
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            if subject in self.hanging:
                await self.hanging[subject].wait()
            if subject in self.failing:
                raise self.failing[subject]
        finally:
            self.now -= 1

    def rounds(self, intervals: Mapping[str, float], **more: object) -> Rounds:
        given = {"jitter": 0.0, "chance": lambda: 0.0, **more}
        return Rounds(
            check=self.look,
            clock=self.clock,
            interval_of=lambda subject: intervals[subject],
            stats=self.stats,
            worker="here:1",
            **given,  # type: ignore[arg-type]
        )

    def times(self, subject: str) -> list[float]:
        return [at for name, at in self.looks if name == subject]

    async def pass_s(self, seconds: float, *, sleepers: int, step_s: float = 0.5) -> None:
        """Let time pass in small steps; after each, whoever is due has looked."""
        for _ in range(round(seconds / step_s)):
            await self.clock.asleep(sleepers)
            self.clock.advance(step_s)
            for _ in range(10):
                await asyncio.sleep(0)


Watching = Callable[[Rounds, list[str]], "asyncio.Task[None]"]


@pytest_asyncio.fixture
async def watching() -> AsyncIterator[Watching]:
    """Start rounds; they end with the test."""
    tasks: list[asyncio.Task[None]] = []

    def start(rounds: Rounds, subjects: list[str]) -> asyncio.Task[None]:
        tasks.append(asyncio.ensure_future(rounds.run(subjects)))
        return tasks[-1]

    yield start
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_each_subject_has_an_interval_of_its_own(watching: Watching) -> None:
    world = _World()
    watching(world.rounds({"quick": 2.0, "slow": 6.0}), ["quick", "slow"])
    await world.pass_s(13.0, sleepers=2)
    assert world.times("quick") == [0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0]
    assert world.times("slow") == [2.5, 8.5]


async def test_first_looks_are_spread_over_the_interval(watching: Watching) -> None:
    world = _World()
    names = ["a", "b", "c", "d"]
    watching(world.rounds(dict.fromkeys(names, 2.0)), names)
    await world.pass_s(2.0, sleepers=4)
    assert [world.times(name)[0] for name in names] == [0.0, 0.5, 1.0, 1.5]


async def test_nobody_waits_long_for_a_first_look(watching: Watching) -> None:
    world = _World()
    watching(world.rounds({"a": 3600.0, "b": 3600.0}), ["a", "b"])
    await world.pass_s(5.0, sleepers=2)
    assert len(world.looks) == 2


async def test_jitter_moves_a_look_and_never_the_grid(watching: Watching) -> None:
    world = _World()
    watching(world.rounds({"a": 10.0}, jitter=0.1, chance=lambda: 0.5), ["a"])
    await world.pass_s(41.0, sleepers=1)
    assert world.times("a") == [0.0, 10.5, 20.5, 30.5, 40.5]


async def test_a_hanging_target_delays_no_other_and_misses_its_own_cycles(
    watching: Watching, caplog: pytest.LogCaptureFixture
) -> None:
    world = _World()
    world.hanging["stuck"] = asyncio.Event()
    watching(world.rounds({"stuck": 2.0, "fine": 2.0}), ["stuck", "fine"])
    await world.pass_s(9.5, sleepers=1)
    assert world.times("fine") == [1.0, 3.0, 5.0, 7.0, 9.0]
    assert world.times("stuck") == [0.0]
    with caplog.at_level(logging.WARNING):
        world.hanging.pop("stuck").set()
        await world.pass_s(1.0, sleepers=2)
    figures = {one.subject: (one.looks, one.missed) for one in world.stats.watches()}
    assert figures == {"stuck": (3, 3), "fine": (5, 0)}
    assert world.times("stuck") == [0.0, 9.5, 10.0]
    assert "skipped 3 checks" in caplog.text


async def test_no_more_than_so_many_are_looked_at_side_by_side(watching: Watching) -> None:
    world = _World()
    names = [f"s{number}" for number in range(6)]
    gate = asyncio.Event()
    world.hanging = dict.fromkeys(names, gate)
    watching(world.rounds(dict.fromkeys(names, 60.0), checks_max=2), names)
    for _ in range(12):
        world.clock.advance(0.5)
        for _ in range(10):
            await asyncio.sleep(0)
    assert (len(world.looks), world.most) == (2, 2)
    gate.set()
    for _ in range(50):
        await asyncio.sleep(0)
    assert (len(world.looks), world.most) == (6, 2)


@pytest.mark.parametrize("error", [StoreError("the disk is full"), ZeroDivisionError()])
async def test_one_that_fails_ends_nobodys_watch_and_is_counted(
    watching: Watching, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    world = _World()
    world.failing["bad"] = error
    task = watching(world.rounds({"bad": 1.0, "fine": 1.0}), ["bad", "fine"])
    with caplog.at_level(logging.ERROR):
        await world.pass_s(3.0, sleepers=2)
    assert not task.done()
    bad, fine = world.stats.watches()
    assert (bad.failed, bad.looks, bad.last_at) == (len(world.times("bad")), 0, None)
    assert fine.looks == len(world.times("fine"))
    assert "cannot watch bad" in caplog.text


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    one = open_store(tmp_path / "operator.db", clock=HeldClock())
    yield one
    one.close()


async def test_it_says_that_it_watches_and_when_it_stops(watching: Watching, store: Store) -> None:
    world = _World()
    task = watching(world.rounds({"shop": 2.0}, watchers=store.watchers), ["shop"])
    await world.pass_s(BEAT_S + 1.0, sleepers=2)
    (me,) = store.watchers.find()
    assert (me.worker, [one.subject for one in me.watches]) == ("here:1", ["shop"])
    assert me.watches[0].looks >= 2
    assert me.at > me.started_at
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert list(store.watchers.find()) == []
    assert list(world.stats.watches()) == []


class _Prompt:
    """A subject that learns of changes by itself."""

    def __init__(self) -> None:
        self.changed = asyncio.Event()
        self.waits = 0

    async def wait(self) -> None:
        self.waits += 1
        await self.changed.wait()
        self.changed.clear()


async def test_a_change_starts_a_check_before_the_interval_ends(watching: Watching) -> None:
    world, prompt = _World(), _Prompt()
    early = {"told": prompt.wait}
    rounds = world.rounds({"told": 30.0, "plain": 30.0}, wait_change=early.get)
    watching(rounds, ["told", "plain"])
    await world.pass_s(12.0, sleepers=2)
    assert world.times("told") == [0.0]
    prompt.changed.set()
    await world.pass_s(3.0, sleepers=2)
    assert [at for at in world.times("told") if 12.0 <= at <= 13.5] == world.times("told")[1:]
    assert len(world.times("told")) == 2
    # The grid stays, and who learns of no change is checked on the grid alone.
    await world.pass_s(25.0, sleepers=2)
    assert world.times("told")[2:] == [30.0]
    assert world.times("plain") == [2.5, 32.5]


async def test_changes_without_end_are_bounded_by_what_a_check_takes(watching: Watching) -> None:
    world = _World()

    async def always() -> None:
        return None

    async def look_slowly(subject: str) -> None:
        await world.look(subject)
        await world.clock.sleep(2.0)

    rounds = world.rounds({"busy": 60.0}, wait_change=lambda subject: always)
    rounds.check = look_slowly
    watching(rounds, ["busy"])
    await world.pass_s(58.0, sleepers=1)
    times = world.times("busy")
    gaps = [later - sooner for sooner, later in pairwise(times)]
    # A check of 2 s is followed by 6 s without one.
    assert min(gaps) >= 8.0
    assert len(times) >= 6


async def test_a_subject_that_cannot_say_what_changed_is_checked_on_its_interval(
    watching: Watching, caplog: pytest.LogCaptureFixture
) -> None:
    world = _World()

    async def fail() -> None:
        raise ZeroDivisionError

    watching(world.rounds({"bad": 10.0}, wait_change=lambda subject: fail), ["bad"])
    await world.pass_s(25.0, sleepers=1)
    assert world.times("bad") == [0.0, 10.0, 20.0]
    assert "cannot wait for bad" in caplog.text
