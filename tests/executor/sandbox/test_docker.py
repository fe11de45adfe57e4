"""The same scripts in containers of a real engine."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from operator_protocols.domain.action import Outcome
from operator_protocols.domain.category import FailureCategory
from operator_sre.executor.containers import LABEL
from operator_sre.executor.docker import Address, Engine
from operator_sre.executor.sandbox import Language, Limits, Script
from operator_sre.executor.sandbox.docker import IMAGES, DockerBox
from tests.executor.jobs import new_job
from tests.executor.sandbox.boxes import Boxed, InDocker, docker

pytestmark = [pytest.mark.asyncio, pytest.mark.timeout(300)]


@pytest.fixture
def boxed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[InDocker]:
    with docker(tmp_path, request.config) as made:
        yield made
        assert made.left() == []


@pytest.mark.system
async def test_the_container_is_limited_in_everything(boxed: InDocker) -> None:
    task = asyncio.create_task(boxed.run(Language.BASH, "echo on; sleep 99"))
    try:
        found = await boxed.containers()
        (settings,) = [boxed.engine.inspect(one) for one in found]
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    host, config = settings["HostConfig"], settings["Config"]
    assert config["User"] == "65534:65534"
    assert config["Labels"][LABEL] == boxed.home
    assert (host["NetworkMode"], host["ReadonlyRootfs"], host["Privileged"]) == (
        "none",
        True,
        False,
    )
    assert host["Memory"] == host["MemorySwap"] == Limits().memory_bytes
    assert (host["NanoCpus"], host["PidsLimit"]) == (1_000_000_000, Limits().processes)
    assert host["CapDrop"] == ["ALL"]
    assert "no-new-privileges" in host["SecurityOpt"]
    assert all(bind.endswith(":ro") for bind in host["Binds"])
    assert not any("docker.sock" in bind for bind in host["Binds"])


@pytest.mark.system
async def test_cancelled_it_leaves_no_container(boxed: InDocker) -> None:
    task = asyncio.create_task(boxed.run(Language.BASH, "sleep 99"))
    await boxed.containers()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert boxed.left() == []


@pytest.mark.system
async def test_an_image_that_is_not_there_is_not_pulled(boxed: InDocker) -> None:
    assert IMAGES == {Language.PYTHON: "python:3.11-slim", Language.BASH: "bash:5.2-alpine"}
    images = dict.fromkeys(Language, "operator-tests/nothing:9")
    box = DockerBox(boxed.client, home=boxed.home, images=images, folder=boxed.folder)
    result = await box.run(Script(Language.BASH, "true"), Limits(), new_job())
    assert result.outcome is Outcome.REFUSED
    assert "docker pull operator-tests/nothing:9" in result.stderr


async def test_without_an_engine_nothing_runs(tmp_path: Path) -> None:
    engine = Engine(Address(socket=str(tmp_path / "none.sock")))
    box = DockerBox(engine, home="h", folder=tmp_path)
    result = await box.run(Script(Language.BASH, "true"), Limits(), new_job())
    assert result.outcome is Outcome.REFUSED
    assert "No Docker engine answers" in result.stderr
    assert (await box.recover(new_job())).outcome is Outcome.UNKNOWN


@pytest.mark.system
async def test_memory_of_all_processes_together_is_limited(boxed: Boxed) -> None:
    text = "held = []\nwhile True:\n    held.append(b'x' * 20_000_000)"
    result = await boxed.run(Language.PYTHON, text)
    assert not result.ok
    assert result.category is FailureCategory.RESOURCE
    assert result.data["used_up"] == "memory"


@pytest.mark.system
async def test_processes_are_few(boxed: Boxed) -> None:
    text = """
import os, signal
children = []
try:
    while len(children) < 500:
        pid = os.fork()
        if pid == 0:
            signal.pause()
        children.append(pid)
except OSError:
    print(len(children))
"""
    result = await boxed.run(Language.PYTHON, text)
    assert 20 < int(result.stdout) <= Limits().processes


@pytest.mark.system
async def test_a_box_that_outlived_its_operator_is_ended(boxed: InDocker) -> None:
    job = new_job()
    script = Script(Language.BASH, "sleep 99")
    task = asyncio.create_task(boxed.sandbox.run(script, Limits(), job))
    await boxed.containers()
    assert (await boxed.sandbox.recover(job)).outcome is Outcome.CANCELLED
    await asyncio.wait({task}, timeout=30)
    assert boxed.left() == []
