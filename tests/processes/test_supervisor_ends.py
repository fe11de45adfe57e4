"""How a supervisor ends, and what happens to its children then."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from operator_protocols.domain.target import Process
from operator_protocols.errors import RigError
from operator_sre.processes.control import Control, reap
from operator_sre.processes.identity import alive
from operator_sre.processes.supervision import (
    LOG_FILE,
    STATE_FILE,
    SUPERVISE_FILE,
    ChildState,
    Supervised,
    write_orders,
)
from operator_sre.processes.tree import send
from tests.processes.conftest import Supervise
from tests.processes.supervised import (
    ESCAPING,
    SLEEP,
    child_of,
    exited,
    process_of_child,
    supervisor_of,
)
from tests.processes.test_run import STUBBORN
from tests.processes.waiting import eventually, gone, pids_in, processes_in


def _sleeper() -> subprocess.Popen[bytes]:
    return subprocess.Popen(SLEEP, start_new_session=True)


@pytest.mark.asyncio
async def test_down_ends_children_that_are_stopped_or_escaped(supervise: Supervise) -> None:
    control = await supervise(a=SLEEP, b=STUBBORN["stops and ignores"], c=ESCAPING)
    pids = control.directory / "pids"
    await eventually(lambda: len(pids_in(pids)) == 3)
    await control.signal("a", "STOP")
    await control.down()
    assert not alive(supervisor_of(control))
    assert gone([*pids_in(pids), process_of_child(control, "a").pid])
    assert not (control.directory / "control").exists()
    with pytest.raises(RigError, match="does not answer"):
        await control.status()


@pytest.mark.asyncio
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_polite_signal_means_down(supervise: Supervise, number: int) -> None:
    control = await supervise(a=SLEEP)
    supervisor, child = supervisor_of(control), process_of_child(control, "a")
    send(supervisor, number)
    await eventually(lambda: not alive(supervisor))
    assert not alive(child)
    assert child_of(control, "a").state is ChildState.EXITED


@pytest.mark.asyncio
async def test_it_goes_down_with_its_directory(supervise: Supervise) -> None:
    control = await supervise(a=SLEEP)
    supervisor, child = supervisor_of(control), process_of_child(control, "a")
    for name in (SUPERVISE_FILE, STATE_FILE, LOG_FILE):
        (control.directory / name).unlink()
    await eventually(lambda: not alive(supervisor))
    assert not alive(child)


@pytest.mark.asyncio
async def test_what_a_killed_supervisor_left_is_reaped(supervise: Supervise) -> None:
    control = await supervise(a=SLEEP, b=ESCAPING, c=["sh", "-c", "kill -STOP $$"])
    pids = control.directory / "pids"
    await eventually(lambda: len(pids_in(pids)) == 2)
    children = [process_of_child(control, name).pid for name in "abc"]
    supervisor = supervisor_of(control)
    send(supervisor, signal.SIGKILL)
    await eventually(lambda: not alive(supervisor))
    assert not gone(children)
    with pytest.raises(RigError, match="does not answer"):
        await control.down()
    await reap(control.directory, grace_s=0.3)
    assert gone([*children, *pids_in(pids)])
    await reap(control.directory)


@pytest.mark.asyncio
async def test_reaping_waits_for_a_supervisor_that_takes_its_time_to_die(
    supervise: Supervise, monkeypatch: pytest.MonkeyPatch
) -> None:
    control = await supervise(a=SLEEP)
    supervisor, asked = supervisor_of(control), 0

    def late(process: Process) -> bool:
        nonlocal asked
        asked += process == supervisor
        return asked < 3 or alive(process)

    monkeypatch.setattr("operator_sre.processes.control.alive", late)
    await reap(control.directory, grace_s=0.3)
    assert asked >= 3
    assert not alive(supervisor)


@pytest.mark.asyncio
async def test_reap_never_touches_a_stranger_with_an_old_pid(supervise: Supervise) -> None:
    control = await supervise(a=["true"])
    await exited(control, "a")
    await control.down()
    state = control.directory / STATE_FILE
    with _sleeper() as stranger:
        old = process_of_child(control, "a").pid
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
        supervisor, child = supervisor_of(control), process_of_child(control, "a")
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
