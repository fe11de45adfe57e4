"""Stopping politely: the first signal counts, and cleaning up is not broken off by the next."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from operator_sre.faces.cli.options import Globals, config_of, open_home
from operator_sre.faces.cli.signals import run_until_stopped
from tests.e2e.waiting import eventually

SCRIPT = """
import asyncio, sys, typer
from pathlib import Path
from operator_sre.faces.cli.signals import run_until_stopped

async def work():
    Path("ready").touch()
    try:
        await asyncio.Event().wait()
    finally:
        Path("stopping").touch()
        while not Path("enough").exists():
            await asyncio.sleep(0.01)
        Path("clean").touch()

try:
    run_until_stopped(work())
except typer.Exit as end:
    while not Path("leave").exists():
        pass
    sys.exit(end.exit_code)
"""


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_later_signals_do_not_break_off_what_the_first_began(
    tmp_path: Path, first: signal.Signals
) -> None:
    with subprocess.Popen([sys.executable, "-c", SCRIPT], cwd=tmp_path) as process:
        eventually((tmp_path / "ready").exists, "it runs")
        os.kill(process.pid, first)
        eventually((tmp_path / "stopping").exists, "it is told to stop")
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(process.pid, number)
        (tmp_path / "enough").touch()
        eventually((tmp_path / "clean").exists, "it cleans up")
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(process.pid, number)
        (tmp_path / "leave").touch()
    assert process.returncode == 128 + first


def test_what_ends_by_itself_leaves_the_signals_as_they_were() -> None:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]

    async def work() -> str:
        assert [signal.getsignal(number) for number in numbers] != before
        return "done"

    assert run_until_stopped(work()) == "done"
    assert [signal.getsignal(number) for number in numbers] == before


def test_what_was_said_on_the_line_decides_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Context:
        obj = Globals(
            home=str(tmp_path / "home"),
            store=None,
            mode="approve",
            log_format=None,
            log_level=None,
            debug=False,
        )

    monkeypatch.chdir(tmp_path)
    config = config_of(Context(), interval_s="3")  # type: ignore[arg-type]
    assert (config.home, config.mode) == (tmp_path / "home", "approve")
    assert config.number("interval_s") == 3
    with open_home(Context()) as app:  # type: ignore[arg-type]
        assert app.store.tickets.find() == []
    assert (tmp_path / "home" / "operator.db").exists()
