"""What a Shell promises, for every place where commands run."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from operator_protocols.domain.action import Action, Outcome, Result
from operator_protocols.domain.category import FailureCategory
from operator_protocols.ports import Shell
from operator_sre.executor.programs import Programs
from operator_sre.executor.spool import Spool
from operator_sre.executor.transports.local import LocalShell
from tests.executor.jobs import run_in

pytestmark = pytest.mark.asyncio

SHELLS: dict[str, Callable[[Path], Shell]] = {
    "local": lambda folder: LocalShell(Programs(Spool(folder / "spool"))),
}


@pytest.fixture(params=sorted(SHELLS))
def shell(request: pytest.FixtureRequest, tmp_path: Path) -> Shell:
    return SHELLS[request.param](tmp_path)


async def _run(shell: Shell, command: str, **changes: float | str) -> Result:
    return await run_in(shell, replace(Action.shell(command), **changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("command", "code", "category"),
    [
        ("true", 0, None),
        ("exit 1", 1, FailureCategory.RUNTIME),
        ("exit 2", 2, FailureCategory.SYNTAX),
        ("exit 77", 77, FailureCategory.RUNTIME),
        ("no-such-command-at-all", 127, FailureCategory.NOT_FOUND),
        ("/", 126, FailureCategory.PERMISSION),
        ("exit 137", 137, FailureCategory.RESOURCE),
        ("if", 2, FailureCategory.SYNTAX),
    ],
)
async def test_an_exit_code_is_told_with_its_category(
    shell: Shell, command: str, code: int, category: FailureCategory | None
) -> None:
    result = await _run(shell, command)
    assert (result.outcome, result.exit_code, result.category) == (Outcome.RAN, code, category)
    assert result.ok is (code == 0)


async def test_both_streams_are_kept_even_when_all_is_well(shell: Shell) -> None:
    result = await _run(shell, "echo out; echo careful >&2")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "out\n", "careful\n")
    assert not result.truncated
    assert 0 < result.duration_s < 10


async def test_a_command_that_takes_too_long_is_ended(shell: Shell) -> None:
    result = await _run(shell, "echo begun; sleep 60", timeout_s=0.3)
    assert (result.outcome, result.exit_code) == (Outcome.TIMED_OUT, 124)
    assert result.category is FailureCategory.TIMEOUT
    assert result.stdout == "begun\n"
    assert result.duration_s < 10


async def test_a_command_that_ignores_its_end_is_ended_all_the_same(shell: Shell) -> None:
    result = await _run(shell, "trap '' TERM; echo on; while :; do sleep 1; done", timeout_s=0.3)
    assert result.outcome is Outcome.TIMED_OUT
    assert result.duration_s < 10


async def test_bytes_that_are_no_text_do_no_harm(shell: Shell) -> None:
    result = await _run(shell, r"printf 'a\377\376\000b'")
    assert result.stdout.startswith("a")
    assert result.stdout.endswith("b")
    assert result.stdout.encode()


async def test_output_without_an_end_is_cut_and_says_so(shell: Shell) -> None:
    result = await _run(shell, "yes | head -c 3000000; echo last")
    assert result.truncated
    assert len(result.stdout) < 100_000
    assert result.stdout.endswith("last\n")
    assert not (await _run(shell, "echo short")).truncated


async def test_no_secret_of_ours_reaches_a_command(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "hunter2")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/tmp/hunter2")
    result = await _run(shell, "env; cat /proc/self/environ")
    assert "hunter2" not in result.stdout
    assert "PATH=" in result.stdout


async def test_a_command_runs_where_it_was_told_to(shell: Shell, tmp_path: Path) -> None:
    assert (await _run(shell, "pwd", cwd=str(tmp_path))).stdout.strip() == str(tmp_path)
    missing = await _run(shell, "pwd", cwd=str(tmp_path / "missing"))
    assert missing.outcome is Outcome.RAN
    assert not missing.ok


async def test_a_command_has_no_input_to_wait_for(shell: Shell) -> None:
    assert (await _run(shell, "cat", timeout_s=20.0)).ok


@pytest.mark.parametrize("command", ["", "\x00", "\ud800", "'", "echo " + "x" * 300_000])
async def test_nothing_that_is_asked_for_raises(shell: Shell, command: str) -> None:
    assert (await _run(shell, command)).outcome is Outcome.RAN


async def test_the_same_command_runs_anew_each_time(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "count"
    for _ in range(2):
        await _run(shell, f"echo x >> {file}")
    assert file.read_text() == "x\nx\n"


async def test_whoever_stops_waiting_ends_the_command(shell: Shell, tmp_path: Path) -> None:
    begun, late = tmp_path / "begun", tmp_path / "late"
    os.mkfifo(begun)
    running = asyncio.ensure_future(_run(shell, f"echo x > {begun}; sleep 2; touch {late}"))
    assert await asyncio.to_thread(begun.read_text) == "x\n"
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    # Its whole tree is gone when the wait is over, so nobody is left who could touch the file.
    left = await _run(shell, f"ps -eo args= | grep -c '[t]ouch {late}'")
    assert left.stdout.strip() == "0"
