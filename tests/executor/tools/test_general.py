"""Waiting, and leaving a word."""

from __future__ import annotations

import logging

import pytest

from operator_sre.clock import SystemClock
from operator_sre.executor.tools.general import WAIT_S_MAX, LogMessage, Wait
from tests.executor.jobs import new_job

pytestmark = pytest.mark.asyncio


class _Clock(SystemClock):
    """Time passes at once, and is counted."""

    slept = 0.0

    async def sleep(self, seconds: float) -> None:
        self.slept += seconds


async def test_it_waits_as_long_as_it_is_told() -> None:
    clock = _Clock()
    result = await Wait(clock).call({"seconds": 300}, new_job())
    assert (result.ok, clock.slept, result.data) == (True, 300, {"seconds": 300})
    for seconds in (0, 0.5, WAIT_S_MAX + 1, "1", None, True):
        assert (await Wait(clock).call({"seconds": seconds}, new_job())).exit_code == 2
    assert clock.slept == 300
    assert Wait.spec.timeout_s > WAIT_S_MAX


async def test_a_word_is_in_the_result_and_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    result = await LogMessage().call({"text": "all is\nwell"}, new_job())
    assert (result.ok, result.stdout) == (True, "all is\nwell")
    assert "message: all is well" in caplog.text
    for text in ("", "x" * 2001, 7):
        assert (await LogMessage().call({"text": text}, new_job())).exit_code == 2
