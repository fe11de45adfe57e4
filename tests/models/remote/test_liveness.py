"""A slow server is waited for and a dead one is not; limits and usage of an answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable

import pytest

from operator_protocols.domain.action import Action
from operator_protocols.domain.run import Ask, Budget, Misuse
from operator_protocols.errors import ModelError
from operator_sre.models.remote import RemoteModel
from operator_sre.models.remote.endpoint import await_abandoned
from tests.models.wire.server import HELD_S_MAX, Reply, WireServer
from tests.models.wire.words import claude, openai, openai_error, tool
from tests.models.world import WELL, World, briefing

pytestmark = [pytest.mark.asyncio, pytest.mark.group("remote models")]

Build = Callable[..., RemoteModel]
LOOK = tool("shell", command="ps aux", reasoning="What runs?")
WRITTEN = '{"reasoning": "I look.", "calls": [{"name": "finish", "arguments": {"summary": "x"}}]}'
ASK = Ask(briefing(), (), Budget())


async def test_a_server_that_hangs_is_told_from_a_slow_one(
    wire: WireServer, local: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = local(probe_s=1.0)
    wire.say(openai("", LOOK), Reply(held=True))
    await model.answer(ASK)  # the libraries are loaded now
    asked = asyncio.create_task(model.answer(ASK))
    # It is silent, and answers when it is asked whether it is there.
    assert await asyncio.to_thread(wire.probed.wait, HELD_S_MAX)
    assert not asked.done()
    assert all("authorization" not in {name.lower() for name in one} for one in wire.probes)
    wire.is_deaf = True
    with pytest.raises(ModelError, match="in time") as caught:
        await asked
    assert caught.value.unreachable
    # The next time it is only asked whether it is there, until it is.
    heard = len(wire.heard)
    with pytest.raises(ModelError, match="in time") as caught:
        await model.answer(ASK)
    assert caught.value.unreachable
    assert len(wire.heard) == heard
    wire.is_deaf = False
    wire.released.set()
    monkeypatch.setattr(model, "_probe_s", HELD_S_MAX)  # a busy machine answers late
    wire.say(openai("", LOOK))
    assert (await model.answer(ASK)).calls


async def test_answers_of_compatible_servers_are_streamed(wire: WireServer, local: Build) -> None:
    wire.say(openai("", LOOK), openai_error(400, "stream is not supported"), openai("", LOOK))
    model = local()
    assert (await model.answer(ASK)).spent.tokens == 120
    assert (await model.answer(ASK)).calls
    assert [one.body.get("stream", False) for one in wire.heard] == [True, True, False]


async def test_what_the_libraries_leave_of_an_answer_is_closed_to_its_last_link() -> None:
    closed: list[str] = []

    async def read() -> AsyncGenerator[int]:
        try:
            yield 1
        finally:
            await asyncio.sleep(0)
            closed.append("read")

    async def decode() -> AsyncGenerator[int]:
        async for part in read():
            yield part

    for rounds in range(4):  # however far the first link is when it begins
        answer = decode()
        assert await anext(answer) == 1
        del answer
        for _ in range(rounds):
            await asyncio.sleep(0)
        await await_abandoned()
        assert closed == ["read"] * (rounds + 1)


async def test_usage_that_is_not_reported_is_estimated(wire: WireServer, local: Build) -> None:
    wire.say(openai("I look.", LOOK, tokens=(0, 0)))
    spent = (await local().answer(ASK)).spent
    assert 1_000 < spent.tokens_in < 6_000
    assert 5 < spent.tokens_out < 100


async def test_the_number_of_calls_and_tokens_can_be_set(wire: WireServer, local: Build) -> None:
    wire.say(openai("", *[LOOK] * 5), openai(WRITTEN))
    model = local(calls_max=2, output_tokens_max=500, context_tokens_max=8_000)
    calls = (await model.answer(ASK)).calls
    assert [type(call) for call in calls] == [Action, Action, Misuse]
    assert wire.heard[0].body["max_tokens"] == 500
    model = local(tools="json", calls_max=3)
    await model.answer(ASK)
    schema = wire.heard[1].body["response_format"]["json_schema"]["schema"]
    assert schema["properties"]["calls"]["maxItems"] == 3
    for call in schema["properties"]["calls"]["items"]["anyOf"]:
        assert call["properties"]["arguments"]["properties"], "an object without any is always {}"


async def test_the_cache_ends_before_what_changes(wire: WireServer, build: Build) -> None:
    wire.say(claude("First.", LOOK), claude("", tool("escalate", reason="I do not know.")))
    await World({"": WELL}).live(build())
    assert len(wire.heard) == 2
    for one in wire.heard:
        blocks = [part for message in one.body["messages"] for part in message["content"]]
        assert "Remaining budget" in blocks[-1]["text"]
        assert "cache_control" not in blocks[-1]
        assert "cache_control" in blocks[-2]
