"""What a supervisor runs besides its processes: preparations and checks, bounded and ended."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from operator_protocols.errors import RigError
from operator_sre.processes.control import Control, base_environment, reap
from operator_sre.processes.nursery import PREPARE_S_MAX
from operator_sre.processes.supervision import ChildState, Supervised, read_state, write_orders
from tests.processes.waiting import eventually, gone, pids_in

# A supervisor with less patience.
_HURRIED = f"""
import sys
from {Control.__module__.rpartition(".")[0]} import nursery, supervisor
nursery.PREPARE_S_MAX = nursery.CHECK_S_MAX = 0.4
sys.exit(supervisor.main())
"""
_HANGS = ("sh", "-c", "sleep 300 & echo $! $$ >> pids; wait")


# Every process that ended can be collected 0.3 s later, as one whose threads take their time.
_LATE = f"""
import os, sys, time
from {Control.__module__.rpartition(".")[0]} import nursery, supervisor
collect, ended = os.waitpid, {{}}
def late(pid, options):
    found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    now = time.monotonic()
    if found is not None and now - ended.setdefault(found.si_pid, now) < 0.3:
        return 0, 0
    return collect(pid, options)
nursery.os.waitpid = late
sys.exit(supervisor.main())
"""


@pytest_asyncio.fixture
async def hurried(tmp_path: Path) -> AsyncIterator[Control]:
    """One process whose preparation and check never end, and one that is well."""
    env = base_environment(os.environ)
    orders = [
        Supervised(
            *(name, ("sleep", "300"), str(tmp_path), str(tmp_path / f"{name}.log"), env, False),
            prepare=prepare,
            check=check,
        )
        for name, prepare, check in (
            ("a", (_HANGS,), ("true",)),
            ("b", (("sh", "-c", "echo once >> prepared"),), _HANGS),
        )
    ]
    write_orders(tmp_path, orders, grace_s=0.3)
    supervisor = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", _HURRIED, str(tmp_path), "--owned"), stdin=asyncio.subprocess.PIPE
    )
    await eventually(lambda: read_state(tmp_path) is not None)
    yield Control(tmp_path)
    await reap(tmp_path, grace_s=0.3)
    await supervisor.wait()


@pytest.mark.asyncio
async def test_a_preparation_that_hangs_is_ended_with_its_tree(hurried: Control) -> None:
    with pytest.raises(RigError, match=r"'sh' of 'a' did not exit within 0.\d s"):
        await hurried.start("a")
    pids = pids_in(hurried.directory / "pids")
    assert len(pids) == 2
    assert gone(pids)
    assert (await hurried.status()).child("a").state is ChildState.NEW
    assert PREPARE_S_MAX >= 60


@pytest.mark.asyncio
async def test_a_check_that_hangs_is_a_no_and_ends(hurried: Control) -> None:
    state = await hurried.start("b")
    assert state.child("b").state is ChildState.RUNNING
    assert "did not exit" in await hurried.check("b")
    assert gone(pids_in(hurried.directory / "pids"))
    await hurried.restart("b")
    assert (hurried.directory / "prepared").read_text() == "once\n"


@pytest.mark.asyncio
async def test_going_down_ends_a_preparation(hurried: Control) -> None:
    starting = asyncio.create_task(hurried.start("a"))
    await eventually(lambda: pids_in(hurried.directory / "pids"))
    await hurried.down()
    with pytest.raises(RigError):
        await starting
    assert gone(pids_in(hurried.directory / "pids"))


@pytest.mark.asyncio
async def test_a_restart_starts_anew_though_the_old_one_is_collected_late(tmp_path: Path) -> None:
    """A process whose threads are still ending is not yet gone, and not running either."""
    env = base_environment(os.environ)
    log = str(tmp_path / "a.log")
    order = Supervised("a", ("sleep", "300"), str(tmp_path), log, env, True)
    write_orders(tmp_path, [order], grace_s=0.3)
    supervisor = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", _LATE, str(tmp_path), "--owned"), stdin=asyncio.subprocess.PIPE
    )
    try:
        await eventually(lambda: read_state(tmp_path) is not None)
        control = Control(tmp_path)
        before = (await control.restart("a")).child("a")
        after = (await control.restart("a")).child("a")
        assert before.process is not None
        assert after.process is not None
        assert before.process.pid != after.process.pid
        assert after.state is ChildState.RUNNING
    finally:
        await reap(tmp_path, grace_s=0.3)
        await supervisor.wait()
