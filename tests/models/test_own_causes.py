"""What a subject adds to the built-in mind: causes of its own, and tools that say what they end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from operator_protocols.domain.action import Action
from operator_protocols.domain.cause import Cause, Remedy
from operator_protocols.domain.observation import Observation, Seen, Value, Violation
from operator_protocols.domain.run import (
    Act,
    Answer,
    Ask,
    Briefing,
    Budget,
    Diagnose,
    Escalate,
    Step,
)
from operator_protocols.domain.tool import Parameter, ParameterType, ToolSpec
from operator_protocols.domain.verdict import Risk
from operator_sre.models.reasoner import Reasoner
from operator_sre.models.reasoner.belief import Symptoms, first_belief, predict_outcomes
from operator_sre.models.reasoner.causes import GENERIC
from operator_sre.models.reasoner.diagnosis import arguments_of
from operator_sre.models.reasoner.outcomes import HEALTHY
from tests.contract.clock import NOON
from tests.contract.samples import violation
from tests.models.world import DEAD, SHOP, TOOLS, WELL, State, briefing

pytestmark = pytest.mark.asyncio

FREE = ToolSpec(
    "free_memory",
    "Give back what the store holds.",
    (
        Parameter("target", "which store"),
        Parameter("bytes", "how much", type=ParameterType.INTEGER),
    ),
    Risk.LOW,
    changes=True,
    reversible=True,
)
FULL = Cause(
    name="memory_full",
    sentence="it may hold no more",
    prior=0.1,
    kinds=("store",),
    breaks=("refuses_writes",),
    shows={"memory_full": True},
    remedies=(
        Remedy(
            "free_memory",
            "give it back",
            "what was held is gone",
            Risk.LOW,
            reversible=True,
            arguments={"bytes": "{held_bytes}"},
        ),
    ),
)


def _brief(*violations: Violation, tools: tuple[ToolSpec, ...], **readings: Value) -> Briefing:
    observation = Observation("shop", NOON, (Seen("store", readings),))
    told = briefing(*violations, tools=tools, causes=(FULL,))
    return replace(told, observation=observation)


async def _until_decided(briefing: Briefing, state: State) -> Answer:
    """Let the mind ask until it diagnoses; every question is answered as the state shows."""
    steps: list[Step] = []
    for _ in range(20):
        answer = await Reasoner().answer(Ask(briefing, tuple(steps), Budget()))
        if any(isinstance(call, Diagnose) for call in answer.calls):
            return answer
        for call in answer.calls:
            assert isinstance(call, Action)
            steps.append(Step(Act(call), state.show(call), seq=len(steps)))
    raise AssertionError("it never decides")


REFUSES = Violation(
    **{
        name: getattr(violation("store"), name)
        for name in ("subject", "target", "severity", "detail", "since")
    },
    invariant="refuses_writes",
)


async def test_a_cause_of_its_own_is_found_by_what_it_breaks_and_shows() -> None:
    told = _brief(REFUSES, tools=(*TOOLS, FREE), memory_full=True, held_bytes=4096)
    answer = await _until_decided(told, WELL)
    found, action = answer.calls
    assert isinstance(found, Diagnose)
    assert (found.diagnosis.cause, found.diagnosis.target) == ("memory_full", "store")
    assert isinstance(action, Action)
    assert action.tool == "free_memory"
    assert action.arguments == {"target": "store", "bytes": 4096}


async def test_what_a_look_does_not_show_is_not_believed() -> None:
    told = _brief(REFUSES, tools=(*TOOLS, FREE), memory_full=False, held_bytes=1)
    found = (await _until_decided(told, WELL)).calls[0]
    assert isinstance(found, Diagnose)
    assert found.diagnosis.cause != "memory_full"


async def test_what_is_broken_beside_the_ticket_tells_causes_apart() -> None:
    drift = replace(REFUSES, invariant="drift")
    full = replace(FULL, breaks=("refuses_writes", "drift"))
    differs = Cause("differs", "it is set differently", 0.3, breaks=("drift",))
    told = _brief(drift, tools=(*TOOLS, FREE), memory_full=True, held_bytes=4096)
    told = replace(told, causes=(full, differs))
    alone = (await _until_decided(replace(told, broken=frozenset({drift.key})), WELL)).calls
    assert isinstance(alone[-1], Escalate)
    # What refuses writes has its grace yet, so that it is no part of the ticket.
    seen = replace(told, broken=frozenset({drift.key, REFUSES.key}))
    found, action = (await _until_decided(seen, WELL)).calls
    assert isinstance(found, Diagnose)
    assert found.diagnosis.cause == "memory_full"
    assert isinstance(action, Action)
    # What is broken elsewhere tells nothing of it.
    far = replace(told, broken=frozenset({drift.key, replace(REFUSES, target="node-1").key}))
    assert isinstance((await _until_decided(far, WELL)).calls[-1], Escalate)


async def test_a_remedy_whose_reading_is_missing_is_no_remedy() -> None:
    told = _brief(REFUSES, tools=(*TOOLS, FREE), memory_full=True)
    assert arguments_of(FULL.remedies[0], told, "store") is None
    calls = (await _until_decided(told, WELL)).calls
    assert isinstance(calls[-1], Escalate)


async def test_a_cause_befalls_only_its_kinds() -> None:
    at_node = replace(REFUSES, target="node-1")
    symptoms = Symptoms({"node-1": frozenset({"refuses_writes"})})
    belief = first_belief(["node-1"], SHOP, (FULL,), symptoms)
    assert {suspect.target for suspect in belief.weights if suspect.cause is FULL} == {"store"}
    assert at_node.invariant in FULL.breaks


async def test_what_it_breaks_tells_one_cause_from_another() -> None:
    other = replace(FULL, name="other", breaks=("else",))
    symptoms = Symptoms({"store": frozenset({"refuses_writes"})})
    leader, _ = first_belief(["store"], SHOP, (FULL, other), symptoms).rank()[0]
    assert leader.cause is FULL


async def test_a_cause_expects_of_a_probe_what_is_usual_unless_it_says_so() -> None:
    assert predict_outcomes(FULL, "process") == HEALTHY["process"]
    dead = next(cause for cause in GENERIC if cause.name == "process_dead")
    assert predict_outcomes(dead, "process") == dead.predicts["process"]


async def test_a_tool_that_says_what_it_ends_is_a_remedy() -> None:
    spec = ToolSpec(
        "revive",
        "Start it by its own script.",
        (Parameter("target", "which"),),
        Risk.LOW,
        changes=True,
        ends=("process_dead",),
    )
    told = briefing(violation("node-1"), tools=(TOOLS[0], spec))
    action = (await _until_decided(told, DEAD)).calls[-1]
    assert isinstance(action, Action)
    assert (action.tool, action.arguments) == ("revive", {"target": "node-1"})


async def test_a_subject_knows_better_about_a_cause_of_every_subject() -> None:
    dead = next(cause for cause in GENERIC if cause.name == "process_dead")
    told = briefing(violation("node-1"), causes=(replace(dead, remedies=()),))
    told = replace(told, tools=(TOOLS[0],))
    calls = (await _until_decided(told, DEAD)).calls
    assert isinstance(calls[-1], Escalate)


async def test_who_needs_what_is_broken_is_a_suspect_where_a_look_shows_it() -> None:
    away = Cause("away", "it follows nobody", 0.2, breaks=("copies",), shows={"link": "down"})
    broken = Symptoms({"store": frozenset({"copies"})}, {"node-1": {"link": "down"}})
    leader, _ = first_belief(["store"], SHOP, (away,), broken).rank()[0]
    assert (leader.cause, leader.target) == (away, "node-1")
    silent = Symptoms({"store": frozenset({"copies"})}, {"node-1": {"link": "up"}})
    places = {suspect.target for suspect in first_belief(["store"], SHOP, (away,), silent).weights}
    assert places == {"store"}
    other = replace(broken, invariants={"store": frozenset({"else"})})
    places = {suspect.target for suspect in first_belief(["store"], SHOP, (away,), other).weights}
    assert places == {"store"}


async def test_what_a_look_contradicts_is_not_made_up_for_by_what_it_shares() -> None:
    both = replace(FULL, shows={"memory_full": True, "role": "primary"})
    one = replace(FULL, name="one", shows={"memory_full": True})
    readings: dict[str, dict[str, Value]] = {"store": {"memory_full": False, "role": "primary"}}
    symptoms = Symptoms({"store": frozenset({"refuses_writes"})}, readings)
    weights = first_belief(["store"], SHOP, (both, one), symptoms).weights
    found = {suspect.cause.name: weight for suspect, weight in weights.items()}
    assert found["memory_full"] == pytest.approx(found["one"])


async def test_several_who_show_the_same_doubt_are_one_doubt() -> None:
    names = ("node-1", "node-2")
    odd = {name: frozenset({"else"}) for name in names}
    symptoms = Symptoms({"store": frozenset({"refuses_writes"}), **odd})
    once = Symptoms({"store": frozenset({"refuses_writes"}), "node-1": frozenset({"else"})})
    weights = [
        max(first_belief(["store", *some], SHOP, (FULL,), seen).weights.values())
        for some, seen in ((names, symptoms), (names[:1], once))
    ]
    assert weights[0] == pytest.approx(weights[1])
