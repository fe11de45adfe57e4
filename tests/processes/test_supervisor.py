"""The supervisor: it starts, records and ends, and heals nothing by itself."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from operator_protocols.domain.target import Process
from operator_protocols.errors import RigError
from operator_sre.processes.control import Control, launch, reap
from operator_sre.processes.files import write_atomically
from operator_sre.processes.identity import alive, paused, process_of
from operator_sre.processes.nursery import SIGNALS
from operator_sre.processes.supervision import (
    LOG_FILE,
    STATE_FILE,
    SUPERVISE_FILE,
    Child,
    ChildState,
    Supervised,
    read_state,
    write_orders,
)
from operator_sre.processes.tree import send
from tests.processes.conftest import Supervise
from tests.processes.test_run import STUBBORN
from tests.processes.waiting import eventually, gone, pids_in, processes_in

SLEEP = ["sleep", "300"]
ESCAPING = STUBBORN["forks twice and ignores TERM"]


def _child(control: Control, name: str) -> Child:
    state = read_state(control.directory)
    assert state is not None
    return state.child(name)


def _process(control: Control, name: str) -> Process:
    process = _child(control, name).process
    assert process is not None
    return process


def _supervisor(control: Control) -> Process:
    state = read_state(control.directory)
    assert state is not None
    return state.supervisor


def _sleeper() -> subprocess.Popen[bytes]:
    return subprocess.Popen(SLEEP, start_new_session=True)


def _mode(path: str) -> int | None:
    return stat.S_IMODE(Path(path).stat().st_mode) if Path(path).exists() else None


async def _exited(control: Control, name: str) -> None:
    await eventually(lambda: _child(control, name).state is ChildState.EXITED)


@pytest.mark.asyncio
async def test_every_start_and_exit_is_recorded(supervise: Supervise) -> None:
    control = await supervise(a=SLEEP, b=["sh", "-c", "echo words; exit 7"])
    await _exited(control, "b")
    assert _child(control, "b").exit_code == 7
    assert (control.directory / "b.log").read_text() == "words\n"
    assert _child(control, "a").state is ChildState.RUNNING
    assert alive(_process(control, "a"))
    assert (await control.status()).children == (_child(control, "a"), _child(control, "b"))


@pytest.mark.asyncio
async def test_a_killed_child_stays_dead_until_asked_for(supervise: Supervise) -> None:
    control = await supervise(a=SLEEP, b=SLEEP)
    first = _process(control, "a")
    os.kill(first.pid, signal.SIGKILL)
    await _exited(control, "a")
    assert _child(control, "a").exit_code == -signal.SIGKILL
    # Others come and go meanwhile; nobody brings this one back.
    for _ in range(3):
        await control.restart("b")
    assert _child(control, "a") == Child("a", ChildState.EXITED, first, -signal.SIGKILL, 0)
    again = (await control.start("a")).child("a")
    assert again.state is ChildState.RUNNING
    assert again.restarts == 1
    assert again.process != first


@pytest.mark.asyncio
async def test_start_of_a_running_child_changes_nothing(supervise: Supervise) -> None:
    control = await supervise(a=SLEEP)
    before = _child(control, "a")
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
    assert sorted(running) == sorted([_process(control, "a").pid, _supervisor(control).pid])


@pytest.mark.asyncio
async def test_a_child_that_cannot_start_has_exited_and_says_why(supervise: Supervise) -> None:
    control = await supervise(a=["no-such-command"])
    await _exited(control, "a")
    assert _child(control, "a").exit_code == 127
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
    assert alive(_process(control, "b"))


@pytest.mark.asyncio
async def test_start_first_ends_what_an_earlier_life_left(supervise: Supervise) -> None:
    control = await supervise(a=ESCAPING)
    pids = control.directory / "pids"
    await eventually(lambda: len(pids_in(pids)) == 2)
    before = pids_in(pids)
    await control.signal("a", "KILL")
    await _exited(control, "a")
    assert not gone(before)
    await control.start("a")
    assert gone(before)


@pytest.mark.asyncio
async def test_only_the_listed_signals_are_sent(supervise: Supervise) -> None:
    control = await supervise(a=SLEEP)
    with pytest.raises(RigError, match="'HUP' is not one of CONT, KILL, STOP, TERM"):
        await control.signal("a", "HUP")
    assert sorted(SIGNALS) == ["CONT", "KILL", "STOP", "TERM"]
    process = _process(control, "a")
    await control.signal("a", "STOP")
    await eventually(lambda: paused(process))
    await control.signal("a", "CONT")
    await eventually(lambda: not paused(process))
    await control.signal("a", "TERM")
    await _exited(control, "a")
    with pytest.raises(RigError, match="not running"):
        await control.signal("a", "KILL")


@pytest.mark.asyncio
async def test_an_unknown_name_is_refused_with_those_there_are(supervise: Supervise) -> None:
    control = await supervise(a=SLEEP, b=SLEEP)
    with pytest.raises(RigError, match="no process 'c'; there are a, b"):
        await control.restart("c")


@pytest.mark.asyncio
async def test_down_ends_children_that_are_stopped_or_escaped(supervise: Supervise) -> None:
    control = await supervise(a=SLEEP, b=STUBBORN["stops and ignores"], c=ESCAPING)
    pids = control.directory / "pids"
    await eventually(lambda: len(pids_in(pids)) == 3)
    await control.signal("a", "STOP")
    await control.down()
    assert not alive(_supervisor(control))
    assert gone([*pids_in(pids), _process(control, "a").pid])
    assert not (control.directory / "control").exists()
    with pytest.raises(RigError, match="does not answer"):
        await control.status()


@pytest.mark.asyncio
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_polite_signal_means_down(supervise: Supervise, number: int) -> None:
    control = await supervise(a=SLEEP)
    supervisor, child = _supervisor(control), _process(control, "a")
    send(supervisor, number)
    await eventually(lambda: not alive(supervisor))
    assert not alive(child)
    assert _child(control, "a").state is ChildState.EXITED


@pytest.mark.asyncio
async def test_it_goes_down_with_its_directory(supervise: Supervise) -> None:
    control = await supervise(a=SLEEP)
    supervisor, child = _supervisor(control), _process(control, "a")
    for name in (SUPERVISE_FILE, STATE_FILE, LOG_FILE):
        (control.directory / name).unlink()
    await eventually(lambda: not alive(supervisor))
    assert not alive(child)


@pytest.mark.asyncio
async def test_what_a_killed_supervisor_left_is_reaped(supervise: Supervise) -> None:
    control = await supervise(a=SLEEP, b=ESCAPING, c=["sh", "-c", "kill -STOP $$"])
    pids = control.directory / "pids"
    await eventually(lambda: len(pids_in(pids)) == 2)
    children = [_process(control, name).pid for name in "abc"]
    supervisor = _supervisor(control)
    send(supervisor, signal.SIGKILL)
    await eventually(lambda: not alive(supervisor))
    assert not gone(children)
    with pytest.raises(RigError, match="does not answer"):
        await control.down()
    await reap(control.directory, grace_s=0.3)
    assert gone([*children, *pids_in(pids)])
    await reap(control.directory)


@pytest.mark.asyncio
async def test_reap_never_touches_a_stranger_with_an_old_pid(supervise: Supervise) -> None:
    control = await supervise(a=["true"])
    await _exited(control, "a")
    await control.down()
    state = control.directory / STATE_FILE
    with _sleeper() as stranger:
        old = _process(control, "a").pid
        state.write_text(state.read_text().replace(f'"pid": {old}', f'"pid": {stranger.pid}'))
        await reap(control.directory)
        survived = stranger.poll() is None
        stranger.kill()
    assert survived


_STARTER = """
import asyncio, sys
from pathlib import Path
from operator_sre.processes.control import launch
launched = asyncio.run(launch(Path(sys.argv[1]), owned=sys.argv[2] == "owned"))
print("up", flush=True)
sys.stdin.read()
"""


def _started_by_another(directory: Path, how: str) -> tuple[Control, Process, Process]:
    """A supervisor whose starter has been killed with SIGKILL."""
    directory.mkdir()
    log = str(directory / "a.log")
    write_orders(directory, [Supervised("a", tuple(SLEEP), str(directory), log)])
    argv = [sys.executable, "-c", _STARTER, str(directory), how]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as starter:
        assert starter.stdout is not None
        assert starter.stdout.readline() == b"up\n"
        control = Control(directory)
        supervisor, child = _supervisor(control), _process(control, "a")
        starter.kill()
    return control, supervisor, child


@pytest.mark.asyncio
async def test_it_outlives_its_starter(tmp_path: Path) -> None:
    control, supervisor, child = _started_by_another(tmp_path / "rig", "detached")
    assert os.getsid(supervisor.pid) not in (os.getsid(0), os.getsid(child.pid))
    await control.restart("a")
    assert not alive(child)
    assert alive(supervisor)
    await control.down()
    assert processes_in(tmp_path) == []


@pytest.mark.asyncio
async def test_an_owned_one_dies_with_its_killed_owner(tmp_path: Path) -> None:
    _, supervisor, child = _started_by_another(tmp_path / "rig", "owned")
    await eventually(lambda: not alive(supervisor))
    assert not alive(child)
    assert processes_in(tmp_path) == []


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
