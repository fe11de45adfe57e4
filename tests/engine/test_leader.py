"""Of several monitors on one store, one checks each subject; another goes on when it is gone."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest
import pytest_asyncio

from operator_protocols.domain.watcher import Watch, Watcher
from operator_sre.app.wiring.engines import is_gone
from operator_sre.engine.leader import INTERVALS_MAX, SILENT_S, STUCK_S, find_leader
from operator_sre.engine.local import BEAT_S, HEARD_S, Rounds
from operator_sre.monitor import WatchStats
from operator_sre.store import Store, open_store
from tests.contract.clock import NOON, HeldClock

INTERVAL_S = 2.0
# A beat, its reading by the others, and the next check.
SETTLED_S = BEAT_S + HEARD_S + INTERVAL_S
TAKEN_OVER_S = SILENT_S + SETTLED_S


def _monitor(
    worker: str,
    *,
    started_s: float = 0.0,
    beat_s: float = 100.0,
    last_s: float | None = 100.0,
    leader: str = "",
    subject: str = "shop",
) -> Watcher:
    def at(seconds: float) -> datetime:
        return NOON + timedelta(seconds=seconds)

    last = None if last_s is None else at(last_s)
    watch = Watch(subject, INTERVAL_S, last_at=last, leader=leader)
    return Watcher(worker, at(started_s), at(beat_s), (watch,))


def test_who_starts_leaves_a_subject_to_the_monitor_that_checks_it() -> None:
    starting = _monitor("b", started_s=100.0, last_s=None)
    working = _monitor("a")
    assert find_leader([working], starting) == working
    assert find_leader([], starting) is None
    assert find_leader([_monitor("a", subject="other")], starting) is None
    assert find_leader([_monitor("b")], starting) is None, "that was an earlier start of its own"


def test_a_monitor_that_does_not_check_leads_nobody() -> None:
    me = _monitor("b", started_s=100.0, last_s=100.0, leader="a")
    late_s = INTERVALS_MAX * INTERVAL_S + STUCK_S
    for other, leads in (
        (_monitor("a", beat_s=100.0 - SILENT_S), True),
        (_monitor("a", beat_s=99.9 - SILENT_S), False),
        (_monitor("a", last_s=100.0 - late_s), True),
        (_monitor("a", last_s=99.9 - late_s), False),
        (_monitor("a", last_s=None), False),
        (_monitor("a", leader="c"), False),
    ):
        assert (find_leader([other], me) is not None) is leads, other


def test_of_two_that_check_the_older_goes_on() -> None:
    first, second = _monitor("a"), _monitor("b", started_s=1.0)
    assert find_leader([second], first) is None
    assert find_leader([first], second) == first
    # Who stood by does not take over only because it is older.
    returned = _monitor("a", leader="b")
    assert find_leader([second], returned) == second


class _Replica:
    """One monitor process, and when it checked."""

    def __init__(self, worker: str, store: Store, clock: HeldClock, gone: str = "") -> None:
        self.checks: list[float] = []
        self.stats = WatchStats()
        self._clock = clock
        self._rounds = Rounds(
            check=self._check,
            clock=clock,
            interval_of=lambda subject: INTERVAL_S,
            stats=self.stats,
            worker=worker,
            watchers=store.watchers,
            shares=True,
            is_gone=lambda worker: worker == gone,
        )
        self._task: asyncio.Task[None] | None = None

    async def _check(self, subject: str) -> None:
        self.checks.append(self._clock.monotonic())

    def start(self) -> None:
        self._task = asyncio.ensure_future(self._rounds.run(["shop"]))

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def since(self, at_s: float) -> list[float]:
        return [at for at in self.checks if at >= at_s]


class _Replicas:
    def __init__(self, store: Store, clock: HeldClock) -> None:
        self.store, self.clock = store, clock
        self.running: list[_Replica] = []

    async def start(self, worker: str) -> _Replica:
        replica = _Replica(worker, self.store, self.clock)
        replica.start()
        self.running.append(replica)
        await self.pass_s(0.5)  # the next one is younger
        return replica

    async def kill(self, replica: _Replica) -> None:
        """It checks nothing more, and its last heartbeat stays."""
        left = next(each for each in self.store.watchers.find() if each.worker == "a:1")
        self.running.remove(replica)
        await replica.stop()
        await self.store.watchers.beat(left)

    async def pass_s(self, seconds: float) -> None:
        for _ in range(round(seconds / 0.5)):
            await self.clock.asleep(2 * len(self.running))
            self.clock.advance(0.5)
            for _ in range(20):
                await asyncio.sleep(0)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(tmp_path / "operator.db", clock=HeldClock())
    yield opened
    opened.close()


@pytest_asyncio.fixture
async def replicas(store: Store) -> AsyncIterator[_Replicas]:
    made = _Replicas(store, HeldClock())
    yield made
    for replica in made.running:
        await replica.stop()


@pytest.mark.asyncio
async def test_one_of_two_checks_and_the_other_goes_on_when_it_is_killed(
    replicas: _Replicas,
) -> None:
    first = await replicas.start("a:1")
    second = await replicas.start("b:1")
    await replicas.pass_s(SETTLED_S)
    settled_s = replicas.clock.monotonic()
    await replicas.pass_s(20.0)
    assert len(first.since(settled_s)) == 10
    assert second.since(settled_s) == []
    (watch,) = second.stats.watches()
    assert watch.leader == "a:1"
    assert watch.last_at is not None
    assert (replicas.clock.now() - watch.last_at).total_seconds() <= SETTLED_S

    killed_s = replicas.clock.monotonic()
    await replicas.kill(first)
    await replicas.pass_s(TAKEN_OVER_S + 4 * INTERVAL_S)
    taken = second.since(killed_s)
    assert taken[0] - killed_s <= TAKEN_OVER_S
    assert len(taken) >= 4
    assert second.stats.watches()[0].leader == ""

    # A third leaves it to the second, also when it was named like the first.
    third = await replicas.start("a:1")
    await replicas.pass_s(SETTLED_S)
    settled_s = replicas.clock.monotonic()
    await replicas.pass_s(10.0)
    assert third.since(settled_s) == []
    assert len(second.since(settled_s)) >= 5


def test_a_process_that_has_ended_leads_nobody() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait(30.0)
    host = socket.gethostname()
    assert is_gone(f"{host}:{ended.pid}")
    assert is_gone(f"{host}:{ended.pid}-own")
    assert not is_gone(f"elsewhere:{ended.pid}")
    assert not is_gone(f"{host}:{os.getpid()}")
    assert not is_gone(f"{host}:crane")


@pytest.mark.asyncio
async def test_a_monitor_that_is_known_to_have_ended_is_not_waited_for(store: Store) -> None:
    clock = HeldClock()
    dead = Watcher("a:1", clock.now(), clock.now(), (Watch("shop", INTERVAL_S, clock.now()),))
    await store.watchers.beat(dead)
    replica = _Replica("b:1", store, clock, gone="a:1")
    replica.start()
    await clock.asleep(2)
    assert replica.checks == [0.0]
    await replica.stop()


@pytest.mark.asyncio
async def test_a_monitor_that_stops_is_followed_at_once(replicas: _Replicas) -> None:
    first = await replicas.start("a:1")
    second = await replicas.start("b:1")
    await replicas.pass_s(SETTLED_S)
    replicas.running.remove(first)
    await first.stop()
    stopped_s = replicas.clock.monotonic()
    await replicas.pass_s(HEARD_S + 2 * INTERVAL_S)
    assert second.since(stopped_s)[0] - stopped_s <= HEARD_S + INTERVAL_S
