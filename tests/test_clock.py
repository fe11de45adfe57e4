"""What a Clock promises, for the real one and for those that tests hold."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from operator_protocols.ports import Clock
from operator_sre.clock import SystemClock
from tests.contract.clock import NOON, HeldClock, LeapingClock

CLOCKS: list[Callable[[], Clock]] = [SystemClock, HeldClock, LeapingClock]


@pytest.mark.parametrize("make", CLOCKS)
def test_the_time_is_aware_and_in_utc(make: Callable[[], Clock]) -> None:
    now = make().now()
    assert now.utcoffset() == timedelta(0)
    assert now.tzinfo is UTC


@pytest.mark.asyncio
@pytest.mark.parametrize("make", CLOCKS)
async def test_seconds_never_go_back_and_a_sleep_of_nothing_ends(make: Callable[[], Clock]) -> None:
    clock = make()
    before = clock.monotonic()
    await clock.sleep(0.0)
    assert clock.monotonic() >= before


@pytest.mark.asyncio
@pytest.mark.parametrize("make", [SystemClock, LeapingClock])
async def test_a_sleeper_wakes_after_its_time(make: Callable[[], Clock]) -> None:
    clock = make()
    before, noted = clock.monotonic(), clock.now()
    await clock.sleep(0.02)
    assert clock.monotonic() - before >= 0.02
    assert clock.now() > noted


def test_the_real_clock_tells_the_real_time() -> None:
    before = datetime.now(UTC)
    assert before <= SystemClock().now() <= datetime.now(UTC)


@pytest.mark.asyncio
async def test_a_held_clock_wakes_only_those_whose_time_has_come() -> None:
    clock = HeldClock()
    short, long = (asyncio.ensure_future(clock.sleep(seconds)) for seconds in (1.0, 3.0))
    await clock.asleep(2)
    clock.advance(0.9)
    await asyncio.sleep(0)
    assert not short.done()
    clock.advance(0.1)
    await short
    assert not long.done()
    assert clock.now() == NOON + timedelta(seconds=1)
    long.cancel()
    await asyncio.gather(long, return_exceptions=True)
    clock.advance(10.0)
