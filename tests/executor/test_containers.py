"""Containers of a home are ended through the engine, which may be away or hang."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from operator_sre.executor.containers import LABEL, ContainersEnded, end_containers
from operator_sre.executor.docker import Address
from tests.engines.dockerd import docker_engine
from tests.executor.docker.impostor import ID, answer, listening, says

pytestmark = pytest.mark.asyncio

# What a busy machine may add; the one that hangs does so for ever.


async def test_without_docker_it_is_said(tmp_path: Path) -> None:
    address = Address(socket=str(tmp_path / "none.sock"))
    assert await end_containers("home", address) == ContainersEnded(
        note="there is no Docker engine"
    )


@pytest.mark.system
async def test_those_with_the_label_of_the_home_are_removed(pytestconfig: pytest.Config) -> None:
    engine = docker_engine(pytestconfig)
    home = engine.name()
    command = ("sh", "-c", "trap '' TERM; sleep 1000")
    running = engine.run(*command, Labels={LABEL: home})
    waiting = engine.create(*command, Labels={LABEL: home})
    other = engine.run(*command, Labels={LABEL: f"{home}x", "operator-tests": "x"})
    bare = engine.run(*command)
    address = Address(socket=engine.socket)
    try:
        first = await end_containers(home, address)
        assert set(first.ended) == {running, waiting}
        assert first.note == ""
        assert engine.is_running(other)
        assert engine.is_running(bare)
        assert await end_containers(home, address) == ContainersEnded()
    finally:
        engine.remove(other)
        engine.clean()


async def test_no_containers_are_nothing_to_remove() -> None:
    async with listening(says(answer(b"[]"))) as path:
        assert await end_containers("home", Address(socket=path)) == ContainersEnded()


@pytest.mark.parametrize(
    ("said", "hangs"),
    [
        (b"", False),
        (b"", True),
        (answer(b"{}"), False),
        (answer(b'{"message":"no"}', status="500 Oops"), False),
    ],
    ids=["silent", "hangs", "nonsense", "refuses"],
)
async def test_a_docker_that_does_not_answer_is_not_waited_for(said: bytes, hangs: bool) -> None:
    async with listening(says(said), hangs=hangs) as path:
        ended = await end_containers("home", Address(socket=path))
    assert ended.ended == ()
    assert ended.note.startswith("Docker did not answer: ")


async def test_containers_that_stay_are_named() -> None:
    async def script(request: str, writer: asyncio.StreamWriter) -> None:
        listed = f'[{{"Id":"{ID}"}},{{"Id":"../../x"}}]'.encode()
        is_list = request.startswith("GET")
        refused = answer(b'{"message":"busy"}', status="500 Oops")
        await says(answer(listed) if is_list else refused)(request, writer)

    async with listening(script) as path:
        ended = await end_containers("home", Address(socket=path))
    assert ended == ContainersEnded(note=f"Docker did not remove {ID[:12]}")
