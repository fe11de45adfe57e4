"""No change is based on a diagnosis that the observations contradict."""

from __future__ import annotations

from dataclasses import replace

import pytest

from operator_protocols.domain.action import Action, Outcome, Result
from operator_protocols.domain.cause import Cause
from operator_protocols.domain.observation import Observation, Seen, Value
from operator_protocols.domain.run import Act, Ask, Briefing, Budget, Diagnose, Step
from operator_sre.models.reasoner import Reasoner
from operator_sre.models.reasoner.contradiction import find_contradiction
from operator_sre.models.reasoner.probes import PROBES
from tests.contract.clock import NOON
from tests.contract.workshop import DIAGNOSIS
from tests.models.world import DEAD, HUNG, SHOP, WELL, State, World, briefing

STALE = Cause("stale", "its data is stale", 0.1, shows={"lag_s": 900})


def _ask(cause: str, target: str = "node-1", *steps: Step, told: Briefing | None = None) -> Ask:
    diagnosis = Diagnose(replace(DIAGNOSIS.diagnosis, cause=cause, target=target))
    return Ask(told or briefing(), (*steps, Step(diagnosis, None, 20)), Budget())


def _seen(**readings: Value) -> Briefing:
    observation = Observation("shop", NOON, (Seen("node-1", readings),))
    return replace(briefing(causes=(STALE,)), observation=observation)


def _probed(state: State, *, seq: int = 12) -> tuple[Step, ...]:
    actions = [action for probe in PROBES if (action := probe.ask(SHOP[1])) is not None]
    return tuple(Step(Act(action), state.show(action), seq) for action in actions)


def test_a_target_that_does_not_exist_is_named_with_those_that_do() -> None:
    why = find_contradiction(_ask("process_dead", "node-9"))
    assert "'node-9', which does not exist" in why
    assert "node-1, node-2, store" in why
    assert find_contradiction(_ask("unheard_of", "node-1")) == ""
    assert find_contradiction(_ask("unheard_of", "")) == "", "a baseline names none"


def test_a_cause_that_an_observation_excludes_is_refused_with_it() -> None:
    why = find_contradiction(_ask("process_dead", told=_seen(reachable=True)))
    assert "node-1 is reachable (seq=7)" in why
    why = find_contradiction(_ask("stale", told=_seen(lag_s=0)))
    assert "lag_s of node-1 is 0 and would be 900 (seq=7)" in why
    assert find_contradiction(_ask("stale", told=_seen(lag_s=900))) == ""
    assert find_contradiction(_ask("stale", told=_seen(lag_s=None))) == "", "it was not read"
    assert find_contradiction(_ask("process_dead", told=_seen(reachable=False))) == ""


def test_a_probe_of_the_run_contradicts_too() -> None:
    why = find_contradiction(_ask("process_dead", "node-1", *_probed(HUNG)))
    assert "'process_dead' at 'node-1' contradicts an observation: node-1: " in why
    assert "(seq=12)" in why
    assert find_contradiction(_ask("process_dead", "node-1", *_probed(DEAD))) == ""
    assert find_contradiction(_ask("process_hung", "node-1", *_probed(HUNG))) == ""


def test_nothing_is_contradicted_before_a_diagnosis() -> None:
    assert find_contradiction(Ask(briefing(), _probed(WELL), Budget())) == ""


@pytest.mark.asyncio
@pytest.mark.parametrize("state", [DEAD, HUNG])
async def test_what_the_reasoner_diagnoses_is_never_contradicted(state: State) -> None:
    world = World({"store": WELL, "node-1": state, "node-2": WELL})
    await world.live(Reasoner())
    assert world.changes
    first = next(at for at, step in enumerate(world.steps) if isinstance(step.want, Diagnose))
    assert find_contradiction(Ask(world.told, tuple(world.steps[: first + 1]), Budget())) == ""


def test_an_unknown_outcome_contradicts_nothing() -> None:
    probe = Action.shell("ps", reasoning="?")
    step = Step(Act(probe), Result(Outcome.UNKNOWN), 12)
    assert find_contradiction(_ask("process_dead", "node-1", step)) == ""
