"""The faults of the rig on a stand-in: each changes something, is seen, and leaves nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from operator_protocols.ports import CorrectOutcome, Scene, SubjectSettings
from operator_sre.clock import SystemClock
from operator_sre.plugins import find_plugin
from operator_sre.subjects.kubernetes.analysis import invariant_specs
from operator_sre.subjects.kubernetes.breaks import Drain, Reboot, Unplug
from operator_sre.subjects.kubernetes.causes import known_causes
from operator_sre.subjects.kubernetes.faults import CONTROLS, FAULTS, ROWS, TRUTHS
from operator_sre.subjects.kubernetes.shop import KubernetesDepot
from operator_sre.subjects.kubernetes.system_faults import DAILY
from tests.subjects.kubernetes.fault_stage import Stage, stage

pytestmark = pytest.mark.asyncio
# A cable needs a real network.
NAMES = [row.name for row in ROWS if not any(isinstance(each, Unplug) for each in row.steps)]


async def test_there_are_faults_of_every_class_and_both_outcomes() -> None:
    ends = [row.end for row in ROWS]
    assert len(ROWS) >= 60
    assert min(ends.count(end) for end in CorrectOutcome) >= 20
    specs = {spec.name: spec for spec in invariant_specs()}
    assert {row.breaks[0] for row in ROWS} == set(specs) - {"rollouts_complete"}
    known = known_causes()
    for row in ROWS:
        assert set(row.breaks) <= set(specs), row.name
        assert all(truth.partition("@")[0] in known for truth in row.truths), row.name
        assert row.name not in known or row.end is not None
    assert len(DAILY) == 6
    assert find_plugin("kubernetes").controls == CONTROLS
    assert set(TRUTHS) == {fault.name for fault in FAULTS}


@pytest.mark.parametrize("name", NAMES)
async def test_a_fault_is_seen_by_its_oracle_and_heals_without_a_trace(
    name: str, tmp_path: Path
) -> None:
    fault = next(each for each in FAULTS if each.name == name)
    async with stage(tmp_path) as made:
        assert fault.unavailable(made.scene) == ""
        before = made.configured()
        notes = await fault.inject(made.scene)
        assert made.configured() != before or made.processes.wounds
        scene = replace(made.scene, notes=notes)
        assert await fault.oracle(scene)
        await fault.heal(scene)
        assert made.configured() == before
        assert made.processes.wounds == {}
        assert await fault.oracle(scene) == ""


async def test_an_oracle_believes_customers_and_not_objects(tmp_path: Path) -> None:
    fault = next(each for each in FAULTS if each.name == "service_selector")
    async with stage(tmp_path) as made:
        notes = await fault.inject(made.scene)
        await fault.heal(replace(made.scene, notes=notes))
        made.serves = False
        assert "not acknowledged" in await fault.oracle(replace(made.scene, notes=notes))


async def test_what_an_agent_changed_besides_is_put_back(tmp_path: Path) -> None:
    fault = next(each for each in FAULTS if each.name == "image_missing")
    async with stage(tmp_path) as made:
        before = made.configured()
        notes = await fault.inject(made.scene)
        worker = made.server.objects["deployment"]["shop", "worker"]
        made.server.put("deployment", {**worker, "spec": {**worker["spec"], "replicas": 5}})
        made.server.delete("service", "backend", "shop")
        await fault.heal(replace(made.scene, notes=notes))
        assert made.configured() == before


async def test_without_real_nodes_only_faults_of_the_api_are_left(tmp_path: Path) -> None:
    async with stage(tmp_path) as made:
        targets = tuple(each for each in made.scene.targets if each.kind != "machine")
        simulated = replace(made.scene, targets=targets)
        able = {fault.name for fault in FAULTS if not fault.unavailable(simulated)}
        assert {"cpu_request", "quota_pods", "claim_size"} <= able
        assert not {"image_missing", "crash", "node_down", "liveness_port"} & able
        guest = Scene(simulated.target, (simulated.target,), simulated.rig)
        assert all("own cluster" in fault.unavailable(guest) for fault in FAULTS)


@pytest.mark.parametrize("name", [row.name for row in DAILY])
async def test_what_happens_every_day_ends_well(name: str, tmp_path: Path) -> None:
    row, control = next(pair for pair in zip(DAILY, CONTROLS, strict=True) if pair[0].name == name)
    assert row.truths == ()
    async with stage(tmp_path) as made:
        before = made.configured()
        notes = await control.inject(made.scene)
        scene = replace(made.scene, notes=notes)
        assert await control.oracle(scene) == ""
        # What a node does by itself leaves nothing to undo.
        passing = any(isinstance(step, Drain | Reboot) for step in row.steps)
        assert (made.configured() == before) is passing
        await control.heal(scene)
        assert made.configured() == before


def depot_of(made: Stage) -> KubernetesDepot:
    """The depot of a rig."""
    kubeconfig = str(Path(made.scene.of("switch").data_dir) / "pki" / "kubeconfig")
    settings = SubjectSettings("c", lambda: (), SystemClock(), 2.0, {"kubeconfig": kubeconfig})
    return KubernetesDepot(settings)


async def test_a_lost_order_is_counted_and_an_unknown_one_is_not(tmp_path: Path) -> None:
    async with stage(tmp_path) as made:
        depot = depot_of(made)
        assert await depot.put("one")
        assert await depot.put("two")
        assert await depot.find_lost(["one", "two"]) == frozenset()
        made.orders["kept"].discard("two")
        assert await depot.find_lost(["one", "two"]) == frozenset({"two"})
        made.serves = False
        assert not await depot.put("three")
        assert await depot.find_lost(["one", "two"]) is None
    assert await depot.find_lost(["one"]) is None
