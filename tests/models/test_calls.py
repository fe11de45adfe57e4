"""A tool call becomes a Call; what makes no sense becomes one clear sentence."""

from __future__ import annotations

import json
from typing import Any

import pytest

from operator_protocols.domain.action import Action, Urgency
from operator_protocols.domain.run import (
    Ask,
    Budget,
    Call,
    Diagnose,
    Escalate,
    Finish,
    Misuse,
)
from operator_protocols.domain.tool import Parameter, ParameterType, ToolSpec
from operator_protocols.domain.verdict import Risk
from operator_sre.models.calls import CALLS_MAX, call_from, known_seqs, tool_call_of
from operator_sre.models.offers import (
    DIAGNOSE,
    ESCALATE,
    FINISH,
    Offer,
    Schema,
    offers,
    wire_name,
)
from operator_sre.models.reasoner import Reasoner
from tests.models.world import DEAD, TOOLS, WELL, World, briefing

EVERYTHING = ToolSpec(
    "every.thing",
    "It takes all.",
    (
        Parameter("text", "a text", choices=("a", "b")),
        Parameter("count", "how many", ParameterType.INTEGER, minimum=1, maximum=9),
        Parameter("share", "how much", ParameterType.NUMBER, required=False),
        Parameter("sure", "really", ParameterType.BOOLEAN, required=False),
        Parameter("names", "which", ParameterType.LIST, required=False),
        Parameter("table", "what", ParameterType.MAP, required=False),
    ),
    Risk.HIGH,
    changes=True,
    undo="nothing",
)
TOLD = briefing(tools=(*TOOLS, EVERYTHING))
ASK = Ask(TOLD, (), Budget())

DIAGNOSIS: dict[str, Any] = {
    "cause": "dead",
    "target": "node-1",
    "summary": "It is dead.",
    "severity": "critical",
    "confidence": 0.8,
    "timeline": [],
    "affected": ["node-1"],
    "evidence": [{"sentence": "seen", "seq": 7}],
    "alternatives": [],
    "options": [{"action": "restart", "risk": "low", "reversible": True, "trade_off": "none"}],
    "choice": "restart",
    "why": "least",
}


def named(name: str) -> Offer:
    return next(offer for offer in offers(TOLD) if offer.name == name)


def test_what_is_offered() -> None:
    names = [offer.name for offer in offers(TOLD)]
    assert names[0] == "shell"
    assert names[-3:] == [DIAGNOSE, FINISH, ESCALATE]
    assert {"check_port", "restart_node", "every_thing"} <= set(names)
    assert len(names) == len(set(names))
    schema: Schema = named("every_thing").schema
    assert schema["required"] == ["text", "count", "reasoning"]
    assert schema["properties"]["text"]["enum"] == ["a", "b"]
    assert schema["properties"]["count"] == {
        "type": "integer",
        "description": "how many",
        "minimum": 1,
        "maximum": 9,
    }
    assert schema["properties"]["names"]["items"] == {"type": "string"}
    assert "high" in named("every_thing").sentence
    assert named("check_port").schema["required"] == ["reasoning"]  # the ticket has the target
    assert named("shell").schema["properties"]["target"]["enum"] == ["store", "node-1", "node-2"]
    assert wire_name("a.b/c d" + "x" * 99) == "a_b_c_d" + "x" * 57
    json.dumps([offer.schema for offer in offers(TOLD)])


def test_no_tool_takes_the_name_of_our_own() -> None:
    liar = ToolSpec("finish", "It lies.", (), Risk.LOW, changes=False)
    given = offers(briefing(tools=(liar, liar)))
    assert [offer.spec for offer in given if offer.name == FINISH] == [None]


GOOD: dict[str, tuple[str, dict[str, Any], Call]] = {
    "shell": (
        "shell",
        {"command": "ls", "reasoning": "r", "target": "node-1", "timeout_s": 5, "expected": "e"},
        Action(
            "shell", {"command": "ls"}, target="node-1", reasoning="r", expected="e", timeout_s=5.0
        ),
    ),
    "tool": (
        "check_port",
        {"target": "node-1", "reasoning": "r"},
        Action("check_port", {"target": "node-1"}, target="node-1", reasoning="r"),
    ),
    "every type": (
        "every_thing",
        {"text": "a", "count": 2, "names": ["x"], "table": {"k": "v"}, "reasoning": "r"},
        Action(
            "every.thing",
            {"text": "a", "count": 2, "names": ("x",), "table": {"k": "v"}},
            reasoning="r",
        ),
    ),
    "urgent": (
        "shell",
        {"command": "ls", "reasoning": "r", "urgency": "when_convenient"},
        Action("shell", {"command": "ls"}, reasoning="r", urgency=Urgency.WHEN_CONVENIENT),
    ),
    "finish": ("finish", {"summary": "s"}, Finish("s")),
    "escalate": ("escalate", {"reason": "r"}, Escalate("r")),
}


@pytest.mark.parametrize("case", GOOD)
def test_a_call_is_understood_and_can_be_told_again(case: str) -> None:
    name, arguments, call = GOOD[case]
    assert call_from(name, json.dumps(arguments), ASK) == call
    assert call_from(name, arguments, ASK) == call
    assert call_from(*tool_call_of(call), ASK) == call


def test_a_call_without_a_reason_has_that_of_the_turn() -> None:
    call = call_from("shell", {"command": "ls"}, ASK, thoughts="I look around.")
    assert isinstance(call, Action)
    assert call.reasoning == "I look around."


