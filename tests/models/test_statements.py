"""A subject that states the cause itself is believed, unless a probe shows something else."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from operator_protocols.domain.action import Action
from operator_protocols.domain.cause import Cause
from operator_protocols.domain.change import Change
from operator_protocols.domain.diagnosis import Diagnosis
from operator_protocols.domain.health import Severity
from operator_protocols.domain.observation import Observation, Seen, Violation, key_of
from operator_protocols.domain.run import Act, Ask, Briefing, Budget, Diagnose, Step
from operator_protocols.domain.target import Process, Target
from operator_sre.models.reasoner import Reasoner
from tests.contract.clock import NOON
from tests.models.world import DEAD, TOOLS, WELL, State, briefing

pytestmark = pytest.mark.asyncio

NAMES = ("image_missing", "image_denied", "image_slow", "image_large", "image_old")
CAUSES = tuple(
    Cause(name, f"the {name}", 0.05, breaks=("pulled", "ready"), shows={"cause": name})
    for name in NAMES
)
WORKLOAD = Target("shop/web", "workload")
CALLER = Target("shop/front", "workload", depends_on=("shop/web",))
# A process of the machine on which the workloads run, and which has nothing to do with them.
BESIDE = Target("load", "load", port=1, process=Process(7, 1.0), data_dir="/nowhere")


def breach(target: str, invariant: str, detail: str = "it is not there") -> Violation:
    return Violation("shop", invariant, target, Severity.CRITICAL, detail, NOON)


def brief(*violations: Violation, stated: str = "", target: str = "shop/web") -> Briefing:
    """What an agent is given where the subject states a cause at a target, or none."""
    readings = {"kind": "workload", **({"cause": stated} if stated else {})}
    targets = (WORKLOAD, CALLER, BESIDE)
    seen = tuple(
        Seen(each.name, readings if each.name == target else {"kind": each.kind})
        for each in targets
    )
    written = Change("load", "sent in report.json", "1", "2", NOON - timedelta(seconds=9), "files")
    told = briefing(*violations, tools=TOOLS, causes=CAUSES)
    return replace(
        told,
        targets=targets,
        observation=Observation("shop", NOON, seen),
        changes=(written,),
        broken=frozenset(key_of("shop", each.target, each.invariant) for each in violations),
    )


async def decide(told: Briefing, state: State = WELL) -> Diagnosis:
    """The diagnosis; every question is answered as the state shows."""
    steps: list[Step] = []
    for _ in range(20):
        answer = await Reasoner().answer(Ask(told, tuple(steps), Budget()))
        for call in answer.calls:
            if isinstance(call, Diagnose):
                return call.diagnosis
            assert isinstance(call, Action)
            steps.append(Step(Act(call), state.show(call), seq=len(steps)))
    raise AssertionError("it never decides")


@pytest.mark.parametrize("name", NAMES)
async def test_a_stated_cause_is_the_diagnosis(name: str) -> None:
    found = await decide(brief(breach("shop/web", "pulled"), stated=name))
    assert (found.cause, found.target) == (name, "shop/web")
    assert found.confidence > 0.9
    assert found.summary.startswith(f"shop/web: the {name}.")
    assert {each.cause for each in found.hypotheses} <= {name, "unexplained"}


async def test_a_cause_stated_at_a_dependency_explains_what_needs_it() -> None:
    found = await decide(brief(breach("shop/front", "ready"), stated="image_old"))
    assert (found.cause, found.target) == ("image_old", "shop/web")
    assert found.confidence > 0.5


async def test_a_stated_cause_explains_nothing_that_it_does_not_break() -> None:
    found = await decide(brief(breach("shop/web", "paid"), stated="image_old"))
    assert found.cause == "unexplained"


async def test_where_nothing_is_stated_no_process_is_blamed_that_this_machine_cannot_see() -> None:
    found = await decide(brief(breach("shop/web", "pulled")))
    assert found.cause == "unexplained"
    assert {each.cause for each in found.hypotheses} <= {*NAMES, "unexplained"}


async def test_files_of_a_process_are_no_evidence_for_what_is_none() -> None:
    for stated in ("image_old", ""):
        found = await decide(brief(breach("shop/web", "pulled"), stated=stated))
        assert not [each for each in found.evidence if "report.json" in each.sentence]


async def test_a_dead_process_is_found_although_the_subject_states_something_else() -> None:
    seen = brief(breach("load", "pulled"), stated="image_old", target="load")
    assert (await decide(seen)).cause == "image_old"
    found = await decide(seen, DEAD)
    assert "process_dead" in {each.cause for each in found.hypotheses}
