"""What runs is noted, so that somebody else can end all of it and nothing but it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from operator_protocols.domain.action import Action, Outcome, Result
from operator_protocols.domain.target import Process
from operator_sre.executor.jobs import RunningJobs, Spool
from operator_sre.executor.programs import Programs
from operator_sre.executor.transports.local import LocalShell
from operator_sre.processes.identity import process_of
from operator_sre.processes.runner.records import Claim, Records, boot_id, live_claims
from tests.executor.jobs import run_in
from tests.processes.waiting import eventually, gone, pids_in

pytestmark = pytest.mark.asyncio


@pytest.fixture
def stranger() -> Iterator[Process]:
    """A process that is none of ours."""
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as popen:
        process = process_of(popen.pid)
        assert process is not None
        yield process
        popen.kill()


def _claims(folder: Path) -> list[Claim]:
    return list(live_claims(folder / "running"))


async def _start(folder: Path, command: str) -> asyncio.Task[Result]:
    """A command that runs, noted, whose processes wrote their pids to a file."""
    running = RunningJobs(folder / "running")
    shell = LocalShell(Programs(Spool(folder / "spool"), running))
    return asyncio.ensure_future(run_in(shell, Action.shell(command)))


async def test_it_is_known_while_it_runs_and_only_then(tmp_path: Path) -> None:
    go = tmp_path / "go"
    os.mkfifo(go)
    task = await _start(tmp_path, f"read line < {go}")
    await eventually(lambda: [one for one in _claims(tmp_path) if one.process])
    (claim,) = _claims(tmp_path)
    assert claim.process is not None
    assert process_of(claim.process.pid) == claim.process
    assert claim.boot == boot_id()
    assert (tmp_path / "running").stat().st_mode & 0o077 == 0
    with go.open("w") as pipe:
        pipe.write("go\n")
    await task
    assert _claims(tmp_path) == []


async def test_everything_that_is_noted_can_be_ended_by_another(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    escaping = f"echo $$ >> {pids}; setsid sh -c 'echo $$ >> {pids}; sleep 60' & sleep 60"
    tasks = [await _start(tmp_path, escaping) for _ in range(2)]
    await eventually(lambda: len(pids_in(pids)) == 4)
    ended = await RunningJobs(tmp_path / "running").end_all()
    assert len(ended) == 2
    assert gone(pids_in(pids))
    results = await asyncio.gather(*tasks)
    assert [one.exit_code for one in results] == [143, 143]
    assert _claims(tmp_path) == []


async def test_what_ignores_a_term_is_killed_after_the_grace(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    task = await _start(tmp_path, f"trap '' TERM; echo $$ >> {pids}; while :; do sleep 1; done")
    await eventually(lambda: pids_in(pids))
    begun = time.monotonic()
    await RunningJobs(tmp_path / "running").end_all(grace_s=0.3)
    assert gone(pids_in(pids))
    assert time.monotonic() - begun >= 0.3
    await task


async def test_a_stranger_who_has_the_pid_now_is_left_alone(
    tmp_path: Path, stranger: Process
) -> None:
    running, records = RunningJobs(tmp_path / "running"), Records(tmp_path / "running")
    old = Process(stranger.pid, stranger.started - 100.0)
    assert records.claim(Claim("job", boot_id(), time.time() + 60, 0.1, old))
    assert await running.end_all() == ()
    assert process_of(stranger.pid) == stranger


async def test_what_ran_before_the_machine_was_restarted_is_nobody(
    tmp_path: Path, stranger: Process
) -> None:
    records = Records(tmp_path / "running")
    assert records.claim(Claim("job", "another boot", time.time() + 60, 0.1, stranger))
    assert await RunningJobs(tmp_path / "running").end_all() == ()
    assert process_of(stranger.pid) == stranger


async def test_nothing_noted_is_nothing_ended(tmp_path: Path) -> None:
    running = RunningJobs(tmp_path / "running")
    assert await running.end_all() == ()
    (tmp_path / "running").mkdir()
    (tmp_path / "running" / "live").write_bytes(b"+job-1\n={half\n\xff\n+\xff\n=")
    assert await running.end_all() == ()


async def test_a_folder_that_cannot_be_made_runs_nothing(tmp_path: Path) -> None:
    (tmp_path / "running").write_text("in the way")
    marker = tmp_path / "ran"
    result = await (await _start(tmp_path, f"touch {marker}"))
    assert result.outcome is Outcome.REFUSED
    assert not marker.exists()
