"""What tools say that they answer is what they answer, and a client that checks it would see."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from operator_protocols.domain.health import Severity
from operator_sre.app.marks import BOUNDS, TOO_LONG, Marks, is_plain_name
from operator_sre.app.tokens import Refusals
from operator_sre.contract.schemas import document_schema
from operator_sre.faces.mcp import schemas
from operator_sre.faces.mcp.schemas import output_schema, shape_of
from operator_sre.faces.mcp.server import Desk, server_of
from operator_sre.faces.mcp.tools import TOOLS, Asking, Document
from operator_sre.operations import all_operations
from tests.contract_messages.holding import strict
from tests.every import expect_each
from tests.faces.mcp.asking import Heard, client_of
from tests.faces.mcp.test_tools import SEVEN
from tests.faces.mcp.world import Place


def test_every_tool_says_what_it_answers_and_answers_nothing_else(heard: Heard) -> None:
    def check(name: str) -> None:
        schema = heard.tools[name].output_schema
        assert schema is not None
        assert schema == output_schema(TOOLS[name].title, TOOLS[name].tells)
        jsonschema.Draft202012Validator.check_schema(schema)
        assert schema["type"] == "object"
        assert {"schema_version", "untrusted"} <= set(schema["required"])
        jsonschema.validate(heard.answers[name].document, strict(schema))

    expect_each([(name,) for name in TOOLS], check)


def test_the_seven_answer_what_the_contract_says() -> None:
    for name, message in SEVEN.items():
        contract = document_schema("", message)
        schema = output_schema("", TOOLS[name].tells)
        ours = set(schema["properties"]) - set(contract["properties"])
        assert ours == {"untrusted", "left_out"}, name
        assert set(schema["required"]) == {*contract["required"], "untrusted"}, name
        words = ("status", "next_action", "error_category", "risk_level", "started_at", "ready")
        for word in words:
            assert schema["properties"].get(word) == contract["properties"].get(word), name


def test_each_noun_is_told_in_one_way() -> None:
    derived = {one.tool.name: shape_of(one) for one in all_operations() if one.tool}
    assert {name: tool.tells for name, tool in TOOLS.items() if name not in SEVEN} == {
        **derived,
        "show_ticket": schemas.TICKET,
        "show_health": schemas.HEALTH,
        "propose_action": schemas.ACTION,
        "action_result": schemas.ACTION,
    }
    assert not {*schemas.HELD_BY} & set(schemas.TICKET["ticket"])
    assert not {*schemas.HELD_BY} & set(derived["list_tickets"]["tickets"][0])
    (search,) = (
        one.tool for one in all_operations() if one.tool and one.tool.picks[:1] == ("seq",)
    )
    assert set(search.picks) == set(derived["search_history"]["commands"][0])


def test_a_word_is_one_of_ours_only_where_words_of_ours_stand() -> None:
    shape = {"severity": Severity, "weather": Severity, "change": dict[str, int], "all": [Severity]}
    told = output_schema("", shape)["properties"]
    assert told["severity"]["enum"] == [one.value for one in Severity]
    assert told["weather"] == {"type": "string"} == told["all"]["items"]
    assert told["change"] == {"type": "object"}
    assert is_plain_name("opened_at")
    assert not is_plain_name("since")


@pytest.mark.asyncio
async def test_a_client_sees_an_answer_that_is_not_what_the_tool_says(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Document] = [
        {"commands": [], "behind": "none"},
        {"commands": []},
        {"commands": [{"seq": 1}], "behind": 0},
        {"commands": [], "behind": 0},
    ]

    async def lie(asking: Asking, asked: object) -> Document:
        return told.pop(0)

    tool = TOOLS["search_history"]
    monkeypatch.setitem(TOOLS, "search_history", replace(tool, call=lie))
    with place.opened() as home:
        async with client_of(server_of(Desk(home, Refusals(home)))) as client:
            while len(told) > 1:
                with pytest.raises(RuntimeError, match="search_history"):
                    await client.call_tool("search_history", {"text": "x"})
            answer = await client.call_tool("search_history", {"text": "x"})
            assert answer.structured_content["behind"] == 0


@pytest.mark.asyncio
async def test_what_is_too_long_to_be_told_is_an_error_and_no_answer(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def drone(asking: Asking, asked: object) -> Document:
        return {"commands": [], "behind": 0, **{str(one): "x" * 60 for one in range(2000)}}

    tool = replace(TOOLS["search_history"], call=drone)
    monkeypatch.setitem(TOOLS, "search_history", tool)
    with place.opened() as home:
        async with client_of(server_of(Desk(home, Refusals(home)))) as client:
            answer = await client.call_tool("search_history", {"text": "x"})
    assert answer.is_error
    assert answer.structured_content["error"]["message"] == TOO_LONG


def test_what_is_shortened_still_is_what_the_tool_says(heard: Heard) -> None:
    ticket: dict[str, Any] = dict(heard.answers["show_ticket"].document["ticket"])
    ticket["violations"] = [dict(one) for one in ticket["violations"]] * 500
    sentence = {**heard.answers["show_ticket"].document["story"][0], "told": "x" * 9000}
    told = Marks().document({"ticket": ticket, "story": [sentence] * 500})
    assert told["left_out"] is True
    assert len(told["story"]) < BOUNDS[0][1]
    assert len(json.dumps(told)) < 61_000
    whole = {"schema_version": "1.0.0", "untrusted": "", **told}
    jsonschema.validate(whole, strict(output_schema("", schemas.TICKET)))
