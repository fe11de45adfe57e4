"""The heartbeat: it goes on while we look, and stops when we do not."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from operator_protocols.domain.watcher import Watch
from operator_sre.telemetry.metrics import INTERVALS_MAX, SLACK_S, Heartbeat, why_stalled
from tests.contract.clock import NOON, HeldClock

WATCH = Watch("shop", 30.0, NOON, 0.1, looks=1)
LATE = timedelta(seconds=INTERVALS_MAX * 30.0 + SLACK_S)


def test_a_look_that_is_young_enough_is_a_look() -> None:
    assert why_stalled([WATCH], NOON, NOON + LATE) == ""


@pytest.mark.parametrize(
    "watches",
    [
        [],
        [replace(WATCH, last_at=None)],
        [replace(WATCH, last_at=NOON - timedelta(seconds=1))],
        [replace(WATCH, last_at=NOON + LATE), replace(WATCH, subject="bank")],
    ],
)
def test_one_subject_that_nobody_looks_at_is_enough_to_be_silent(watches: list[Watch]) -> None:
    assert why_stalled(watches, NOON, NOON + LATE + timedelta(seconds=0.5))


@pytest.mark.asyncio
async def test_a_loop_that_stalls_stops_the_heartbeat_and_one_that_goes_on_starts_it() -> None:
    clock, beats = HeldClock(), []
    watches = [replace(WATCH, last_at=None, interval_s=10.0)]

    async def beat() -> str:
        beats.append(clock.monotonic())
        return ""

    heart = Heartbeat(lambda: watches, beat, clock, every_s=20.0)
    task = asyncio.ensure_future(heart.run())
    await clock.asleep()
    assert (beats, heart.problem) == ([], "no heartbeat, because no check has finished yet")
    watches[0] = replace(watches[0], last_at=clock.now())
    clock.advance(1.0)
    await clock.asleep(for_s=20.0)
    assert beats == [1.0]
    for _ in range(6):
        clock.advance(20.0)  # nobody looks any more
        await clock.asleep()
    assert beats == [1.0, 21.0, 41.0]
    assert "too old" in heart.problem
    watches[0] = replace(watches[0], last_at=clock.now())
    clock.advance(1.0)
    await clock.asleep(for_s=20.0)
    assert len(beats) == 4
    task.cancel()
    await asyncio.wait([task])


@pytest.mark.asyncio
async def test_a_beat_that_is_not_taken_is_tried_again_soon() -> None:
    clock, answers = HeldClock(), ["status 500", ""]

    async def beat() -> str:
        return answers.pop(0)

    watches = [replace(WATCH, last_at=clock.now())]
    heart = Heartbeat(lambda: watches, beat, clock, every_s=60.0)
    task = asyncio.ensure_future(heart.run())
    await clock.asleep(for_s=1.0)
    assert heart.problem == "the heartbeat was not accepted: status 500"
    clock.advance(1.0)
    await clock.asleep(for_s=60.0)
    assert heart.problem == ""
    task.cancel()
    await asyncio.wait([task])
