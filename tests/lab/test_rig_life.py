"""What can be done to a rig that is up, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import stat
from pathlib import Path

import pytest

from operator_lab.manifest import write_manifest
from operator_lab.rig import ProcessStatus, Rig, RigStatus, RunState
from operator_lab.startup import answers
from operator_protocols.domain.target import Process, Target
from operator_protocols.errors import NotFoundError, RigError
from operator_sre.processes.identity import alive, process_of
from operator_sre.processes.tree import send
from tests.lab.conftest import Up, rig_spec
from tests.measuring import times_as_long
from tests.processes.waiting import eventually, names_in, processes_in


def _target(rig: Rig, name: str) -> Target:
    return next(target for target in rig.targets() if target.name == name)


def _process(rig: Rig, name: str) -> Process:
    process = _target(rig, name).process
    assert process is not None
    return process


def _status(rig: Rig, name: str) -> ProcessStatus:
    status: RigStatus = rig.status()
    return next(each for each in status.processes if each.name == name)


def _port(rig: Rig, name: str) -> int:
    port = _target(rig, name).port
    assert port is not None
    return port


@pytest.mark.asyncio
async def test_a_killed_target_stays_dead_and_keeps_its_last_process(up: Up) -> None:
    rig = await up()
    process = _process(rig, "node-1")
    await rig.kill("node-1")
    assert not alive(process)
    assert _target(rig, "node-1").process == process
    assert _status(rig, "node-1").state is RunState.EXITED
    assert _status(rig, "node-1").exit_code == -signal.SIGKILL
    assert _status(rig, "node-2").state is RunState.RUNNING
    assert not await answers(_port(rig, "node-1"))


@pytest.mark.asyncio
async def test_a_target_killed_by_hand_is_seen_dead(up: Up) -> None:
    rig = await up()
    os.kill(_process(rig, "node-2").pid, signal.SIGKILL)
    await eventually(lambda: _status(rig, "node-2").exit_code == -signal.SIGKILL)
    assert _status(rig, "node-2").state is RunState.EXITED


@pytest.mark.asyncio
@pytest.mark.parametrize("name", ["node-1", "store"])
async def test_restart_brings_a_dead_target_back_on_its_port(up: Up, name: str) -> None:
    rig = await up()
    before, port = _process(rig, name), _port(rig, name)
    await rig.kill(name)
    process = await rig.restart(name)
    assert process == _process(rig, name) != before
    assert _port(rig, name) == port
    assert await answers(port)
    assert _status(rig, name).restarts == 1


@pytest.mark.asyncio
async def test_restart_replaces_a_running_target(up: Up) -> None:
    rig = await up()
    before = _process(rig, "node-1")
    assert await rig.restart("node-1") != before
    assert not alive(before)


@pytest.mark.asyncio
async def test_a_paused_target_accepts_and_does_not_answer(up: Up) -> None:
    rig = await up()
    process = _process(rig, "node-1")
    await rig.pause("node-1")
    assert _status(rig, "node-1").state is RunState.PAUSED
    assert await answers(_port(rig, "node-1"))
    assert not await answers(_port(rig, "node-1"), path="/health")
    assert await rig.resume("node-1") == process
    assert await answers(_port(rig, "node-1"), path="/health")
    assert _status(rig, "node-1").state is RunState.RUNNING


@pytest.mark.asyncio
async def test_restart_works_on_a_paused_target(up: Up) -> None:
    rig = await up()
    await rig.pause("node-1")
    await rig.restart("node-1")
    assert _status(rig, "node-1").state is RunState.RUNNING


@pytest.mark.asyncio
async def test_a_dead_target_cannot_be_paused_killed_or_resumed(up: Up) -> None:
    rig = await up()
    await rig.kill("node-1")
    for verb in (rig.kill, rig.pause, rig.resume):
        with pytest.raises(RigError, match=r"'node-1' is not running\. Restart it"):
            await verb("node-1")


@pytest.mark.asyncio
async def test_a_stranger_is_refused_by_every_verb(up: Up) -> None:
    rig = await up()
    for verb in (rig.kill, rig.pause, rig.resume, rig.restart):
        for name in ("node-9", "load", "1", "../node-1"):
            with pytest.raises(NotFoundError, match="node-1, node-2, store"):
                await verb(name)


@pytest.mark.asyncio
async def test_a_target_that_cannot_come_back_is_told_with_its_last_words(up: Up) -> None:
    rig = await up()
    # A node cannot start while its store is away.
    await rig.kill("store")
    with pytest.raises(RigError, match=r"'node-1' exited during startup.*Connection refused"):
        await rig.restart("node-1")
    await rig.restart("store")
    await rig.restart("node-1")


@pytest.mark.asyncio
@pytest.mark.parametrize("owned", [True, False])
async def test_down_ends_everything_and_may_be_asked_twice(
    up: Up, tmp_path: Path, owned: bool
) -> None:
    rig = await up(owned=owned)
    await rig.pause("node-1")
    await rig.kill("node-2")
    await rig.pause("store")
    await rig.down()
    assert processes_in(tmp_path) == []
    assert names_in(tmp_path) == []
    await rig.down()
    with pytest.raises(NotFoundError, match="no rig"):
        rig.targets()


@pytest.mark.asyncio
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
async def test_down_works_without_the_supervisor(
    up: Up, tmp_path: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("operator_sre.processes.control.ANSWER_S_MAX", 0.5)
    rig = await up(owned=False)
    await rig.pause("node-1")
    supervisor = rig.manifest().supervisor
    assert supervisor is not None
    send(supervisor, number)
    if number == signal.SIGKILL:
        await eventually(lambda: not alive(supervisor))
        assert not rig.status().supervised
        assert _status(rig, "node-2").state is RunState.RUNNING
    await Rig(tmp_path / "rig").down()
    assert processes_in(tmp_path) == []
    assert names_in(tmp_path) == []


@pytest.mark.asyncio
async def test_a_rig_in_the_making_cannot_be_attached_to(up: Up, tmp_path: Path) -> None:
    rig = await up()
    manifest = rig.manifest()
    me = process_of(os.getpid())
    assert me is not None
    unfinished = manifest.__class__(manifest.spec, manifest.created, me)
    write_manifest(rig.directory, unfinished)
    with pytest.raises(RigError, match=f"still being started by pid {os.getpid()}"):
        Rig.attach(tmp_path / "rig")
    write_manifest(rig.directory, manifest)


@pytest.mark.asyncio
async def test_the_directory_is_private_and_targets_are_cheap(up: Up) -> None:
    rig = await up(rig_spec(3))
    assert stat.S_IMODE(rig.directory.stat().st_mode) == 0o700

    def read() -> list[object]:
        return [json.loads(file.read_bytes()) for file in sorted(rig.directory.glob("*.json"))]

    # Nothing is started and nobody is asked: it reads a few small files, and no more.
    assert read()
    assert times_as_long(rig.targets, read, enough=10.0) <= 10.0
