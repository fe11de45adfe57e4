"""What a Subject and its Invariants promise, for every plug-in that is installed."""

from __future__ import annotations

import asyncio

import pytest

from operator_protocols.domain.health import Health
from operator_protocols.domain.observation import Observation, Seen
from operator_protocols.domain.target import Target
from operator_protocols.errors import ObservationError
from operator_protocols.ports import Invariant, Subject, SubjectSettings
from operator_sre.plugins import find_plugin, plugin_names
from tests.contract.clock import NOON, HeldClock
from tests.contract.plants import Plant
from tests.contract.servers import hangs, serving, unused_port

pytestmark = pytest.mark.asyncio

TIMEOUT_S = 0.3


def _subject(plugin: str, *targets: Target) -> Subject:
    settings = SubjectSettings("mine", lambda: targets, HeldClock(), TIMEOUT_S, {})
    return find_plugin(plugin).subject(settings)


@pytest.fixture(params=plugin_names())
def plugin(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def _kinds(plugin: str) -> list[str]:
    """The kinds of targets that this plug-in's rig has, and one that nobody knows."""
    rig = find_plugin(plugin).rig
    return [*(sorted({one.kind for one in rig().processes}) if rig else []), "odd"]


async def test_a_subject_is_what_it_was_configured_as(plugin: str) -> None:
    target = Target("a", "node", port=1)
    subject = _subject(plugin, target)
    assert isinstance(subject, Subject)
    assert subject.name == "mine"
    assert list(subject.targets()) == [target]


async def test_invariants_have_names_of_their_own_and_sane_graces(plugin: str) -> None:
    invariants = _subject(plugin).invariants
    names = [invariant.name for invariant in invariants]
    assert names
    assert len(set(names)) == len(names)
    assert "observable" not in names, "that name is the monitor's"
    for invariant in invariants:
        assert isinstance(invariant, Invariant)
        assert 0.0 <= invariant.grace_s < 3600.0


async def test_nothing_to_look_at_is_not_health(plugin: str) -> None:
    with pytest.raises(ObservationError):
        await _subject(plugin).observe()


async def test_every_target_is_seen_however_it_fails_and_in_time(plugin: str) -> None:
    loop = asyncio.get_running_loop()
    async with serving(hangs) as silent:
        with unused_port() as dead:
            targets = [
                Target(f"{kind}-{how}", kind, port=port)
                for kind in _kinds(plugin)
                for how, port in (("silent", silent), ("dead", dead), ("portless", None))
            ]
            begun = loop.time()
            observation = await _subject(plugin, *targets).observe()
            assert loop.time() - begun < 2 * TIMEOUT_S + 1.5
    assert observation.subject == "mine"
    assert observation.at == NOON
    assert {seen.target for seen in observation.seen} == {target.name for target in targets}
    for invariant in _subject(plugin).invariants:
        findings = list(invariant.check(observation))
        assert all(finding.health is not Health.HEALTHY for finding in findings)


async def test_a_check_is_pure_and_knows_nothing_of_what_was_not_seen(plugin: str) -> None:
    blind = Observation("mine", NOON, (Seen("a", problem="it answered 500"), Seen("b")))
    empty = Observation("mine", NOON)
    for invariant in _subject(plugin).invariants:
        first, again = list(invariant.check(blind)), list(invariant.check(blind))
        assert first == again
        assert all(finding.health is Health.UNKNOWN for finding in first)
        assert list(invariant.check(empty)) == []


async def test_the_plant_of_our_tests_keeps_the_same_promises() -> None:
    plant = Plant(HeldClock())
    assert isinstance(plant, Subject)
    assert (await plant.observe()).of("node-1").readings == {"up": True}
