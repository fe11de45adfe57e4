"""A remedy that is a script: when it comes first, what it is given, and what follows it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from operator_protocols.domain.action import Action, Outcome, Result
from operator_protocols.domain.cause import Remedy
from operator_protocols.domain.observation import Observation, Seen, Value
from operator_protocols.domain.run import (
    Act,
    Answer,
    Ask,
    Briefing,
    Budget,
    Diagnose,
    Escalate,
    Finish,
    Step,
)
from operator_protocols.domain.tool import ToolSpec
from operator_protocols.domain.verdict import Risk
from operator_sre.executor.sandbox.box import refusal
from operator_sre.executor.scripts import SIZE_CHARS_MAX
from operator_sre.executor.tools.script import ExecuteScript
from operator_sre.models.reasoner import Reasoner
from operator_sre.models.reasoner.diagnosis import SCRIPT, arguments_of
from operator_sre.subjects.ratelimiter import restore_limit
from operator_sre.subjects.ratelimiter.tools import KNOWLEDGE
from tests.contract.clock import NOON
from tests.contract.samples import violation
from tests.models.world import TOOLS, WELL, briefing

pytestmark = pytest.mark.asyncio

UPDATE_LIMIT = KNOWLEDGE.tools["update_limit"]

HOSTILE = '{target}"; import os #\n{limit_declared}'
ODD: dict[str, Value] = {
    "limits_odd": True,
    "settings_differ": False,
    "refuses_kind": "",
    "limit_strange_key": HOSTILE,
    "limit_declared": 60,
    "limit_nodes": "127.0.0.1:8001 127.0.0.1:8002",
}
EVERYWHERE = ExecuteScript.spec
IN_RIG = replace(EVERYWHERE, risk=Risk.MEDIUM)
DRIFTED = replace(violation("store"), invariant="configuration_drift")


def _brief(script: ToolSpec, readings: dict[str, Value] = ODD) -> Briefing:
    told = briefing(DRIFTED, tools=(*TOOLS, script, UPDATE_LIMIT), causes=KNOWLEDGE.causes)
    return replace(told, observation=Observation("shop", NOON, (Seen("store", readings),)))


async def _next(told: Briefing, steps: list[Step]) -> Answer:
    """Answer its questions as a healthy store would, until it wants something else."""
    for _ in range(20):
        answer = await Reasoner().answer(Ask(told, tuple(steps), Budget()))
        last = answer.calls[-1]
        if not isinstance(last, Action) or last.tool in (SCRIPT, UPDATE_LIMIT.name):
            return answer
        steps.append(Step(Act(last), WELL.show(last), seq=len(steps)))
    raise AssertionError("it never decides")


async def _wanted(told: Briefing, steps: list[Step]) -> Action:
    last = (await _next(told, steps)).calls[-1]
    assert isinstance(last, Action), last
    return last


async def test_readings_reach_a_script_as_files_and_never_as_its_text() -> None:
    action = await _wanted(_brief(IN_RIG), [])
    text = Path(restore_limit.__file__).read_text()
    assert len(text) < SIZE_CHARS_MAX
    assert (action.tool, action.target) == (SCRIPT, "store")
    assert action.arguments == {
        "language": "python",
        "text": text,
        "inputs": {"key": HOSTILE, "limit": "60", "nodes": ODD["limit_nodes"]},
    }


async def test_it_comes_first_only_where_it_is_no_riskier_and_can_be_filled() -> None:
    assert (await _wanted(_brief(EVERYWHERE), [])).tool == UPDATE_LIMIT.name
    closed = {name: value for name, value in ODD.items() if name != "limit_nodes"}
    assert (await _wanted(_brief(IN_RIG, closed), [])).tool == UPDATE_LIMIT.name


async def test_a_blank_in_a_map_without_a_reading_is_no_remedy() -> None:
    remedy = Remedy(SCRIPT, "look", "none", Risk.LOW, True, {"inputs": {"a": "{unread}"}})
    told = _brief(IN_RIG)
    assert arguments_of(remedy, told, "store") is None
    plain = replace(remedy, arguments={"inputs": {"a": "x{limit_declared}", "b": "{target}"}})
    assert arguments_of(plain, told, "store") == {
        "inputs": {"a": "x{limit_declared}", "b": "store"}
    }


async def test_without_a_sandbox_or_after_a_failure_the_typed_tool_is_next() -> None:
    told = _brief(IN_RIG)
    action = await _wanted(told, [])
    steps = [Step(Act(action), refusal("No sandbox can be made here."), seq=1)]
    first = await Reasoner().answer(Ask(told, tuple(steps), Budget()))
    assert "No sandbox can be made here." in first.reasoning
    assert (await _wanted(told, steps)).tool == UPDATE_LIMIT.name
    blame = (await _next(told, [])).calls[0]
    assert isinstance(blame, Diagnose)
    failed = Step(Act(action), Result(Outcome.RAN, 1, stderr="not repaired"), seq=1)
    assert (await _wanted(told, [Step(blame, None), failed])).tool == UPDATE_LIMIT.name


async def test_what_a_person_or_the_gate_refuses_is_not_tried_another_way() -> None:
    told = _brief(IN_RIG)
    action = await _wanted(told, [])
    answer = await _next(told, [Step(Act(action), Result(Outcome.REFUSED, stderr="No."), seq=1)])
    assert isinstance(answer.calls[-1], Escalate)


async def test_what_it_claims_tells_how_the_script_ended_and_not_its_text() -> None:
    told = _brief(IN_RIG)
    action = await _wanted(told, [])
    done = Result(Outcome.RAN, 0, "found:\n  a: 7\nthe limit is 60\n")
    answer = await _next(told, [Step(Act(action), done, seq=1)])
    claim = answer.calls[-1]
    assert isinstance(claim, Finish)
    assert claim.summary.endswith("succeeded: the limit is 60.")
    assert "lines)" in claim.summary
    assert "urlopen" not in claim.summary
