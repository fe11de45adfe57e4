"""A former primary that starts again takes no writes beside the primary that replaced it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from operator_protocols.domain.observation import Observation
from operator_protocols.domain.precondition import find_unmet
from operator_sre.subjects.ratelimiter.faults import read_file
from operator_sre.subjects.ratelimiter.nodes import TalkError
from operator_sre.subjects.ratelimiter.starts import starts_as
from operator_sre.subjects.ratelimiter.stores import command
from operator_sre.subjects.ratelimiter.tools import KNOWLEDGE
from tests.subjects.ratelimiter.conftest import Stage

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.slow,
    pytest.mark.timeout(300),
]

STORES = ("store", "replica")


class Writers:
    """Clients that write to every store all the time, and which writes each has accepted."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._accepting = asyncio.Event()
        self.accepted = dict.fromkeys(STORES, 0)

    async def write(self, name: str) -> None:
        """Write until this is cancelled."""
        while True:
            # A store that does not answer, or that says READONLY, has accepted nothing.
            with suppress(TalkError):
                target = self._stage.target(name)
                await command(target, [("SET", "probe", "1")], secret=read_file, timeout_s=0.5)
                self.accepted[name] += 1
                self._accepting.set()
            await asyncio.sleep(0.005)

    async def until_accepted(self, name: str, count: int) -> None:
        """Wait until this store has accepted that many more writes."""
        goal = self.accepted[name] + count
        while self.accepted[name] < goal:
            self._accepting.clear()
            await self._accepting.wait()


@asynccontextmanager
async def writers_of(stage: Stage) -> AsyncIterator[Writers]:
    """Writers to both stores for as long as the block lasts."""
    writers = Writers(stage)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(writers.write(name)) for name in STORES]
        try:
            yield writers
        finally:
            for task in tasks:
                task.cancel()


def _unmet(stage: Stage, tool: str, target: str, observation: Observation) -> list[str]:
    found = find_unmet(KNOWLEDGE.requires[tool], target, stage.rig.targets(), observation)
    return [each.precondition.name for each in found]


async def _until_replaced(stage: Stage, former: str) -> Observation:
    """Until the other store is the primary; the sentinels say so some seconds later."""
    (heir,) = (name for name in STORES if name != former)
    return await stage.until_seen(lambda look: look.of(heir).readings.get("role") == "primary")


async def _until_followed(stage: Stage, name: str) -> None:
    def follows(look: Observation) -> bool:
        readings = look.of(name).readings
        return (readings.get("role"), readings.get("replica_link")) == ("replica", "up")

    await stage.until_seen(follows)


async def test_never_do_two_stores_accept_writes(stage: Stage) -> None:
    await _until_followed(stage, "replica")
    healthy = await stage.look()
    for name in STORES:
        assert _unmet(stage, "restart_node", name, healthy) == []
        assert _unmet(stage, "start_as_replica", name, healthy) == ["another_writer"]
    assert [starts_as(stage.target(name)) for name in STORES] == ["primary", "replica"]
    await stage.rig.kill("store")
    await _start(stage, "store", "replica")
    # The same of a primary that was paused: it has not heard that it was replaced.
    await stage.rig.pause("replica")
    await _start(stage, "replica", "store")
    await _show_harm(stage)


async def _start(stage: Stage, former: str, heir: str) -> None:
    """A former primary is started by the tool, while clients write to both."""
    replaced = await _until_replaced(stage, former)
    for tool in ("restart_node", "resume_node"):
        assert "no_second_writer" in _unmet(stage, tool, former, replaced)
    assert _unmet(stage, "start_as_replica", former, replaced) == []
    async with writers_of(stage) as writers:
        await writers.until_accepted(heir, 5)
        await stage.call("start_as_replica", target=former)
        await _until_followed(stage, former)
        await writers.until_accepted(heir, 5)
    assert writers.accepted[former] == 0
    assert starts_as(stage.target(former)) == "replica"
    assert _unmet(stage, "restart_node", former, await stage.look()) == []


async def _show_harm(stage: Stage) -> None:
    """The same writers see two primaries where a former one starts as it was."""
    await stage.rig.kill("store")
    await _until_replaced(stage, "store")
    async with writers_of(stage) as writers:
        await stage.rig.restart("store")
        await writers.until_accepted("store", 1)
        await writers.until_accepted("replica", 1)
    # The sentinels demote it after some seconds.
    await _until_followed(stage, "store")