BAD: dict[str, tuple[str, Any, str]] = {
    "unknown tool": ("sudo", "{}", "no tool 'sudo'"),
    "no name": ("", "{}", "no tool"),
    "not json": ("shell", '{"command": "l', "not valid JSON"),
    "nan": ("shell", '{"timeout_s": NaN}', "not valid JSON"),
    "huge number": ("shell", '{"timeout_s": ' + "9" * 5_000 + "}", "not valid JSON"),
    "deep": ("shell", "[" * 50_000, "not valid JSON"),
    "a list": ("shell", "[]", "one JSON object"),
    "too long": ("shell", '{"command": "' + "x" * 70_000 + '"}', "longer than"),
    "long command": ("shell", {"command": "x" * 20_000, "reasoning": "r"}, "longer than"),
    "no command": ("shell", {"reasoning": "r"}, "'command' is missing"),
    "empty command": ("shell", {"command": "  ", "reasoning": "r"}, "'command' is missing"),
    "number": ("shell", {"command": 5, "reasoning": "r"}, "'command' is missing"),
    "urgency": (
        "shell",
        {"command": "ls", "reasoning": "r", "urgency": "now"},
        "must be one of",
    ),
    "no reason": ("shell", {"command": "ls"}, "'reasoning' is missing"),
    "place": ("shell", {"command": "ls", "reasoning": "r", "target": "x"}, "no target 'x'"),
    "no text": ("shell", {"command": "ls", "reasoning": "r", "target": {}}, "no target"),
    "argument": ("shell", {"command": "ls", "reasoning": "r", "cwd": "/"}, "no argument 'cwd'"),
    "time": ("shell", {"command": "ls", "reasoning": "r", "timeout_s": 1e9}, "at most"),
    "huge time": (
        "shell",
        '{"command": "ls", "reasoning": "r", "timeout_s": ' + "9" * 4_000 + "}",
        "'timeout_s' must be above 0",
    ),
    "endless time": (
        "shell",
        '{"command": "ls", "reasoning": "r", "timeout_s": 1e999}',
        "'timeout_s' must be above 0",
    ),
    "unwritable number": ("finish", {"summary": 10**5_000}, "not JSON"),
    "unwritable name": ("finish", {("a", "b"): 1}, "not JSON"),
    "bool": ("shell", {"command": "ls", "reasoning": "r", "timeout_s": True}, "number"),
    "surrogate": ("shell", '{"command": "\\ud800", "reasoning": "r"}', "Unicode"),
    "nested": ("every_thing", {"text": [["a"]], "reasoning": "r"}, "nested"),
    "empty end": ("finish", {}, "'summary' is missing"),
    "set": ("finish", {"summary": {1}}, "not JSON"),
    "half a diagnosis": ("diagnose", {"cause": "x"}, "does not fit"),
    "type": ("diagnose", {**DIAGNOSIS, "severity": "awful"}, "does not fit"),
    "sure": ("diagnose", {**DIAGNOSIS, "confidence": 90}, "from 0 to 1"),
    "claims only": ("diagnose", {**DIAGNOSIS, "evidence": []}, "needs evidence"),
    "no list": ("diagnose", {**DIAGNOSIS, "evidence": "x"}, "must be a list"),
    "flood": ("diagnose", {**DIAGNOSIS, "affected": ["x"] * 1_000}, "must be a list"),
    "no cause": ("diagnose", {**DIAGNOSIS, "cause": " "}, "'cause' is missing"),
}


@pytest.mark.parametrize("case", BAD)
def test_nonsense_is_told_in_one_sentence(case: str) -> None:
    name, raw, words = BAD[case]
    call = call_from(name, raw, ASK)
    assert isinstance(call, Misuse)
    assert words in call.why
    assert "\n" not in call.why
    assert len(call.why) < 500
    assert len(call.arguments) <= 2_100
    call.arguments.encode()
    again, arguments = tool_call_of(call)
    assert wire_name(again) == again
    json.dumps(arguments)


@pytest.mark.parametrize("error", [OverflowError, RecursionError])
def test_whatever_is_too_large_or_too_deep_is_no_error(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*_: object) -> None:
        raise error

    monkeypatch.setattr("operator_sre.models.calls.from_json", refuses)
    call = call_from("diagnose", DIAGNOSIS, ASK)
    assert isinstance(call, Misuse)
    assert "too large" in call.why


def test_what_is_in_a_circle_is_no_error() -> None:
    circle: dict[str, Any] = {}
    circle["summary"] = circle
    assert isinstance(call_from("finish", circle, ASK), Misuse)


def test_a_diagnosis_cites_only_what_was_shown() -> None:
    told = {**DIAGNOSIS, "evidence": ["in words", {"sentence": "a", "seq": 8}, {"sentence": "b"}]}
    call = call_from("diagnose", {**told, "timeline": [{"sentence": "t", "seq": 7}]}, ASK)
    assert isinstance(call, Diagnose)
    assert [one.seq for one in call.diagnosis.evidence] == [None, None, None]
    assert call.diagnosis.timeline[0].seq == 7
    assert known_seqs(ASK) == {7}
    assert call_from(*tool_call_of(call), ASK) == call
    assert CALLS_MAX >= 10


@pytest.mark.asyncio
async def test_whatever_the_reasoner_calls_can_be_told_to_a_model() -> None:
    world = World({"store": WELL, "node-1": DEAD, "node-2": WELL})
    await world.live(Reasoner())
    calls = [call for answer in world.answers for call in answer.calls]
    assert len(calls) > 3
    for call in calls:
        name, arguments = tool_call_of(call)
        assert name in {offer.name for offer in offers(world.told)}
        json.dumps(arguments)
