"""Faults: chosen by a seed, remembered, healed, judged, and refused where they make no sense."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Mapping

import pytest
import pytest_asyncio

from operator_lab.faults import Broken, broken, heal, inject, is_over, unavailable
from operator_lab.rig import Rig, RunState
from operator_protocols.errors import NotFoundError, RigError
from operator_protocols.faults import cut_fault, fill_fault, kill_fault, pause_fault
from operator_protocols.ports import Fault, Scene
from tests.lab.conftest import rig_spec

pytestmark = pytest.mark.asyncio(loop_scope="module")

KILL = kill_fault("node_kill", "node", breaks=("node_down",))
KILL_TWO = kill_fault("nodes_kill", "node", breaks=("node_down",), count=2)
PAUSE = pause_fault("node_pause", "node", breaks=("node_down",))
STORE_KILL = kill_fault("store_kill", "store", breaks=("store_down",))
FOREIGN = kill_fault("disk", "disk", breaks=("disk_down",))
FULL = fill_fault("disk_full", "store", breaks=("store_down",))


def _states(rig: Rig) -> dict[str, RunState]:
    return {each.name: each.state for each in rig.status().processes}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Rig]:
    """Three nodes and a store, for all tests of this file."""
    rig = await Rig.up(rig_spec(3), tmp_path_factory.mktemp("faults") / "rig", owned=True)
    yield rig
    await rig.down()


@pytest_asyncio.fixture(loop_scope="module")
async def rig(shared: Rig) -> AsyncIterator[Rig]:
    """The same rig, as good as new after each test."""
    yield shared
    (shared.directory / "faults.json").unlink(missing_ok=True)
    for name, state in _states(shared).items():
        if state is not RunState.RUNNING:
            await shared.restart(name)


async def _nothing(scene: Scene) -> None:
    return None


async def _told(scene: Scene) -> str:
    return f"noted: {dict(scene.notes)}"


@pytest.mark.parametrize(
    ("fault", "state"), [(KILL, RunState.EXITED), (PAUSE, RunState.PAUSED)], ids=["kill", "pause"]
)
async def test_a_fault_hurts_one_target_of_its_kind_and_is_healed(
    rig: Rig, fault: Fault, state: RunState
) -> None:
    name = await inject(rig, fault, target=None, rng=random.Random(7))
    assert name in ("node-1", "node-2", "node-3")
    assert [each for each, found in _states(rig).items() if found is not RunState.RUNNING] == [name]
    assert _states(rig)[name] is state
    assert broken(rig) == (Broken(fault.name, name),)
    assert name in await is_over(rig, fault)
    assert await heal(Rig.attach(rig.directory), fault) == name
    assert set(_states(rig).values()) == {RunState.RUNNING}
    assert broken(rig) == ()
    with pytest.raises(NotFoundError, match="Active faults: nothing"):
        await is_over(rig, fault)


async def test_the_seed_decides_and_the_broken_are_passed_over(rig: Rig) -> None:
    names = [await inject(rig, PAUSE, target=None, rng=random.Random(3)) for _ in range(3)]
    assert sorted(names) == ["node-1", "node-2", "node-3"]
    with pytest.raises(RigError, match=r"has no target\. Heal"):
        await inject(rig, PAUSE, target=None, rng=random.Random(3))
    for _ in names:
        await heal(rig, PAUSE)
    again = [await inject(rig, PAUSE, target=None, rng=random.Random(3)) for _ in range(3)]
    assert again == names
    for _ in names:
        await heal(rig, PAUSE)


async def test_a_named_target_is_hurt_and_healed_by_name(rig: Rig) -> None:
    assert await inject(rig, STORE_KILL, target="store", rng=random.Random(0)) == "store"
    assert await inject(rig, KILL, target="node-2", rng=random.Random(0)) == "node-2"
    assert await heal(rig, STORE_KILL, target="store") == "store"
    assert broken(rig) == (Broken("node_kill", "node-2"),)
    assert await heal(rig, KILL, target="node-2") == "node-2"
    assert set(_states(rig).values()) == {RunState.RUNNING}


async def test_the_wrong_target_is_refused_with_the_valid_ones(rig: Rig) -> None:
    for target in ("store", "node-9", "", "load"):
        with pytest.raises(NotFoundError, match=r"cannot be injected into .* node-1, node-2"):
            await inject(rig, KILL, target=target, rng=random.Random(0))
        with pytest.raises(NotFoundError, match="node-1, node-2"):
            await heal(rig, KILL, target=target)
    with pytest.raises(NotFoundError, match=r"kind 'disk'\. This rig has node, store"):
        await inject(rig, FOREIGN, target=None, rng=random.Random(0))
    with pytest.raises(NotFoundError, match="Active faults: nothing"):
        await heal(rig, KILL)
    assert broken(rig) == ()
    assert set(_states(rig).values()) == {RunState.RUNNING}


async def test_a_fault_that_could_not_be_done_is_not_remembered(rig: Rig) -> None:
    await inject(rig, KILL, target="node-1", rng=random.Random(0))
    with pytest.raises(RigError, match="not running"):
        await inject(rig, PAUSE, target="node-1", rng=random.Random(0))
    assert broken(rig) == (Broken("node_kill", "node-1"),)
    with pytest.raises(
        RigError, match=r"is already active at 'node-1'\. Heal it first with: operator"
    ):
        await inject(rig, KILL, target="node-1", rng=random.Random(0))
    assert broken(rig) == (Broken("node_kill", "node-1"),)


async def test_a_fault_that_was_half_done_is_remembered_and_can_be_healed(rig: Rig) -> None:
    await rig.kill("node-1")
    with pytest.raises(RigError, match="'node-1' is not running"):
        await inject(rig, KILL_TWO, target="node-2", rng=random.Random(0))
    assert _states(rig)["node-2"] is RunState.EXITED
    assert broken(rig) == (Broken("nodes_kill", "node-2"),)
    await heal(rig, KILL_TWO)
    assert set(_states(rig).values()) == {RunState.RUNNING}

    async def interrupted(scene: Scene) -> Mapping[str, str]:
        raise asyncio.CancelledError

    rough = Fault("rough", "It is broken off.", "node", ("x",), interrupted, _nothing, _told)
    with pytest.raises(asyncio.CancelledError):
        await inject(rig, rough, target="node-1", rng=random.Random(0))
    assert broken(rig) == (Broken("rough", "node-1"),)


async def test_what_was_noted_comes_back_and_two_at_once_keep_their_notes(rig: Rig) -> None:
    both = asyncio.Barrier(2)

    async def noting(scene: Scene) -> Mapping[str, str]:
        await both.wait()
        return {"who": scene.target.name}

    fault = Fault("noted", "Something is noted.", "node", ("x",), noting, _nothing, _told)
    rng = random.Random(0)
    await asyncio.gather(
        inject(rig, fault, target="node-1", rng=rng), inject(rig, fault, target="node-2", rng=rng)
    )
    assert sorted(broken(rig), key=lambda one: one.target) == [
        Broken("noted", name, {"who": name}) for name in ("node-1", "node-2")
    ]
    assert await is_over(rig, fault, target="node-1") == "noted: {'who': 'node-1'}"
    assert await is_over(rig, fault, target="node-2") == "noted: {'who': 'node-2'}"


async def test_what_cannot_be_done_here_is_refused_with_the_reason(rig: Rig) -> None:
    assert unavailable(rig, KILL) == ""
    assert unavailable(rig, FOREIGN) == "this rig has nothing of kind 'disk'"
    assert "volume" in unavailable(rig, FULL)
    lone = cut_fault("cut", "store", breaks=("x",))
    assert "link" in unavailable(rig, lone)
    for fault in (FULL, lone):
        with pytest.raises(RigError, match=r"is not available here: .*(volume|link)"):
            await inject(rig, fault, target=None, rng=random.Random(0))
    assert broken(rig) == ()


async def test_what_somebody_else_mended_is_left_as_it_is(rig: Rig) -> None:
    name = await inject(rig, KILL, target=None, rng=random.Random(0))
    process = await rig.restart(name)
    assert await is_over(rig, KILL) == ""
    assert await heal(rig, KILL) == name
    assert broken(rig) == ()
    assert process in [target.process for target in rig.targets()]


async def test_a_damaged_record_is_told(rig: Rig) -> None:
    (rig.directory / "faults.json").write_text("{")
    with pytest.raises(RigError, match="cannot be read"):
        broken(rig)
