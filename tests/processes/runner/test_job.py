"""What is alive of a command is found, also when its processes are born while they are listed."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NoReturn

import pytest

from operator_protocols.domain.target import Process
from operator_sre.processes.identity import process_of
from operator_sre.processes.runner.job import LISTS_MAX, RunnerJob
from operator_sre.processes.runner.wire import Order

pytestmark = pytest.mark.asyncio


class Lists:
    """What each listing of its processes gives; the last of them again and again."""

    def __init__(self, *found: Sequence[Process]) -> None:
        self.count = 0
        self._found = found

    def take(self, runner_job: RunnerJob) -> Iterable[Process]:
        self.count += 1
        return self._found[min(self.count, len(self._found)) - 1]


def _runner_job(folder: Path, lists: Lists, pid: int) -> RunnerJob:
    order = Order(id="job", argv=(b"true",), env=(), cwd=b"/", timeout_s=9.0, grace_s=0.1)

    def never(*arguments: object) -> NoReturn:
        raise AssertionError(arguments)

    runner_job = RunnerJob(order, folder, strays=lists.take, hold=never, spoke=never, over=never)
    runner_job.pid = pid
    return runner_job


def _start_group() -> subprocess.Popen[bytes]:
    return subprocess.Popen(["sleep", "60"], start_new_session=True)


async def test_a_process_that_two_lists_missed_is_found_while_its_group_is_alive(
    tmp_path: Path,
) -> None:
    with _start_group() as member:
        process = process_of(member.pid)
        assert process is not None
        lists = Lists((), (), (process,))
        runner_job = _runner_job(tmp_path, lists, member.pid)
        assert runner_job._remaining() == (process,)
        assert lists.count == 3
        unseen = Lists(())
        assert _runner_job(tmp_path, unseen, member.pid)._remaining() == ()
        assert unseen.count == LISTS_MAX
        member.kill()
    once = Lists(())
    assert _runner_job(tmp_path, once, member.pid)._remaining() == ()
    assert once.count == 1
