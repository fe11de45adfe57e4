"""Models of others, asked by their real libraries over a real wire."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from operator_protocols.domain.action import Action
from operator_protocols.domain.budget import Prices
from operator_protocols.domain.run import Answer, Ask, Budget, Diagnose, Escalate, Finish, Misuse
from operator_protocols.errors import MissingExtraError, ModelError
from operator_sre.agent.transcript import answer_from, answer_payload
from operator_sre.models.remote import RemoteModel, ToolMode
from operator_sre.models.remote.endpoint import ANSWER_BYTES_MAX, Endpoint
from operator_sre.models.summaries import ModelSummariser
from tests.contract.test_models import BRIEFINGS
from tests.models.wire.server import Reply, WireServer
from tests.models.wire.words import (
    claude,
    claude_error,
    claude_mind,
    claude_stream,
    openai,
    openai_error,
    openai_mind,
    tool,
)
from tests.models.world import DEAD, WELL, World, briefing

pytestmark = [pytest.mark.asyncio, pytest.mark.group("remote models")]

KEY = "sk-ant-THE-KEY-OF-THIS-TEST"
PRICES = Prices(3.0, 15.0, 0.3)
LOOK = tool("shell", command="ps aux", reasoning="What runs?")
ASK = Ask(briefing(), (), Budget())


Build = Callable[..., RemoteModel]


async def fails(awaited: Awaitable[object]) -> ModelError:
    with pytest.raises(ModelError) as caught:
        await awaited
    assert KEY not in str(caught.value)
    assert KEY not in repr(caught.value.__context__)
    return caught.value


async def test_claude_thinks_and_calls_in_order(wire: WireServer, build: Build) -> None:
    wire.say(
        claude(
            "The node is silent.",
            LOOK,
            tool("check_port", target="node-1", reasoning="Does it answer?"),
            tool("escalate", reason="That is all."),
        )
    )
    answer = await build().answer(ASK)
    assert answer.reasoning == "The node is silent."
    assert answer.calls == (
        Action.shell("ps aux", reasoning="What runs?"),
        Action("check_port", {"target": "node-1"}, target="node-1", reasoning="Does it answer?"),
        Escalate("That is all."),
    )
    asked = wire.heard[0]
    assert asked.path.partition("?")[0] == "/v1/messages"
    assert KEY in " ".join(asked.headers.values())
    names = {one["name"] for one in asked.body["tools"]}
    assert {"shell", "diagnose", "finish", "escalate", "check_port", "restart_node"} <= names
    assert KEY not in json.dumps(asked.body)


async def test_what_it_costs_is_told(wire: WireServer, build: Build) -> None:
    wire.say(claude("", LOOK, tokens=(1_000, 500), cache_read_input_tokens=10_000))
    spent = (await build().answer(ASK)).spent
    assert (spent.tokens_in, spent.tokens_out) == (11_000, 500)
    assert spent.usd == pytest.approx((1_000 * 3.0 + 10_000 * 0.3 + 500 * 15.0) / 1e6)


async def test_a_conversation_goes_on_with_every_result(wire: WireServer, build: Build) -> None:
    wire.say(
        claude("First.", LOOK, tool("nonsense", x=1), tool("shell", command="ls", reasoning="?")),
        claude("Then.", tool("finish", summary="It is over.")),
    )
    world = World({"": WELL}, holds=lambda changes: True)
    conclusion = await world.live(build())
    assert conclusion.proof is not None
    messages = wire.heard[1].body["messages"]
    assert [one["role"] for one in messages] == ["user", "assistant", "user"]
    uses = [part["id"] for part in messages[1]["content"] if part["type"] == "tool_use"]
    results = [part for part in messages[2]["content"] if part["type"] == "tool_result"]
    assert len(uses) == 3
    assert [part["tool_use_id"] for part in results] == uses
    told = [json.dumps(part["content"]) for part in results]
    assert "python -m node" in told[0]
    assert "There is no tool 'nonsense'" in told[1]
    assert "Remaining budget: 39 turns" in json.dumps(messages[2]["content"][-1])


async def test_a_diagnosis_arrives_whole(wire: WireServer, build: Build) -> None:
    diagnosis = {
        "cause": "process_dead",
        "target": "node-1",
        "summary": "node-1 is dead.",
        "severity": "critical",
        "confidence": 0.9,
        "timeline": [{"sentence": "it died", "seq": 7}],
        "affected": ["node-1"],
        "evidence": [{"sentence": "refused", "seq": 7}, {"sentence": "invented", "seq": 99}],
        "alternatives": [
            {
                "cause": "paused",
                "target": "node-1",
                "supporting": ["silent"],
                "against": ["its port refuses"],
                "why_rejected": "a paused process keeps its port",
            }
        ],
        "options": [
            {"action": "restart", "risk": "medium", "reversible": False, "trade_off": "a gap"}
        ],
        "choice": "restart",
        "why": "it is the least",
    }
    wire.say(claude("", ("diagnose", diagnosis)))
    (call,) = (await build().answer(ASK)).calls
    assert isinstance(call, Diagnose)
    assert call.diagnosis.cause == "process_dead"
    assert [one.seq for one in call.diagnosis.evidence] == [7, None]


async def test_a_very_long_answer_is_streamed(wire: WireServer, build: Build) -> None:
    model = build(output_tokens_max=60_000, context_tokens_max=200_000)
    whole = claude_stream("finish", {"summary": "over"})
    broken = claude_stream("finish", {"summary": "over"}, error="overloaded_error")
    wire.say(whole, replace(whole, cut=len(whole.body) // 2), broken)
    answer = await model.answer(ASK)
    assert wire.heard[0].body["stream"] is True
    assert answer.calls == (Finish("over"),)
    assert answer.spent.tokens == 120
    for _ in ("cut", "overloaded"):
        error = await fails(model.answer(ASK))
        assert not error.lasting


PASSING = {
    "busy": (claude_error(429, "rate_limit_error", retry_after="7"), 7.0),
    "overloaded": (claude_error(529, "overloaded_error"), 0.0),
    "broken": (claude_error(500, "api_error"), 0.0),
    "not json": (Reply(b"<html>bad gateway</html>", headers={"content-type": "text/html"}), 0.0),
    "half of json": (Reply(b'{"id": "x", "con', headers={"content-type": "application/json"}), 0.0),
    "another shape": (Reply.json({"content": 5}), 0.0),
    "a list": (Reply.json([1, 2]), 0.0),
    "cut in the body": (replace(claude("Hello", LOOK), cut=40), 0.0),
    "nothing said": (claude(""), 0.0),
    "sent elsewhere": (Reply(status=307, headers={"location": "/v1/elsewhere"}), 0.0),
    "too long": (Reply(b" " * (ANSWER_BYTES_MAX + 1)), 0.0),
}


@pytest.mark.parametrize("case", PASSING)
async def test_trouble_that_passes(wire: WireServer, build: Build, case: str) -> None:
    reply, wait_s = PASSING[case]
    wire.say(reply)
    error = await fails(build().answer(ASK))
    assert not error.lasting
    assert error.wait_s == wait_s
    assert len(wire.heard) == 1  # whoever is patient asks again, and nobody else


LASTING = {
    "key": claude_error(401, "authentication_error", f"invalid x-api-key {KEY}"),
    "rights": claude_error(403, "permission_error"),
    "model": claude_error(404, "not_found_error", "model: nobody"),
    "request": claude_error(400, "invalid_request_error", "max_tokens: too large"),
    "credit": claude_error(400, "invalid_request_error", "Your credit balance is too low"),
    "refusal": claude("", stop="refusal"),
}


@pytest.mark.parametrize("case", LASTING)
async def test_trouble_that_lasts(wire: WireServer, build: Build, case: str) -> None:
    wire.say(LASTING[case])
    error = await fails(build().answer(ASK))
    assert error.lasting
    assert len(wire.heard) == 1


async def test_whoever_does_not_answer_is_not_waited_for(wire: WireServer, build: Build) -> None:
    model = build(timeout_s=0.3)
    await fails(model.answer(ASK))  # the libraries are loaded now
    wire.say(Reply(held=True))
    error = await fails(model.answer(ASK))
    assert "in time" in error.message
    assert not error.lasting


async def test_nobody_there(build: Build) -> None:
    error = await fails(build(base_url="http://127.0.0.1:1").answer(ASK))
    assert not error.lasting
    assert error.unreachable
    assert "cannot be reached" in error.message


async def test_an_answer_that_is_cut_off_calls_nothing_half(wire: WireServer, build: Build) -> None:
    half = tool("shell", command="rm -rf /var/tmp/a", reasoning="clean")
    wire.say(
        claude("I clean.", LOOK, half, stop="max_tokens"),
        claude("I think and", stop="max_tokens"),
    )
    model = build()
    first, second = (await model.answer(ASK)).calls
    assert isinstance(first, Action)
    assert isinstance(second, Misuse)
    assert "cut off" in second.why
    (only,) = (await model.answer(ASK)).calls
    assert isinstance(only, Misuse)


async def test_an_openai_compatible_server_calls_tools(wire: WireServer, local: Build) -> None:
    wire.say(
        openai("Two looks.", LOOK, tool("check_port", reasoning="?"), tokens=(10, 5)),
        openai(None, ("shell", '{"command": "ls", "reaso')),
        openai(None, ("shell", "[1]"), ("", "{}")),
    )
    model = local()
    answer = await model.answer(ASK)
    assert [call.tool for call in answer.calls if isinstance(call, Action)] == [
        "shell",
        "check_port",
    ]
    assert answer.spent.tokens == 15
    asked = wire.heard[0]
    assert asked.path == "/v1/chat/completions"
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    assert asked.body["max_tokens"] == 8_192
    (malformed,) = (await model.answer(ASK)).calls
    assert isinstance(malformed, Misuse)
    assert "not valid JSON" in malformed.why
    assert all(isinstance(call, Misuse) for call in (await model.answer(ASK)).calls)
    assert model.mode == "native"


WRITTEN = json.dumps({"reasoning": "I look.", "calls": [{"name": LOOK[0], "arguments": LOOK[1]}]})


@pytest.mark.parametrize(
    "refusal",
    [
        openai_error(400, "registry.ollama.ai/library/gemma:2b does not support tools"),
        openai_error(400, '"auto" tool choice requires --enable-auto-tool-choice to be set'),
        openai_error(500, "tools param requires --jinja flag"),
        openai_error(404, "No endpoints found that support tool use"),
    ],
    ids=["ollama", "vllm", "llama.cpp", "openrouter"],
)
async def test_a_server_without_tools_is_asked_for_json(
    wire: WireServer, local: Build, refusal: Reply
) -> None:
    wire.say(refusal, openai(WRITTEN), openai(WRITTEN))
    model = local()
    answer = await model.answer(ASK)
    assert answer.calls == (Action.shell("ps aux", reasoning="What runs?"),)
    assert answer.reasoning == "I look."
    assert (await model.answer(ASK)).calls == answer.calls
    assert model.mode == "json"
    tried, asked, again = wire.heard  # it is remembered, so that nobody is refused twice
    assert "tools" in tried.body
    for one in (asked, again):
        assert "tools" not in one.body
        assert one.body["response_format"]["type"] == "json_schema"
        assert '"calls"' in json.dumps(one.body["messages"][0]).replace('\\"', '"')


async def test_a_schema_that_is_refused_becomes_words(wire: WireServer, local: Build) -> None:
    refusal = openai_error(400, "response_format json_schema is not supported")
    wire.say(refusal, openai(f"Sure!\n```json\n{WRITTEN}\n```"), openai("I do not know."))
    model = local(tools="json")
    assert (await model.answer(ASK)).calls == (Action.shell("ps aux", reasoning="What runs?"),)
    silent = await model.answer(ASK)
    assert (silent.reasoning, silent.calls) == ("I do not know.", ())
    assert ["response_format" in one.body for one in wire.heard] == [True, False, False]


async def test_calls_that_are_written_as_text_count(wire: WireServer, local: Build) -> None:
    bare = '{"name": "escalate", "arguments": {"reason": "I cannot."}}'
    wire.say(openai(f"<tool_call>{bare}</tool_call>"), openai(WRITTEN))
    model = local()
    assert (await model.answer(ASK)).calls == (Escalate("I cannot."),)
    assert model.mode == "json"
    assert (await model.answer(ASK)).calls == (Action.shell("ps aux", reasoning="What runs?"),)


async def test_a_run_goes_on_in_json(wire: WireServer, local: Build) -> None:
    done = json.dumps(
        {"reasoning": "Over.", "calls": [{"name": "finish", "arguments": {"summary": "well"}}]}
    )
    wire.say(openai(WRITTEN), openai(done))
    world = World({"": WELL}, holds=lambda changes: True)
    conclusion = await world.live(local(tools="json"))
    assert conclusion.proof is not None
    messages = wire.heard[1].body["messages"]
    assert [one["role"] for one in messages] == ["system", "user", "assistant", "user"]
    assert json.loads(messages[2]["content"])["calls"][0]["name"] == "shell"
    assert "python -m node" in messages[3]["content"]


@pytest.mark.parametrize(
    ("reply", "lasting", "wait_s"),
    [
        (openai_error(429, "slow down", retry_after="3"), False, 3.0),
        (openai_error(503, "loading model"), False, 0.0),
        (openai_error(401, f"Incorrect API key provided: {KEY}"), True, 0.0),
        (openai_error(400, "context length exceeded"), True, 0.0),
        (openai("", stop="content_filter"), True, 0.0),
        (Reply.json({"choices": []}), False, 0.0),
        (Reply.json({"choices": None}), False, 0.0),
        (Reply(b"{", headers={"content-type": "application/json"}), False, 0.0),
        (replace(openai("Hello"), cut=30), False, 0.0),
    ],
)
async def test_trouble_of_an_openai_compatible_server(
    wire: WireServer, local: Build, reply: Reply, lasting: bool, wait_s: float
) -> None:
    wire.say(reply, reply)  # a stream without an event is asked for again, whole
    error = await fails(local().answer(ASK))
    assert (error.lasting, error.wait_s) == (lasting, wait_s)


async def test_no_key_goes_where_it_does_not_belong(
    wire: WireServer, local: Build, build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OLLAMA_API_KEY"):
        monkeypatch.setenv(name, "sk-of-somebody-else")
    wire.answer = openai_mind
    await local(key="").answer(ASK)
    await build("ollama", key="").answer(ASK)
    wire.answer = claude_mind
    await build(key="").answer(ASK)
    assert len(wire.heard) == 3
    assert "sk-of-somebody-else" not in json.dumps([dict(one.headers) for one in wire.heard])


async def test_another_provider_by_its_name(wire: WireServer, build: Build) -> None:
    wire.answer = openai_mind
    answer = await build("ollama").answer(ASK)
    assert answer.calls
    assert wire.heard[0].headers["authorization"] == f"Bearer {KEY}"


async def test_providers_that_cannot_be_used(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "not supported" in (await fails(build("nobody").answer(ASK))).message
    assert "base_url" in (await fails(build("deepseek").answer(ASK))).message
    assert build(base_url="").mode == "native"
    assert build().mode == "auto"
    assert "No API key" in (await fails(build(key="", base_url="").answer(ASK))).message
    assert "address" in (await fails(build("openai-compatible", base_url="").answer(ASK))).message
    with pytest.raises(MissingExtraError, match=r"pydantic-ai-slim\[cohere\]"):
        await build("cohere").answer(ASK)
    monkeypatch.setitem(sys.modules, "pydantic_ai.direct", None)
    with pytest.raises(MissingExtraError, match="the extra 'agent'"):
        await build().answer(ASK)


async def test_the_key_is_shown_nowhere(
    wire: WireServer, build: Build, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    model = build()
    wire.say(claude("", LOOK), claude_error(401, "authentication_error", f"bad key {KEY}"))
    await model.answer(ASK)
    await fails(model.answer(ASK))
    assert KEY not in repr(Endpoint("anthropic", "m", "", KEY))
    assert KEY not in repr(model)
    assert KEY not in caplog.text


async def test_secrets_are_taken_out_before_anything_is_sent(
    wire: WireServer, build: Build
) -> None:
    wire.answer = claude_mind
    told = replace(briefing(), notes="")
    told = replace(told, observation=replace(told.observation, problem="password hunter2"))
    model = build(redact=lambda text: text.replace("hunter2", "[REDACTED:password:1]"))
    await model.answer(Ask(told, (), Budget()))
    assert "hunter2" not in json.dumps(wire.heard[0].body)
    assert "REDACTED" in json.dumps(wire.heard[0].body)


async def test_a_small_model_summarises(wire: WireServer, build: Build) -> None:
    text = "I looked at the node. It is dead. I will restart it. Then I will look again." * 3
    wire.say(claude("The node is dead and will be restarted."), claude_error(500, "api_error"))
    summariser = ModelSummariser(build())
    first = await summariser.summary(text)
    assert first.text == "The node is dead and will be restarted."
    assert first.by == "somebody"
    assert first.spent.tokens == 120
    second = await summariser.summary(text)
    assert second.by == "rule"
    assert second.text == "I looked at the node. It is dead."


@pytest.mark.parametrize("provider", ["anthropic", "openai-compatible"])
async def test_any_briefing_can_be_told_and_answered(
    wire: WireServer, build: Build, provider: str
) -> None:
    wire.answer = claude_mind if provider == "anthropic" else openai_mind
    model = build(provider)
    for told in BRIEFINGS.values():
        answer = await model.answer(Ask(told, (), Budget()))
        assert answer.reasoning
        assert [type(call) for call in answer.calls] == [Action]
        assert answer_from(answer_payload(answer)) == answer


@pytest.mark.parametrize("mode", ["native", "auto"])
@pytest.mark.parametrize("provider", ["anthropic", "openai-compatible"])
async def test_a_run_comes_to_an_end(
    wire: WireServer, build: Build, provider: str, mode: ToolMode
) -> None:
    wire.answer = claude_mind if provider == "anthropic" else openai_mind
    world = World({"store": WELL, "node-1": DEAD, "node-2": WELL})
    conclusion = await world.live(build(provider, tools=mode))
    assert conclusion.reason == "I have looked twice and know nothing."
    assert [type(answer) for answer in world.answers] == [Answer] * 3
