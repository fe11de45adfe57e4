"""Faults: chosen by a seed, remembered, healed, and refused where they make no sense."""

from __future__ import annotations

import random

import pytest

from operator_protocols.domain.fault import Ability, Fault
from operator_protocols.errors import NotFoundError, RigError
from operator_sre.lab.faults import Broken, broken, heal, inject
from operator_sre.lab.rig import Rig, RunState
from tests.lab.conftest import Up, rig_spec

KILL = Fault("node_kill", "A node is killed.", Ability.KILL, "node")
PAUSE = Fault("node_pause", "A node is paused.", Ability.PAUSE, "node")
STORE_KILL = Fault("store_kill", "The store is killed.", Ability.KILL, "store")
FOREIGN = Fault("disk", "A disk is killed.", Ability.KILL, "disk")


def _states(rig: Rig) -> dict[str, RunState]:
    return {each.name: each.state for each in rig.status().processes}


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("fault", "state"), [(KILL, RunState.EXITED), (PAUSE, RunState.PAUSED)], ids=["kill", "pause"]
)
async def test_a_fault_hurts_one_target_of_its_kind_and_is_healed(
    up: Up, fault: Fault, state: RunState
) -> None:
    rig = await up()
    name = await inject(rig, fault, target=None, rng=random.Random(7))
    assert name in ("node-1", "node-2")
    assert [each for each, found in _states(rig).items() if found is not RunState.RUNNING] == [name]
    assert _states(rig)[name] is state
    assert broken(rig) == (Broken(fault.name, name),)
    assert await heal(Rig.attach(rig.directory), fault) == name
    assert set(_states(rig).values()) == {RunState.RUNNING}
    assert broken(rig) == ()


@pytest.mark.asyncio
async def test_the_seed_decides_and_the_broken_are_passed_over(up: Up) -> None:
    rig = await up(rig_spec(3))
    names = [await inject(rig, PAUSE, target=None, rng=random.Random(3)) for _ in range(3)]
    assert sorted(names) == ["node-1", "node-2", "node-3"]
    with pytest.raises(RigError, match=r"nothing to hurt\. Heal"):
        await inject(rig, PAUSE, target=None, rng=random.Random(3))
    for _ in names:
        await heal(rig, PAUSE)
    again = [await inject(rig, PAUSE, target=None, rng=random.Random(3)) for _ in range(3)]
    assert again == names


@pytest.mark.asyncio
async def test_a_named_target_is_hurt_and_healed_by_name(up: Up) -> None:
    rig = await up()
    assert await inject(rig, STORE_KILL, target="store", rng=random.Random(0)) == "store"
    assert await inject(rig, KILL, target="node-2", rng=random.Random(0)) == "node-2"
    assert await heal(rig, STORE_KILL, target="store") == "store"
    assert broken(rig) == (Broken("node_kill", "node-2"),)
    assert await heal(rig, KILL, target="node-2") == "node-2"
    assert set(_states(rig).values()) == {RunState.RUNNING}


@pytest.mark.asyncio
async def test_the_wrong_target_is_refused_with_the_valid_ones(up: Up) -> None:
    rig = await up()
    for target in ("store", "node-9", "", "load"):
        with pytest.raises(NotFoundError, match=r"cannot be done to .* node-1, node-2"):
            await inject(rig, KILL, target=target, rng=random.Random(0))
        with pytest.raises(NotFoundError, match="node-1, node-2"):
            await heal(rig, KILL, target=target)
    with pytest.raises(NotFoundError, match=r"kind 'disk'\. This rig has node, store"):
        await inject(rig, FOREIGN, target=None, rng=random.Random(0))
    with pytest.raises(NotFoundError, match="Broken now: nothing"):
        await heal(rig, KILL)
    assert broken(rig) == ()
    assert set(_states(rig).values()) == {RunState.RUNNING}


@pytest.mark.asyncio
async def test_a_fault_that_could_not_be_done_is_not_remembered(up: Up) -> None:
    rig = await up()
    await inject(rig, KILL, target="node-1", rng=random.Random(0))
    with pytest.raises(RigError, match="not running"):
        await inject(rig, PAUSE, target="node-1", rng=random.Random(0))
    assert broken(rig) == (Broken("node_kill", "node-1"),)


@pytest.mark.asyncio
async def test_what_somebody_else_mended_is_left_as_it_is(up: Up) -> None:
    rig = await up()
    name = await inject(rig, KILL, target=None, rng=random.Random(0))
    process = await rig.restart(name)
    assert await heal(rig, KILL) == name
    assert broken(rig) == ()
    assert process in [target.process for target in rig.targets()]
