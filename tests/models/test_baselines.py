"""Minds that understand nothing: what they do, and that they claim to know nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from operator_lab.tools import RESTART_NODE
from operator_protocols.domain.action import Action, Outcome, Result
from operator_protocols.domain.budget import Budget
from operator_protocols.domain.run import (
    Act,
    Answer,
    Ask,
    Call,
    Diagnose,
    Escalate,
    Finish,
    Prove,
    Step,
    Turn,
)
from operator_protocols.domain.tool import Parameter, ParameterType
from operator_protocols.ports import Model
from operator_sre.agent.run import check_diagnosis
from operator_sre.models.baselines import UNKNOWN_CAUSE, RandomCalls, RestartEverything
from tests.contract.samples import proof
from tests.models.world import briefing, target

TARGETS = (target("till-1"), target("till-2"), target("store"))
BRIEFING = replace(briefing(), targets=TARGETS, observation_seq=3)
WELL = Result(Outcome.RAN, exit_code=0)


def _ask(turns: list[Turn]) -> Ask:
    steps = tuple(step for turn in turns for step in turn.steps)
    return Ask(BRIEFING, steps, Budget(), tuple(turns))


def _step(call: Call) -> Step | None:
    match call:
        case Action():
            return Step(Act(call), WELL)
        case Diagnose():
            return Step(call, None)
        case Finish():
            return Step(Prove("It is over."), replace(proof(), held=False))
        case _:
            return None


async def _lived(model: Model) -> list[Call]:
    """All that it calls while nothing helps, until it gives up."""
    turns: list[Turn] = []
    calls: list[Call] = []
    while not calls or not isinstance(calls[-1], Escalate):
        answer: Answer = await model.answer(_ask(turns))
        steps = [_step(call) for call in answer.calls]
        turns.append(Turn(answer, tuple(one for one in steps if one is not None)))
        calls += answer.calls
        assert len(turns) < 60
    return calls


@pytest.mark.asyncio
async def test_restarting_touches_every_target_once_and_claims_once() -> None:
    calls = await _lived(RestartEverything())
    actions = [one for one in calls if isinstance(one, Action)]
    assert [one.target for one in actions] == [one.name for one in TARGETS]
    assert {one.tool for one in actions} == {RESTART_NODE.name}
    assert sum(isinstance(one, Finish) for one in calls) == 1


@pytest.mark.asyncio
async def test_both_hand_in_a_whole_diagnosis_that_names_no_cause_before_they_act() -> None:
    for model in (RestartEverything(), RandomCalls(1)):
        calls = await _lived(model)
        assert isinstance(calls[0], Diagnose)
        assert isinstance(check_diagnosis(calls[0], {3}), Diagnose)
        found = calls[0].diagnosis
        assert (found.cause, found.target, found.hypotheses) == (UNKNOWN_CAUSE, "", ())
        assert sum(isinstance(one, Diagnose) for one in calls) == 1


@pytest.mark.asyncio
async def test_chance_is_the_same_for_the_same_seed_and_another_for_another() -> None:
    first, again, other = [await _lived(RandomCalls(seed)) for seed in (1, 1, 2)]
    assert first == again
    assert first != other
    names = {spec.name for spec in BRIEFING.tools}
    assert {one.tool for one in first if isinstance(one, Action)} <= names


@pytest.mark.asyncio
async def test_where_nothing_restarts_or_there_is_no_tool_it_is_handed_to_a_person() -> None:
    none = replace(_ask([]), briefing=replace(BRIEFING, tools=()))
    for model in (RestartEverything(), RandomCalls()):
        (call,) = (await model.answer(none)).calls
        assert isinstance(call, Escalate)


@pytest.mark.asyncio
async def test_chance_fills_in_whatever_a_tool_has_to_be_told() -> None:
    every = tuple(Parameter(kind.value, "a value", kind) for kind in ParameterType)
    chosen = Parameter("choice", "one of them", choices=("left", "right"))
    spec = replace(RESTART_NODE, parameters=(*every, chosen))
    ask = replace(_ask([]), briefing=replace(BRIEFING, tools=(spec,)))
    _, action = (await RandomCalls(3).answer(ask)).calls
    assert isinstance(action, Action)
    assert set(action.arguments) == {one.name for one in spec.parameters}
    assert action.arguments["choice"] in ("left", "right")
    assert isinstance(action.arguments["integer"], int)
