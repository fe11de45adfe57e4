"""What a DeploymentTarget promises: for compose on a real engine, and for the scripted one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

from operator_lab.stacks import ScriptedTarget
from operator_lab.stacks.record import prepare
from operator_lab.stacks.target import ComposeTarget
from operator_protocols.domain.stack import ServiceState, StackSpec
from operator_protocols.errors import NotFoundError, RigError
from operator_protocols.ports import Deploying, DeploymentTarget, Tending
from tests.engines.dockerd import docker_engine
from tests.lab.stacks.engines import PLAIN, compose_for, containers_of

pytestmark = [pytest.mark.asyncio, pytest.mark.timeout(600)]

# One name begins with another: whoever looks for parts of names hits both.
NAMES = ("ash", "ash-tree", "birch")


@dataclass
class Place:
    """A target, and what the world does to it behind its back."""

    target: DeploymentTarget
    kill: Callable[[str], Awaitable[None]]
    ailing: Callable[[], DeploymentTarget]

    async def starts(self, service: str) -> int:
        """How often a service was started on the data that it has."""
        (line,) = await self.target.logs(service, lines=1)
        name, _, said = line.partition(" | ")
        assert name == service
        return int(said.removeprefix("start "))

    async def states(self) -> dict[str, ServiceState]:
        """Every service with its state."""
        return {each.name: each.state for each in await self.target.status()}


def _scripted() -> Place:
    says = dict.fromkeys(NAMES, "start {n}")
    target = ScriptedTarget(says)

    async def kill(service: str) -> None:
        target.kill(service)

    return Place(target, kill, lambda: ScriptedTarget(says, ailing=("birch",)))


async def _composed(config: pytest.Config, folder: Path) -> AsyncIterator[Place]:
    engine = docker_engine(config)
    compose = compose_for(engine)
    targets: list[ComposeTarget] = []

    def made(ailing: str) -> ComposeTarget:
        settings = {"TEST_IMAGE": engine.image, "TEST_AILING": ailing}
        spec = StackSpec("plain", str(PLAIN), (), settings=settings)
        project = f"{engine.name()}-{ailing}"
        record = prepare(spec, folder / project, project=project, ports={})
        containers = containers_of(engine, project)
        target = ComposeTarget(
            record, folder / project, compose=compose, containers=containers, well_s=90
        )
        targets.append(target)
        return target

    target = made("nobody")

    async def kill(service: str) -> None:
        containers = containers_of(engine, target.record.project)
        await containers.tell(service, "kill", parameters={"signal": "KILL"})

    try:
        yield Place(target, kill, lambda: made("birch"))
    finally:
        for each in targets:
            await each.down(volumes=True)


_COMPOSED = pytest.param("compose", marks=[pytest.mark.slow, pytest.mark.system])


@pytest_asyncio.fixture(params=["scripted", _COMPOSED])
async def place(
    request: pytest.FixtureRequest, pytestconfig: pytest.Config, tmp_path: Path
) -> AsyncIterator[Place]:
    """One target of each make, and nothing of it is left."""
    if request.param == "scripted":
        yield _scripted()
        return
    async for one in _composed(pytestconfig, tmp_path):
        yield one


async def test_it_keeps_the_shape_of_the_port(place: Place) -> None:
    for port in (Deploying, Tending, DeploymentTarget):
        assert isinstance(place.target, port)


async def test_up_brings_all_of_it_up_and_a_second_time_changes_nothing(place: Place) -> None:
    found = await place.target.up()
    assert [each.name for each in found] == list(NAMES)
    assert all(each.well and each.state is ServiceState.HEALTHY for each in found)
    assert found == await place.target.status()
    await place.target.up()
    assert [await place.starts(name) for name in NAMES] == [1, 1, 1]


async def test_what_was_killed_is_seen_and_only_that_is_started_anew(place: Place) -> None:
    await place.target.up()
    await place.kill("ash")
    seen = await place.states()
    assert seen["ash"] is ServiceState.EXITED
    assert seen["ash-tree"] is seen["birch"] is ServiceState.HEALTHY
    after = await place.target.restart("ash")
    assert all(each.well for each in after)
    assert [await place.starts(name) for name in NAMES] == [2, 1, 1]
    await place.target.restart()
    assert [await place.starts(name) for name in NAMES] == [3, 2, 2]


async def test_data_outlives_down_unless_it_is_to_go(place: Place) -> None:
    await place.target.up()
    await place.target.down()
    assert set((await place.states()).values()) == {ServiceState.MISSING}
    await place.target.up()
    assert await place.starts("birch") == 2
    await place.target.down(volumes=True)
    await place.target.down(volumes=True)
    await place.target.up()
    assert await place.starts("birch") == 1


async def test_logs_are_bounded_and_say_who_speaks(place: Place) -> None:
    await place.target.up()
    await place.target.restart("birch")
    assert list(await place.target.logs("birch")) == ["birch | start 1", "birch | start 2"]
    assert list(await place.target.logs("birch", lines=1)) == ["birch | start 2"]
    everybody = await place.target.logs(lines=1)
    assert sorted(line.partition(" | ")[0] for line in everybody) == list(NAMES)


async def test_who_does_not_exist_is_not_found(place: Place) -> None:
    await place.target.up()
    for asked in (place.target.logs("oak"), place.target.restart("oak"), place.target.logs("as")):
        with pytest.raises(NotFoundError) as refused:
            await asked
        assert "birch" in refused.value.next_step


async def test_what_does_not_become_well_is_told(place: Place) -> None:
    target = place.ailing()
    with pytest.raises(RigError) as told:
        await target.up()
    assert "birch" in told.value.message
    assert "start 1" in told.value.message, "what it said last helps most"
    seen = {each.name: each for each in await target.status()}
    assert not seen["birch"].well
