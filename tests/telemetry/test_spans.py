"""Spans follow from the ledger alone: the same entries, the same spans, and nothing secret."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from operator_protocols.domain.entry import Actor, Entry, Kind
from operator_protocols.domain.trace import (
    SEQ_MAX,
    entry_of_span,
    span_id,
    trace_id,
    traced_run,
)
from operator_sre.telemetry.spans import SERVICE, Span, provider_named, spans_of
from tests.contract.clock import NOON

SECRET = "hunter2-in-every-text"
ACTION = {
    "tool": "shell",
    "arguments": {"command": SECRET},
    "target": "node-1",
    "reasoning": SECRET,
}


def _entry(seq: int, kind: Kind, payload: dict[str, Any], *, run: str = "run-1") -> Entry:
    at = NOON + timedelta(seconds=seq)
    return Entry(seq, at, kind, payload, 7, run, Actor(), "", "")


def _call(seq: int, permit: str, **result: Any) -> list[Entry]:
    told = {"outcome": "ran", "exit_code": 0, "stdout": SECRET, "stderr": SECRET, **result}
    return [
        _entry(seq, Kind.PERMIT_MINTED, {"permit": permit, "level": "review"}),
        _entry(seq + 1, Kind.TOOL_CALL, {"permit": permit, "action": ACTION}),
        _entry(seq + 3, Kind.TOOL_RESULT, {"permit": permit, "result": told}),
    ]


def _thought(seq: int, **more: Any) -> Entry:
    spent = {"tokens_in": 100, "tokens_out": 10, "usd": 0.5}
    return _entry(seq, Kind.REASONING, {"reasoning": SECRET, "calls": [], "spent": spent, **more})


STORY = [
    _entry(10, Kind.RUN_STARTED, {"model": "claude", "worker": "w"}),
    _entry(11, Kind.OBSERVED, {"text": SECRET}),
    _thought(15),
    *_call(20, "first"),
    _entry(25, Kind.SUMMARY, {"text": SECRET}),
    _thought(30, by="reasoner", note=SECRET),
    *_call(32, "second", exit_code=3, category="not_found"),
    _entry(40, Kind.APPROVAL_REQUESTED, {"approval": {"id": "a", "explanation": SECRET}}),
    _entry(50, Kind.APPROVAL_DECIDED, {"id": "a", "state": "rejected", "reason": SECRET}),
    _entry(51, Kind.REFUSED, {"action": ACTION, "result": {"stderr": SECRET}, "level": "blocked"}),
    _entry(60, Kind.PROOF, {"held": False, "detail": SECRET}),
    _entry(61, Kind.RUN_FINISHED, {"state": "failed", "summary": SECRET, "category": "budget"}),
]


def _by_name(spans: list[Span], name: str) -> list[Span]:
    return [one for one in spans if one.name == name]


def test_a_run_is_a_trace_of_turns_and_commands() -> None:
    spans = spans_of(STORY, provider_of=lambda model: {"claude": "anthropic"}.get(model, "ours"))
    assert [one.name for one in spans] == [
        *("chat claude", "execute_tool shell", "chat reasoner", "execute_tool shell"),
        *("await_approval", "execute_tool shell", "prove", f"invoke_agent {SERVICE}"),
    ]
    (root,) = _by_name(spans, "invoke_agent operator")
    assert {one.trace for one in spans} == {trace_id("run-1")}
    assert root.id == span_id("run-1", 10)
    assert {one.parent for one in spans} == {root.id, ""}
    assert root.parent == ""
    assert (
        root.attributes.items()
        >= {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": "operator",
            "gen_ai.provider.name": "anthropic",
            "gen_ai.request.model": "claude",
            "gen_ai.conversation.id": "run-1",
            "gen_ai.usage.input_tokens": 200,
            "gen_ai.usage.output_tokens": 20,
            "operator.cost.usd": 1.0,
            "operator.run.turns": 2,
            "operator.run.state": "failed",
            "operator.ticket.id": 7,
            "error.type": "budget",
        }.items()
    )
    assert [one.error for one in spans] == ["", "", "", "not_found", "", "refused", "", "budget"]
    chats = [one for one in spans if one.name.startswith("chat")]
    assert [(one.started_at - NOON).total_seconds() for one in chats] == [11, 23]
    assert [one.attributes["gen_ai.provider.name"] for one in chats] == ["anthropic", "ours"]
    tools = _by_name(spans, "execute_tool shell")
    assert [one.seq for one in tools] == [21, 33, 51]
    assert [(one.ended_at - one.started_at).total_seconds() for one in tools] == [2, 2, 0]
    assert (
        tools[1].attributes.items()
        >= {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "shell",
            "gen_ai.tool.type": "function",
            "gen_ai.tool.call.id": "33",
            "operator.command.target": "node-1",
            "operator.command.level": "review",
            "operator.command.outcome": "ran",
            "operator.command.exit_code": 3,
        }.items()
    )


def test_nothing_that_was_thought_said_or_run_is_in_a_span() -> None:
    assert SECRET not in repr(spans_of(STORY))
    assert SECRET in repr(STORY)


def test_a_run_that_goes_on_has_the_spans_it_had() -> None:
    whole = spans_of(STORY)
    for end in range(len(STORY)):
        part = spans_of(STORY[:end])
        assert part == [one for one in whole if end and one.ended <= STORY[end - 1].seq]
    again = [*STORY, _entry(70, Kind.RUN_FINISHED, {"state": "stopped", "summary": ""})]
    assert spans_of(again) == whole
    assert spans_of([]) == []


def test_a_command_without_a_run_is_a_trace_of_its_own() -> None:
    entries = [
        _entry(5, Kind.TOOL_CALL, {"permit": "p", "action": ACTION}, run=""),
        _entry(6, Kind.TOOL_RESULT, {"permit": "p", "result": {"outcome": "timed_out"}}, run=""),
    ]
    (span,) = spans_of(entries)
    assert traced_run("", 5) == "command-5"
    assert (span.trace, span.id) == (trace_id("command-5"), span_id("command-5", 5))
    assert (span.parent, span.error) == ("", "timed_out")
    # A result whose beginning is not there tells nobody when it began.
    assert spans_of(entries[1:]) == []


def test_a_span_leads_back_to_its_entry() -> None:
    assert traced_run("run-1", 9) == "run-1"
    for seq in (1, 77, SEQ_MAX):
        assert entry_of_span(span_id("run-1", seq)) == seq
    assert len({span_id(run, seq) for run in ("a", "b") for seq in (1, 2)}) == 4
    assert len(trace_id("x")) == 32
    assert trace_id("x") != trace_id("y")
    for nonsense in ("", "x" * 16, "ABCDEF0000000001", "abcdef000000000", "abcdef00000000011"):
        assert entry_of_span(nonsense) == 0
    for number in (0, -1, SEQ_MAX + 1):
        with pytest.raises(ValueError, match="is not the number"):
            span_id("run", number)


def test_who_has_a_model_that_nobody_described() -> None:
    assert [provider_named(one) for one in ("reasoner", "rule", "x")] == ["operator"] * 2 + [
        "unknown"
    ]
