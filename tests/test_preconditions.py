"""Nothing that holds data is started before a fresh observation says that it harms nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from operator_protocols.domain.action import Outcome
from operator_protocols.domain.entry import Actor, Kind
from operator_protocols.domain.observation import Observation, Seen, Value
from operator_protocols.domain.permit import Permit
from operator_protocols.domain.precondition import Precondition, Scope, Unmet, find_unmet
from operator_protocols.domain.run import LATE, UNAVAILABLE, Answer, Finish
from operator_protocols.domain.target import Target
from operator_protocols.domain.ticket import TicketState
from operator_protocols.domain.tool import ToolSpec
from operator_sre.act import Request, act
from operator_sre.models.reasoner import Reasoner
from tests.contract.clock import NOON
from tests.contract.workshop import DIAGNOSIS, MEND, Mend, Script, Workshop
from tests.models.world import DEAD, WELL, World, briefing

pytestmark = pytest.mark.asyncio

HAS_DATA = Precondition(
    "has_data", "Its data is there", "data", equals=True, next_step="Replace {target}."
)
ACT = Answer("act", (DIAGNOSIS, MEND))
DONE = Answer("over", (Finish("I have repaired it"),))
NODES = (Target("a", "store"), Target("b", "store"), Target("c", "store"), Target("n", "node"))


def _unmet(required: Precondition, **readings: Value) -> list[bool]:
    """Of an action at `a`: whether what is unmet is known, one for each."""
    seen = tuple(Seen(name, {"offset": value}) for name, value in readings.items())
    found = find_unmet([required], "a", NODES, Observation("shop", NOON, seen))
    return [each.known for each in found]


@pytest.mark.parametrize(
    ("required", "readings", "unmet"),
    [
        (Precondition("p", "s", "offset", equals=True), {"a": True}, []),
        (Precondition("p", "s", "offset", equals=True), {"a": False}, [True]),
        (Precondition("p", "s", "offset", equals=True), {}, [False]),
        (Precondition("p", "s", "offset", equals=True), {"a": None}, [False]),
        (Precondition("p", "s", "offset", equals=1), {"a": True}, [True]),
        (Precondition("p", "s", "offset", at_least=3), {"a": 3}, []),
        (Precondition("p", "s", "offset", at_least=3), {"a": 2}, [True]),
        (Precondition("p", "s", "offset", at_most=3), {"a": 4}, [True]),
        (Precondition("p", "s", "offset", at_most=3), {"a": "3"}, [False]),
        (Precondition("p", "s", "offset", at_most=3, of=Scope.PEERS), {"b": 1, "c": 2}, []),
        (Precondition("p", "s", "offset", at_most=3, of=Scope.PEERS), {"b": 1}, [False]),
        (Precondition("p", "s", "offset", at_most=3, of=Scope.PEERS), {"b": 1, "c": 9}, [True]),
        (Precondition("p", "s", "offset", at_most=3, of=Scope.ANY_PEER), {"b": 9, "c": 1}, []),
        (Precondition("p", "s", "offset", at_most=3, of=Scope.ANY_PEER), {"b": 9}, [False]),
        (Precondition("p", "s", "offset", equals=1, kinds=("node",)), {"a": 2}, []),
    ],
)
async def test_silence_is_no_answer(
    required: Precondition, readings: dict[str, Value], unmet: list[bool]
) -> None:
    assert _unmet(required, **readings) == unmet


ROOM = Precondition("room", "It has room", "free", at_least=100, on_this_machine=True)


@pytest.mark.parametrize(
    ("target", "free", "unmet"),
    [
        (Target("a", "store", data_dir="/srv/a"), 100, []),
        (Target("a", "store", data_dir="/srv/a"), 99, [True]),
        (Target("a", "store", data_dir="/srv/a"), 0, [True]),
        # Its disk can be read, so silence is a failure.
        (Target("a", "store", data_dir="/srv/a"), None, [False]),
        # Nothing could answer there.
        (Target("a", "store", data_dir="/srv/a", runs_at="ssh://a"), None, []),
        (Target("a", "store"), None, []),
    ],
)
async def test_what_only_this_machine_can_tell_is_asked_of_nothing_elsewhere(
    target: Target, free: Value, unmet: list[bool]
) -> None:
    observation = Observation("shop", NOON, (Seen("a", {"free": free}),))
    found = find_unmet([ROOM], "a", [target], observation)
    assert [each.known for each in found] == unmet


class _Careful(Mend):
    spec = replace(Mend.spec, requires=(HAS_DATA,))


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Workshop]:
    one = Workshop(tmp_path, Script(ACT, DONE))
    one.mend = _Careful(one.plant)
    one.tools = (one.mend,)
    yield one
    one.close()


@pytest.mark.parametrize("data", [None, False])
async def test_without_the_required_answer_an_agent_starts_nothing(
    shop: Workshop, data: bool | None
) -> None:
    shop.plant.readings["node-1"] = {"data": data}
    ended = await shop.carry()
    assert ended.state is TicketState.ESCALATED
    assert shop.mend.calls == []
    (refused,) = shop.entries(Kind.REFUSED)
    assert "Its data is there" in refused.payload["result"]["stderr"]
    assert "Replace node-1." in refused.payload["result"]["stderr"]
    assert UNAVAILABLE in refused.payload["result"]["data"]  # another action may be tried
    assert shop.entries(Kind.PERMIT_MINTED) == []


async def test_what_is_unmet_reads_as_a_sentence_with_the_next_step() -> None:
    unmet = Unmet(HAS_DATA, "db-1", known=False, seen="data of db-1 is unknown")
    sentence = "Its data is there (no answer: data of db-1 is unknown). Replace db-1."
    assert unmet.sentence == sentence


async def test_with_the_required_answer_it_repairs(shop: Workshop) -> None:
    shop.plant.readings["node-1"] = {"data": True}
    ended = await shop.carry()
    assert (ended.state, shop.mend.calls) == (TicketState.RESOLVED, ["node-1"])


async def test_an_answer_that_may_still_come_is_awaited_and_then_thought_over(
    shop: Workshop,
) -> None:
    awaited = replace(HAS_DATA, within_s=20.0)
    shop.mend.spec = replace(Mend.spec, requires=(awaited,))
    shop.model = Script(ACT, ACT, DONE)
    shop.plant.readings["node-1"] = {"data": False}
    sleep, began = shop.clock.sleep, shop.clock.monotonic()

    async def sleep_until(seconds: float) -> None:
        await sleep(seconds)
        if shop.clock.monotonic() - began > 4.0:
            shop.plant.readings["node-1"] = {"data": True}

    shop.clock.sleep = sleep_until  # type: ignore[method-assign]
    ended = await shop.carry()
    assert (ended.state, shop.mend.calls) == (TicketState.RESOLVED, ["node-1"])
    (late,) = shop.entries(Kind.REFUSED)
    assert late.payload["result"]["data"][LATE] is True


@pytest.mark.parametrize(("data", "runs"), [(False, 0), (None, 1), (True, 1)])
async def test_the_executor_refuses_everybody_what_is_known_to_harm(
    shop: Workshop, data: bool | None, runs: int
) -> None:
    shop.plant.readings["node-1"] = {"data": data}
    request = Request(MEND, "shop", Actor("maria", "person"))
    record = await act(shop.controls("shop"), request)
    assert isinstance(record.permit, Permit)
    assert len(shop.mend.calls) == runs
    assert (record.result.outcome is Outcome.REFUSED) is (runs == 0)


def _tools(*requires: Precondition) -> tuple[ToolSpec, ...]:
    return tuple(
        replace(spec, requires=requires) if spec.name == "restart_node" else spec
        for spec in briefing().tools
    )


async def _choose(*requires: Precondition, data: Value) -> tuple[World, str]:
    told = briefing(tools=_tools(*requires))
    seen = (Seen("node-1", {"data": data}),)
    told = replace(told, observation=Observation("shop", NOON, seen))
    world = World({"node-1": DEAD, "node-2": WELL, "store": WELL}, told)
    ended = await world.live(Reasoner())
    return world, ended.reason


async def test_the_reasoner_escalates_with_what_is_missing_and_the_next_step() -> None:
    for data in (None, False):
        world, reason = await _choose(HAS_DATA, data=data)
        assert world.done == []
        assert "restart_node is not automatic: Its data is there" in reason
        assert "Replace node-1." in reason


async def test_the_reasoner_proposes_what_is_met_or_awaited() -> None:
    assert (await _choose(HAS_DATA, data=True))[0].done == ["restart_node(target=node-1)"]
    awaited = replace(HAS_DATA, within_s=9.0)
    assert (await _choose(awaited, data=False))[0].done == ["restart_node(target=node-1)"]


async def test_an_action_without_preconditions_costs_no_observation(shop: Workshop) -> None:
    shop.mend.spec = Mend.spec
    await shop.pipeline().watch("shop")
    looks = shop.plant.looks
    await act(shop.controls("shop"), Request(MEND, "shop", Actor("maria", "person")))
    assert shop.plant.looks == looks
