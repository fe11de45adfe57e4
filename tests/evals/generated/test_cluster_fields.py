"""The fields of a cluster's manifests as what a generator breaks, on a stand-in."""

from __future__ import annotations

from pathlib import Path

import pytest

from operator_evals.generated.case import Kind, Primitive
from operator_evals.generated.generator import generate
from operator_evals.generated.servers import Seat, servers_of
from operator_evals.generated.servers.kubernetes import KubernetesServer
from operator_evals.generated.surface import Part, SettingType, Surface
from operator_protocols.domain.rig import ProcessSpec
from operator_protocols.errors import RigError
from tests.subjects.kubernetes.fault_stage import Stage, stage

pytestmark = pytest.mark.asyncio
PORT = "shop/service/backend:spec/ports/0/targetPort"
IMAGE = "shop/deployment/backend:spec/template/spec/containers/0/image"


def server_of(made: Stage) -> KubernetesServer:
    """The server of a stage, found as it is in a rig."""
    home = Path(made.scene.of("apiserver").data_dir)
    processes = [
        ProcessSpec("apiserver", "control-plane", ("nsenter", "labkube", "kube-apiserver", "-v")),
        ProcessSpec("node1", "machine", ("python", "node")),
        ProcessSpec("etcd", "control-plane", ("nsenter", "labkube", "etcd")),
    ]
    seats = {each.name: Seat(each.name, each.kind, 1, 1, home) for each in processes}
    found = servers_of(processes, seats)
    assert list(found) == ["apiserver"]
    server = found["apiserver"]
    assert isinstance(server, KubernetesServer)
    return server


async def test_every_value_of_the_manifests_can_be_changed_and_is_put_back(tmp_path: Path) -> None:
    async with stage(tmp_path) as made:
        server, before = server_of(made), made.configured()
        settings = {each.name: each for each in await server.settings()}
        assert len(settings) > 80
        assert settings[PORT].type is SettingType.INTEGER
        assert settings[IMAGE].type is SettingType.TEXT
        assert not any("kube-system" in name for name in settings)
        for name, setting in settings.items():
            value = "7" if setting.type is SettingType.INTEGER else "other"
            undo = await server.change(name, value)
            assert made.configured() != before, name
            await undo()
            assert made.configured() == before, name


async def test_a_value_keeps_the_type_that_its_field_has(tmp_path: Path) -> None:
    async with stage(tmp_path) as made:
        await server_of(made).change(PORT, "9")
        (port,) = made.server.objects["service"]["shop", "backend"]["spec"]["ports"]
        assert port["targetPort"] == 9


async def test_what_a_controller_writes_in_between_is_kept(tmp_path: Path) -> None:
    async with stage(tmp_path) as made:
        writes = 0

        def meddle(change: object) -> None:
            nonlocal writes
            writes += 1
            if writes == 1:
                item = made.server.objects["deployment"]["shop", "backend"]
                made.server.put("deployment", {**item, "spec": {**item["spec"], "replicas": 3}})

        made.server.meddle = meddle
        await server_of(made).change(IMAGE, "nonsense")
        spec = made.server.objects["deployment"]["shop", "backend"]["spec"]
        assert spec["replicas"] == 3
        assert spec["template"]["spec"]["containers"][0]["image"] == "nonsense"


async def test_a_refusal_and_a_missing_object_are_told(tmp_path: Path) -> None:
    async with stage(tmp_path) as made:
        server = server_of(made)
        made.server.refuses["PUT", "/api/v1/namespaces/shop/services/backend"] = (422, "immutable")
        with pytest.raises(RigError, match="immutable"):
            await server.change(PORT, "9")
        made.server.delete("service", "backend", "shop")
        with pytest.raises(RigError, match="not found"):
            await server.change(PORT, "9")
    with pytest.raises(RigError, match="did not answer"):
        await server.change(PORT, "9")


async def test_pods_are_deleted_and_cables_can_be_cut(tmp_path: Path) -> None:
    async with stage(tmp_path) as made:
        server = server_of(made)
        commands = {(each.name, each.about): each for each in await server.commands()}
        assert commands["cut_cable", "node1"].reversible
        await server.execute("delete_pods", "shop/deployment/backend")
        assert ("shop", "backend-1") not in made.server.objects["pod"]
        assert ("shop", "frontend-1") in made.server.objects["pod"]
        with pytest.raises(RigError, match="cable"):
            await server.execute("cut_cable", "node1")


async def test_a_case_about_a_field_names_its_object_and_is_done_at_run_time(
    tmp_path: Path,
) -> None:
    async with stage(tmp_path) as made:
        settings = tuple(await server_of(made).settings())
    surface = Surface("kubernetes", (Part("apiserver", "control-plane", settings=settings),))
    primitives = [
        each.primitive for seed in range(60) for each in generate(surface, seed).injections
    ]
    changes = [each for each in primitives if each.kind is Kind.SETTING]
    assert len(changes) > 10
    assert {each.arguments["when"] for each in changes} == {"now"}
    arguments = {"name": IMAGE, "value": "none", "when": "now"}
    about = Primitive(Kind.SETTING, "apiserver", arguments)
    assert about.components == ("apiserver", "shop/deployment/backend")
    assert about.clues.search('Failed to pull image "none"')
