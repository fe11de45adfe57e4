"""The supervisor: it starts, records and ends, and heals nothing by itself."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
from pathlib import Path

import pytest

from operator_protocols.errors import RigError
from operator_sre.processes.control import launch
from operator_sre.processes.files import write_atomically
from operator_sre.processes.identity import alive, is_paused, process_of
from operator_sre.processes.nursery import SIGNALS
from operator_sre.processes.supervision import (
    SUPERVISE_FILE,
    Child,
    ChildState,
)
from tests.processes.conftest import Supervise
from tests.processes.supervised import (
    ESCAPING,
    SLEEP,
    child_of,
    exited,
    process_of_child,
    supervisor_of,
)
from tests.processes.waiting import eventually, gone, pids_in, processes_in


def _mode(path: str) -> int | None:
    return stat.S_IMODE(Path(path).stat().st_mode) if Path(path).exists() else None


@pytest.mark.asyncio
async def test_every_start_and_exit_is_recorded(supervise: Supervise) -> None:
    control = await supervise(a=SLEEP, b=["sh", "-c", "echo words; exit 7"])
    await exited(control, "b")
    assert child_of(control, "b").exit_code == 7
    assert (control.directory / "b.log").read_text() == "words\n"
    assert child_of(control, "a").state is ChildState.RUNNING
    assert alive(process_of_child(control, "a"))
    assert (await control.status()).children == (child_of(control, "a"), child_of(control, "b"))


@pytest.mark.asyncio
async def test_a_killed_child_stays_dead_until_asked_for(supervise: Supervise) -> None:
    control = await supervise(a=SLEEP, b=SLEEP)
    first = process_of_child(control, "a")
    os.kill(first.pid, signal.SIGKILL)
    await exited(control, "a")
    assert child_of(control, "a").exit_code == -signal.SIGKILL
    # Others come and go meanwhile; nobody brings this one back.
    for _ in range(3):
        await control.restart("b")
    assert child_of(control, "a") == Child("a", ChildState.EXITED, first, -signal.SIGKILL, 0)
    again = (await control.start("a")).child("a")
    assert again.state is ChildState.RUNNING
    assert again.restarts == 1
    assert again.process != first


@pytest.mark.asyncio
async def test_start_of_a_running_child_changes_nothing(supervise: Supervise) -> None:
    control = await supervise(a=SLEEP)
    before = child_of(control, "a")
    assert (await control.start("a")).child("a") == before


@pytest.mark.asyncio
async def test_a_child_may_wait_to_be_asked_for(supervise: Supervise) -> None:
    control = await supervise(waiting=True, a=SLEEP)
    assert (await control.status()).children == (Child("a"),)
    assert (await control.start("a")).child("a").restarts == 0


@pytest.mark.asyncio
async def test_two_restarts_at_once_leave_one_process(supervise: Supervise) -> None:
    control = await supervise(a=SLEEP)
    await asyncio.gather(*(control.restart("a") for _ in range(4)))
    running = [pid for pid in processes_in(control.directory) if process_of(pid)]
    assert sorted(running) == sorted(
        [process_of_child(control, "a").pid, supervisor_of(control).pid]
    )


@pytest.mark.asyncio
async def test_a_child_that_cannot_start_has_exited_and_says_why(supervise: Supervise) -> None:
    control = await supervise(a=["no-such-command"])
    await exited(control, "a")
    assert child_of(control, "a").exit_code == 127
    assert "no-such-command" in (control.directory / "a.log").read_text()
    with pytest.raises(RigError, match="cannot be started"):
        await control.start("a")


@pytest.mark.asyncio
async def test_stop_ends_what_escaped_from_the_session(supervise: Supervise) -> None:
    control = await supervise(a=ESCAPING, b=SLEEP)
    pids = control.directory / "pids"
    await eventually(lambda: len(pids_in(pids)) == 2)
    await control.stop("a")
    assert gone(pids_in(pids))
    assert alive(process_of_child(control, "b"))


@pytest.mark.asyncio
async def test_start_first_ends_what_an_earlier_life_left(supervise: Supervise) -> None:
    control = await supervise(a=ESCAPING)
    pids = control.directory / "pids"
    await eventually(lambda: len(pids_in(pids)) == 2)
    before = pids_in(pids)
    os.kill(process_of_child(control, "a").pid, signal.SIGKILL)
    await exited(control, "a")
    assert not gone(before)
    await control.start("a")
    assert gone(before)


@pytest.mark.asyncio
async def test_only_the_listed_signals_are_sent(supervise: Supervise) -> None:
    control = await supervise(a=SLEEP)
    with pytest.raises(
        RigError, match=r"'USR1' is not allowed. Use one of CONT, HUP, KILL, STOP, TERM"
    ):
        await control.signal("a", "USR1")
    assert sorted(SIGNALS) == ["CONT", "HUP", "KILL", "STOP", "TERM"]
    process = process_of_child(control, "a")
    await control.signal("a", "STOP")
    await eventually(lambda: is_paused(process))
    await control.signal("a", "CONT")
    await eventually(lambda: not is_paused(process))
    await control.signal("a", "TERM")
    await exited(control, "a")
    with pytest.raises(RigError, match="not running"):
        await control.signal("a", "KILL")


@pytest.mark.asyncio
async def test_an_unknown_name_is_refused_with_those_there_are(supervise: Supervise) -> None:
    control = await supervise(a=SLEEP, b=SLEEP)
    with pytest.raises(RigError, match="no process 'c'; there are a, b"):
        await control.restart("c")


@pytest.mark.asyncio
async def test_a_directory_has_one_supervisor(supervise: Supervise) -> None:
    control = await supervise(a=SLEEP)
    with pytest.raises(RigError, match="has a supervisor"):
        await launch(control.directory, owned=True)
    assert (await control.status()).child("a").restarts == 0


@pytest.mark.asyncio
@pytest.mark.parametrize("owned", [True, False])
async def test_orders_that_cannot_be_read_fail_at_once(tmp_path: Path, owned: bool) -> None:
    write_atomically(tmp_path / SUPERVISE_FILE, "{")
    with pytest.raises(RigError, match="cannot be read"):
        await launch(tmp_path, owned=owned)
    assert processes_in(tmp_path) == []


@pytest.mark.asyncio
async def test_the_control_socket_is_private(supervise: Supervise) -> None:
    control = await supervise(a=SLEEP)
    socket = (await control.status()).socket
    assert Path(socket).parent.parent == control.directory
    assert _mode(socket) == 0o600
    assert _mode(str(Path(socket).parent)) == 0o700


@pytest.mark.asyncio
async def test_a_long_path_has_its_socket_elsewhere(supervise: Supervise, tmp_path: Path) -> None:
    control = await supervise(tmp_path / "with space" / ("x" * 100) / "rig", a=SLEEP)
    socket = (await control.status()).socket
    assert len(os.fsencode(socket)) <= 100
    assert _mode(socket) == 0o600
    assert _mode(str(Path(socket).parent)) == 0o700
    await control.down()
    assert _mode(str(Path(socket).parent)) is None
