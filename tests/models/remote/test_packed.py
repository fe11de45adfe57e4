"""A packed answer could unpack to far more than was counted, so nobody unpacks one."""

from __future__ import annotations

import gzip
import tracemalloc
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import pytest_asyncio

from operator_protocols.domain.run import Ask, Budget
from operator_protocols.errors import ModelError
from operator_sre.models.remote import RemoteModel
from operator_sre.models.remote.endpoint import ANSWER_BYTES_MAX
from tests.models.wire.server import Reply, WireServer, serving
from tests.models.wire.words import claude, openai, tool
from tests.models.world import briefing

pytestmark = [pytest.mark.asyncio, pytest.mark.group("remote models")]

ASK = Ask(briefing(), (), Budget())
LOOK = tool("shell", command="ps aux", reasoning="What runs?")
# The last is one of those that the library knows by name.
WELL = {
    "anthropic": claude("", LOOK),
    "openai-compatible": openai("", LOOK),
    "ollama": openai("", LOOK),
}

Asked = tuple[WireServer, RemoteModel, Reply]


@pytest_asyncio.fixture(params=WELL)
async def asked(request: pytest.FixtureRequest) -> AsyncIterator[Asked]:
    """A server, a model that has asked it once, and a reply that is well."""
    provider = str(request.param)
    with serving() as wire:
        path = "" if provider == "anthropic" else "/v1"
        model = RemoteModel(
            name="somebody", provider=provider, model="m", base_url=wire.address + path, key="k"
        )
        wire.say(WELL[provider])
        await model.answer(ASK)
        yield wire, model, WELL[provider]
        await model.close()


def packed(reply: Reply, encoding: str = "gzip") -> Reply:
    headers = {**reply.headers, "content-encoding": encoding}
    return replace(reply, body=gzip.compress(reply.body), headers=headers)


async def test_an_answer_that_unpacks_to_far_more_is_never_unpacked(asked: Asked) -> None:
    wire, model, _ = asked
    bomb = packed(Reply(b" " * (10 * ANSWER_BYTES_MAX)))
    assert len(bomb.body) < ANSWER_BYTES_MAX / 10
    wire.say(bomb)
    tracemalloc.start()
    try:
        with pytest.raises(ModelError) as caught:
            await model.answer(ASK)
        _, highest = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert not caught.value.lasting
    assert highest < ANSWER_BYTES_MAX


async def test_every_packed_answer_is_refused_and_a_plain_one_is_not(asked: Asked) -> None:
    wire, model, well = asked
    once = packed(well)
    wire.say(once, packed(once, "gzip, gzip"), packed(once, "identity, gzip"))
    for _ in range(3):
        with pytest.raises(ModelError):
            await model.answer(ASK)
    wire.say(replace(well, headers={**well.headers, "content-encoding": "Identity"}))
    assert (await model.answer(ASK)).calls
    assert {one.headers["accept-encoding"] for one in wire.heard} == {"identity"}


async def test_an_answer_that_never_ends_is_broken_off(asked: Asked) -> None:
    wire, model, well = asked
    wire.say(replace(well, body=b" " * (ANSWER_BYTES_MAX + 1) + well.body))
    with pytest.raises(ModelError) as caught:
        await model.answer(ASK)
    assert not caught.value.lasting
    wire.say(well)
    assert (await model.answer(ASK)).calls


async def test_an_answer_that_leads_elsewhere_is_not_followed(asked: Asked) -> None:
    wire, model, well = asked
    heard = len(wire.heard)
    wire.say(Reply(b"", status=307, headers={"location": f"{wire.address}/elsewhere"}), well)
    with pytest.raises(ModelError):
        await model.answer(ASK)
    assert len(wire.heard) == heard + 1


async def test_a_provider_whose_answers_have_no_bound_is_refused() -> None:
    model = RemoteModel(name="somebody", provider="github", model="m", key="k")
    with pytest.raises(ModelError, match="cannot be bounded") as caught:
        await model.answer(ASK)
    assert caught.value.lasting
    assert "openai-compatible" in str(caught.value.next_step)
