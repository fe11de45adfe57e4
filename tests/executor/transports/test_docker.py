"""In containers of a real engine: who they are, and what becomes of a command without them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from operator_protocols.domain.action import Action, Outcome
from operator_protocols.domain.category import FailureCategory
from operator_protocols.errors import ExecutorError
from operator_sre.executor.docker import Address
from operator_sre.executor.docker import Engine as Client
from operator_sre.executor.jobs import Spool
from operator_sre.executor.transports.docker import DockerWire, loader_of
from operator_sre.executor.transports.places import Container
from operator_sre.executor.transports.remote import RemoteShell
from tests.engines.dockerd import Engine, docker_engine
from tests.executor.jobs import new_job, run_in
from tests.processes.waiting import eventually


@pytest.fixture
def engine(pytestconfig: pytest.Config) -> Iterator[Engine]:
    """The engine of this process; what a test made in it is removed."""
    engine = docker_engine(pytestconfig)
    yield engine
    engine.clean()


def _shell(engine: Engine, container: str, folder: Path) -> RemoteShell:
    wire = DockerWire(Container(container), Client(Address(socket=engine.socket)))
    return RemoteShell(wire, f"docker://{container}", Spool(folder / "spool"))


def test_a_script_goes_in_by_variables_that_the_kernel_takes() -> None:
    line, variables = loader_of("é" * 100_000)
    assert all(len(variable.encode()) < 128 * 1024 for variable in variables)
    assert "".join(variable.partition("=")[2] for variable in variables) == "é" * 100_000
    assert "é" not in line


@pytest.mark.system(smoke=True)
@pytest.mark.asyncio
async def test_a_container_is_identified_by_its_id(engine: Engine, tmp_path: Path) -> None:
    name = engine.name()
    first = engine.run("sleep", "600", name=name)
    shell = _shell(engine, name, tmp_path)
    assert await shell.identify() == f"docker://{first}"
    assert await _shell(engine, first, tmp_path).identify() == f"docker://{first}"
    engine.remove(first)
    with pytest.raises(ExecutorError, match="There is no container"):
        await shell.identify()
    second = engine.run("sleep", "600", name=name)
    assert await shell.identify() == f"docker://{second}"
    assert second != first


@pytest.mark.system
@pytest.mark.asyncio
async def test_a_container_that_is_gone_or_stopped_runs_nothing(
    engine: Engine, tmp_path: Path
) -> None:
    stopped = engine.create("sleep", "600")
    result = await run_in(_shell(engine, stopped, tmp_path), Action.shell("true"))
    assert (result.outcome, result.category) == (Outcome.REFUSED, FailureCategory.RESOURCE)
    assert "not running" in result.stderr
    for name in ("no-such-container", "0" * 64):
        result = await run_in(_shell(engine, name, tmp_path), Action.shell("true"))
        assert (result.outcome, result.category) == (Outcome.REFUSED, FailureCategory.NOT_FOUND)


@pytest.mark.system
@pytest.mark.asyncio
async def test_a_container_without_a_shell_says_so(engine: Engine, tmp_path: Path) -> None:
    container = engine.run("sh", "-c", "rm /bin/sh; echo ready; exec busybox sleep 600")
    await asyncio.to_thread(engine.hear, container, "ready")
    result = await run_in(_shell(engine, container, tmp_path), Action.shell("true"))
    assert (result.outcome, result.category) == (Outcome.REFUSED, FailureCategory.NOT_FOUND)
    assert "has no shell" in result.stderr


@pytest.mark.system
@pytest.mark.asyncio
async def test_a_container_that_is_stopped_under_a_command_leaves_it_unknown(
    engine: Engine, tmp_path: Path
) -> None:
    container = engine.run("sleep", "600", HostConfig={"Binds": [f"{tmp_path}:{tmp_path}"]})
    shell, job = _shell(engine, container, tmp_path), new_job(60.0)
    action = Action.shell(f"echo said; touch {tmp_path}/begun; sleep 60")
    running = asyncio.ensure_future(shell.run(action, job))
    await eventually((tmp_path / "begun").exists)
    await asyncio.to_thread(engine.ask, "POST", f"/containers/{container}/kill")
    assert (await running).outcome is Outcome.UNKNOWN
    assert (await shell.recover(action, job)).outcome is Outcome.UNKNOWN
    await asyncio.to_thread(engine.ask, "POST", f"/containers/{container}/start")
    recovered = await shell.recover(action, job)
    assert recovered.outcome is Outcome.UNKNOWN
    assert recovered.stdout == "said\n"


@pytest.mark.system
@pytest.mark.asyncio
async def test_a_read_only_container_of_nobody_runs_commands_too(
    engine: Engine, tmp_path: Path
) -> None:
    limits = {"ReadonlyRootfs": True, "CapDrop": ["ALL"]}
    container = engine.run("sleep", "600", User="nobody", HostConfig=limits)
    shell, job = _shell(engine, container, tmp_path), new_job()
    action = Action.shell("id -u; exit 4")
    for result in (await shell.run(action, job), await shell.recover(action, job)):
        assert (result.exit_code, result.stdout) == (4, "65534\n")


@pytest.mark.system
@pytest.mark.asyncio
@pytest.mark.parametrize(
    "trap",
    [
        "ln -s /trap /tmp/operator-sre-0",
        "mkdir /tmp/operator-sre-0; chown nobody /tmp/operator-sre-0",
        "touch /tmp/operator-sre-0",
    ],
)
async def test_a_folder_that_somebody_else_made_is_not_trusted(
    engine: Engine, tmp_path: Path, trap: str
) -> None:
    begin = f"mkdir -m 777 /trap; {trap}; echo ready; exec sleep 600"
    container = engine.run("sh", "-c", begin)
    await asyncio.to_thread(engine.hear, container, "ready")
    shell, job = _shell(engine, container, tmp_path), new_job()
    action = Action.shell("echo here; ls /trap /tmp/operator-sre-0/")
    for result in (await shell.run(action, job), await shell.recover(action, job)):
        assert result.stdout.startswith("here\n")
        assert job.id not in result.stdout
