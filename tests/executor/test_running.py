"""What runs is noted, so that somebody else can end all of it and nothing but it."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from operator_protocols.domain.action import Action, Outcome, Result
from operator_protocols.domain.target import Process
from operator_sre.executor.programs import Programs
from operator_sre.executor.running import Noted, Running
from operator_sre.executor.spool import Spool
from operator_sre.executor.transports.local import LocalShell
from operator_sre.processes.identity import process_of
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


def _notes(folder: Path) -> list[Path]:
    return sorted((folder / "running").glob("*"))


async def _start(folder: Path, command: str) -> asyncio.Task[Result]:
    """A command that runs, noted, whose processes wrote their pids to a file."""
    running = Running(folder / "running")
    shell = LocalShell(Programs(Spool(folder / "spool"), running))
    return asyncio.ensure_future(run_in(shell, Action.shell(command)))


async def test_a_note_is_there_while_it_runs_and_gone_afterwards(tmp_path: Path) -> None:
    go = tmp_path / "go"
    os.mkfifo(go)
    task = await _start(tmp_path, f"read line < {go}")
    await eventually(lambda: _notes(tmp_path))
    (note,) = _notes(tmp_path)
    body = json.loads(note.read_text())
    assert process_of(body["pid"]) == Process(body["pid"], body["started"])
    assert note.parent.stat().st_mode & 0o077 == 0
    with go.open("w") as pipe:
        pipe.write("go\n")
    await task
    assert _notes(tmp_path) == []


async def test_everything_that_is_noted_can_be_ended_by_another(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    escaping = f"echo $$ >> {pids}; setsid sh -c 'echo $$ >> {pids}; sleep 60' & sleep 60"
    tasks = [await _start(tmp_path, escaping) for _ in range(2)]
    await eventually(lambda: len(pids_in(pids)) == 4)
    ended = await Running(tmp_path / "running").end_all()
    assert len(ended) == 2
    assert gone(pids_in(pids))
    results = await asyncio.gather(*tasks)
    assert [one.exit_code for one in results] == [143, 143]
    assert _notes(tmp_path) == []


async def test_what_ignores_a_term_is_killed_after_the_grace(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    task = await _start(tmp_path, f"trap '' TERM; echo $$ >> {pids}; while :; do sleep 1; done")
    await eventually(lambda: pids_in(pids))
    begun = time.monotonic()
    await Running(tmp_path / "running").end_all(grace_s=0.3)
    assert gone(pids_in(pids))
    assert time.monotonic() - begun >= 0.3
    await task


async def test_a_stranger_who_has_the_pid_now_is_left_alone(
    tmp_path: Path, stranger: Process
) -> None:
    running = Running(tmp_path / "running")
    running.note(Process(stranger.pid, stranger.started - 100.0), "00ff.")
    assert await running.end_all() == ()
    assert process_of(stranger.pid) == stranger
    assert _notes(tmp_path) == []


async def test_nothing_noted_is_nothing_ended(tmp_path: Path) -> None:
    running = Running(tmp_path / "running")
    assert await running.end_all() == ()
    (tmp_path / "running").mkdir()
    (tmp_path / "running" / "1-x.json").write_text("{half")
    (tmp_path / "running" / "2-x.json").write_text('{"pid": "x"}')
    assert await running.end_all() == ()


async def test_a_note_that_cannot_be_written_ends_nothing(tmp_path: Path) -> None:
    (tmp_path / "running").write_text("in the way")
    result = await (await _start(tmp_path, "echo done"))
    assert result.outcome is Outcome.RAN
    Noted(None).end()
