"""The first diagnosis of the built-in agent for a description, without any further probe."""

from __future__ import annotations

from dataclasses import replace

from operator_protocols.domain.diagnosis import Diagnosis
from operator_protocols.domain.health import Health, Severity
from operator_protocols.domain.observation import Violation
from operator_protocols.domain.run import Ask, Briefing, Budget, Diagnose
from operator_protocols.ports import Plugin
from operator_sre.models.reasoner import Reasoner
from operator_sre.plugins import find_plugin
from tests.contract.clock import NOON
from tests.contract.samples import ticket
from tests.models.world import TOOLS, State, World
from tests.subjects.declarative.trying import Tried

__all__ = ["brief", "diagnose"]


async def brief(tried: Tried) -> Briefing:
    """What an agent is told after one look at a description that is broken somewhere."""
    plugin: Plugin = find_plugin("declarative")
    observation = await tried.look()
    findings = [one for each in tried.subject.invariants for one in each.check(observation)]
    violations = [
        Violation("mine", one.invariant, one.target, Severity.WARNING, one.detail, NOON)
        for one in findings
        if one.health is not Health.HEALTHY
    ]
    assert violations, observation
    return Briefing(
        ticket(*violations),
        tuple(tried.targets),
        observation,
        Health.BROKEN,
        tuple(tool.spec for tool in tried.tools),
        plugin.causes_for(tried.options),
        observation_seq=7,
        broken=frozenset(each.key for each in violations),
    )


async def diagnose(tried: Tried, **states: State) -> Diagnosis:
    """The first diagnosis; without the state of any process, it can run no probe of its own."""
    told = await brief(tried)
    if states:
        world = World(states, replace(told, tools=(*TOOLS, *told.tools)))
        await world.live(Reasoner())
        return world.diagnoses[0]
    answer = await Reasoner().answer(Ask(told, (), Budget()))
    (made,) = [call for call in answer.calls if isinstance(call, Diagnose)]
    return made.diagnosis
