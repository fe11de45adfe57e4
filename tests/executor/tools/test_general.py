"""Waiting, and leaving a word."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from operator_protocols.domain.target import Target
from operator_sre.clock import SystemClock
from operator_sre.executor.jobs import Spool
from operator_sre.executor.programs import Programs
from operator_sre.executor.tools.files import Rights
from operator_sre.executor.tools.general import WAIT_S_MAX, LogMessage, Wait, standard_tools
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


async def test_of_the_home_only_the_logs_of_targets_are_read(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "lab" / "shop").mkdir(parents=True)
    log = home / "lab" / "shop" / "node-1.log"
    tools = standard_tools(
        programs=Programs(Spool(tmp_path / "spool")),
        clock=SystemClock(),
        targets=lambda: [Target("node-1", "node", log=str(log)), Target("bare", "node")],
        manages=lambda service: False,
        rights=Rights(writable=lambda path: False, secret=lambda path: False),
        redact=lambda before, text, after: text,
        home=home,
    )
    read = next(tool for tool in tools if tool.spec.name == "read_file")
    for path, is_read in (
        (log, True),
        (home / "lab" / "shop" / "password", False),
        (home / "ledger.key", False),
        (tmp_path / "other", True),
    ):
        path.write_text("text")
        result = await read.call({"path": str(path), "offset": 1}, new_job())
        assert (result.ok, result.stdout) == (is_read, "ext" if is_read else "")
        assert is_read or "belongs to Operator" in result.stderr
