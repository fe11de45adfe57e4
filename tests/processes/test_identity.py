"""A process is its pid and its start time."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from operator_protocols.domain.target import Process
from operator_sre.processes import identity
from operator_sre.processes.identity import (
    Row,
    alive,
    boot_time,
    born_now,
    descendants,
    is_paused,
    process_of,
    row_of,
    rows,
    same,
    tree_of,
)
from operator_sre.processes.tree import send
from tests.processes.waiting import eventually


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "300"]) as process:
        yield process
        process.kill()


def _family() -> subprocess.Popen[bytes]:
    return subprocess.Popen(["sh", "-c", "sh -c 'sleep 300; true' & wait"], start_new_session=True)


def test_a_running_process_is_known_by_pid_and_start_time() -> None:
    before = time.time()
    with subprocess.Popen(["sleep", "300"]) as sleeper:
        after = time.time()
        process = process_of(sleeper.pid)
        assert process is not None
        assert process.pid == sleeper.pid
        # The kernel says in whole seconds when it was booted.
        assert before - 2 < process.started < after + 2
        assert alive(process)
        sleeper.kill()


def test_a_reaped_process_is_not_alive(sleeper: subprocess.Popen[bytes]) -> None:
    process = process_of(sleeper.pid)
    assert process is not None
    sleeper.kill()
    sleeper.wait()
    assert not alive(process)
    assert process_of(sleeper.pid) is None
    assert not send(process, signal.SIGTERM)


@pytest.mark.asyncio
async def test_a_zombie_is_not_alive(sleeper: subprocess.Popen[bytes]) -> None:
    process = process_of(sleeper.pid)
    assert process is not None
    os.kill(sleeper.pid, signal.SIGKILL)
    await eventually(lambda: not alive(process))
    row = row_of(sleeper.pid)
    assert row is not None
    assert row.dead
    assert process_of(sleeper.pid) is None


@pytest.mark.parametrize("apart_s", [-3600.0, -30.0, -0.37, 0.01, 0.5, 5.0])
def test_another_start_time_is_another_process(
    sleeper: subprocess.Popen[bytes], apart_s: float
) -> None:
    process = process_of(sleeper.pid)
    assert process is not None
    stranger = Process(process.pid, process.started + apart_s)
    assert not alive(stranger)
    assert not send(stranger, signal.SIGKILL)
    assert alive(process)


@pytest.mark.parametrize("apart_s", [-2.0, -1.0, 0.0, 1.0, 2.0])
def test_a_clock_that_was_set_does_not_make_a_stranger(apart_s: float) -> None:
    assert same(Process(7, 1_700_000_000.25), Process(7, 1_700_000_000.25 + apart_s))
    assert not same(Process(7, 1_700_000_000.25), Process(8, 1_700_000_000.25 + apart_s))


@pytest.mark.asyncio
async def test_a_stopped_process_is_paused_and_alive(sleeper: subprocess.Popen[bytes]) -> None:
    process = process_of(sleeper.pid)
    assert process is not None
    assert not is_paused(process)
    assert send(process, signal.SIGSTOP)
    await eventually(lambda: is_paused(process))
    assert alive(process)
    send(process, signal.SIGCONT)
    await eventually(lambda: not is_paused(process))


def test_brackets_and_spaces_in_a_name_do_not_confuse(tmp_path: Path) -> None:
    program = tmp_path / "a) R 1 (b"
    shutil.copy(shutil.which("sleep") or "", program)
    with subprocess.Popen([str(program), "300"]) as process:
        row = row_of(process.pid)
        process.kill()
    assert row is not None
    assert row.parent == os.getpid()


@pytest.mark.asyncio
async def test_the_tree_holds_grandchildren_and_not_the_root() -> None:
    with _family() as shell:
        await eventually(lambda: len(tree_of(shell.pid)) == 2)
        assert shell.pid not in [process.pid for process in tree_of(shell.pid)]
        os.killpg(shell.pid, signal.SIGKILL)


def test_descendants_survive_a_circle_in_the_table() -> None:
    table = {
        1: Row(Process(1, 0.0), parent=2, group=1, session=1, state="S"),
        2: Row(Process(2, 0.0), parent=1, group=1, session=1, state="S"),
        3: Row(Process(3, 0.0), parent=9, group=3, session=3, state="S"),
    }
    assert descendants({1}, table) == {1, 2}


@pytest.mark.skipif(shutil.which("ps") is None, reason="needs ps")
def test_ps_tells_the_same_as_proc(
    sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    by_proc = row_of(sleeper.pid)
    monkeypatch.setattr(identity, "_HAS_PROC", False)
    by_ps = row_of(sleeper.pid)
    assert by_proc is not None
    assert by_ps is not None
    assert abs(by_ps.process.started - by_proc.process.started) <= 2
    assert (by_ps.parent, by_ps.group) == (by_proc.parent, by_proc.group)
    assert os.getpid() in rows()
    assert process_of(2**22 + 1) is None


def test_identity_is_cheap_to_import() -> None:
    code = "import sys, operator_sre.processes.identity; print('asyncio' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert done.stdout.strip() == b"False"


def test_whoever_is_born_now_is_not_older_than_those_who_are_there() -> None:
    before = born_now()
    with subprocess.Popen(["sleep", "60"]) as popen:
        child = process_of(popen.pid)
        popen.kill()
    assert child is not None
    # The kernel counts in hundredths of a second.
    assert before - 0.011 <= child.started <= born_now()
    assert 0 < boot_time() < before
