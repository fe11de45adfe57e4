"""The tools against a real API server, as an account that has nothing but their roles.

It is the control plane of the rig without nodes: no container runs.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml

from operator_lab.kubernetes.build import find_programs
from operator_lab.rig import Rig
from operator_protocols.domain.action import Argument, Result
from operator_protocols.ports import Job, SubjectSettings
from operator_sre.clock import SystemClock
from operator_sre.subjects.kubernetes.connection import open_api
from operator_sre.subjects.kubernetes.rig import rig
from operator_sre.subjects.kubernetes.tools import RepairTool, kubernetes_tools
from tests.subjects.kubernetes.rig.trial import Kubectl

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(180),
    pytest.mark.system,
    pytest.mark.skipif(find_programs() is None, reason="needs the programs of the rig"),
]

Object = dict[str, Any]
SPACE, ACCOUNT = "bakery", "system:serviceaccount:bakery:operator"
VERBS = ("create", "update", "patch", "delete", "deletecollection", "get", "list", "watch")
SETTLED_S_MAX = 60.0


class Bench:
    """A namespace with something to repair, and the tools of an account that may."""

    def __init__(self, kubectl: Kubectl, kubeconfig: Path) -> None:
        self.kubectl = kubectl
        self.kubeconfig = kubeconfig
        options = {"kubeconfig": str(kubeconfig), "good_after_s": 0.0}
        settings = SubjectSettings("c", lambda: (), SystemClock(), 20.0, options)
        self._tools = {each.spec.name: each for each in kubernetes_tools(settings)}

    async def do(self, name: str, target: str, **more: Argument) -> Result:
        """Propose a call and do it."""
        tool = self._tools[name]
        assert isinstance(tool, RepairTool)
        arguments: Mapping[str, Argument] = {"target": target, **more}
        prepared = await tool.prepare(arguments)
        return await tool.call({**arguments, **prepared.arguments}, Job(timeout_s=30))

    async def read(self, *words: str) -> Object:
        """One object."""
        (item,) = await self.kubectl.read("-n", SPACE, *words)
        return item

    async def apply(self, *items: Object) -> None:
        """As a person does with kubectl."""
        record = {"apiVersion": "v1", "kind": "List", "items": list(items)}
        await self.kubectl.run("-n", SPACE, "apply", "-f", "-", text=json.dumps(record))


def deployment(image: str, **metadata: Any) -> Object:
    """A Deployment of two replicas."""
    container = {
        "name": "web",
        "image": image,
        "resources": {"limits": {"memory": "64Mi"}, "requests": {"memory": "32Mi"}},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", **metadata},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [container]},
            },
        },
    }


SERVICE: Object = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "web"},
    "spec": {"type": "NodePort", "selector": {"app": "web"}, "ports": [{"port": 80}]},
}
QUOTA: Object = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"name": "limits"},
    "spec": {"hard": {"pods": "10"}},
}


def node(name: str) -> Object:
    """A node that is ready, as far as the API knows."""
    status = {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"cpu": "4"}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bench(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Bench]:
    """A control plane of its own."""
    folder = tmp_path_factory.mktemp("api")
    with pytest.MonkeyPatch.context() as patch:
        # The package has a function of the same name.
        module = import_module("operator_sre.subjects.kubernetes.rig")
        patch.setattr(module, "why_no_nodes", lambda: "this test needs none")
        spec = rig()
    made = await Rig.up(spec, folder / "rig", owned=True)
    try:
        yield await _furnish(Kubectl(folder / "rig"), folder)
    finally:
        await made.down()


async def _furnish(kubectl: Kubectl, folder: Path) -> Bench:
    await kubectl.run("create", "namespace", SPACE)
    for name in ("observe", "repair", "repair-nodes"):
        text = (files("operator_sre.subjects.kubernetes") / "roles" / f"{name}.yaml").read_text()
        await kubectl.run("apply", "-f", "-", text=text)
    await kubectl.run("-n", SPACE, "create", "serviceaccount", "operator")
    account = f"--serviceaccount={SPACE}:operator"
    for name in ("observe", "repair-nodes"):
        role = f"--clusterrole=operator-{name}"
        await kubectl.run("create", "clusterrolebinding", name, role, account)
    role = "--clusterrole=operator-repair"
    await kubectl.run("-n", SPACE, "create", "rolebinding", "repair", role, account)
    token = (await kubectl.run("-n", SPACE, "create", "token", "operator")).strip()
    config = json.loads(kubectl.kubeconfig.read_text())
    config["users"] = [{"name": each["name"], "user": {"token": token}} for each in config["users"]]
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(json.dumps(config))
    bench = Bench(kubectl, kubeconfig)
    await bench.apply(deployment("web:1"), SERVICE, QUOTA, node("node-a"), node("node-b"))
    await _until_revision(bench, "1")
    await bench.apply(deployment("web:2"))
    await _until_revision(bench, "2")
    return bench


async def _until_revision(bench: Bench, revision: str) -> None:
    """Until the controllers made a set of that revision, and its pods are there."""
    async with asyncio.timeout(SETTLED_S_MAX):
        while True:
            sets = await bench.kubectl.read("-n", SPACE, "replicaset")
            notes = {
                each["metadata"]["annotations"]["deployment.kubernetes.io/revision"]
                for each in sets
            }
            if revision in notes and await bench.kubectl.read("-n", SPACE, "pod"):
                return
            await SystemClock().sleep(0.2)


def image_of(item: Object) -> str:
    """The image of its only container."""
    image: str = item["spec"]["template"]["spec"]["containers"][0]["image"]
    return image


async def test_a_rollout_is_undone_and_the_undo_as_well(bench: Bench) -> None:
    result = await bench.do("undo_rollout", f"{SPACE}/deployment/web")
    assert result.exit_code == 0, result.stderr
    assert image_of(await bench.read("deployment", "web")) == "web:1"
    await _until_revision(bench, "3")
    assert result.undo is not None
    back = await bench.do(result.undo.tool, **_arguments(result))
    assert back.exit_code == 0, back.stderr
    assert image_of(await bench.read("deployment", "web")) == "web:2"


def _arguments(result: Result) -> dict[str, Any]:
    assert result.undo is not None
    return dict(result.undo.arguments)


async def test_a_service_gets_back_what_was_applied_and_keeps_its_node_port(bench: Bench) -> None:
    before = (await bench.read("service", "web"))["spec"]
    patch = json.dumps({"spec": {"selector": {"app": "site"}}})
    await bench.kubectl.run("-n", SPACE, "patch", "service", "web", "-p", patch)
    result = await bench.do("restore_service", f"{SPACE}/service/web")
    assert result.exit_code == 0, result.stderr
    assert (await bench.read("service", "web"))["spec"] == before
    back = await bench.do(result.undo.tool if result.undo else "", **_arguments(result))
    assert back.exit_code == 0, back.stderr
    assert (await bench.read("service", "web"))["spec"]["selector"] == {"app": "site"}


async def test_a_workload_scaled_to_zero_gets_its_number_back(bench: Bench) -> None:
    await bench.kubectl.run("-n", SPACE, "scale", "deploy/web", "--replicas=0")
    async with asyncio.timeout(SETTLED_S_MAX):
        while await bench.kubectl.read("-n", SPACE, "pod"):
            await SystemClock().sleep(0.2)
    result = await bench.do("scale_workload", f"{SPACE}/deployment/web")
    assert result.exit_code == 0, result.stderr
    assert (await bench.read("deployment", "web"))["spec"]["replicas"] == 2


async def test_limits_quotas_restarts_and_nodes(bench: Bench) -> None:
    web, quota = f"{SPACE}/deployment/web", f"{SPACE}/resourcequota/limits"
    for name, target, more in (
        ("set_memory_limit", web, {"container": "web", "memory": "128Mi"}),
        ("set_quota", quota, {"resource": "pods", "amount": "12"}),
        ("cordon_node", "node/node-a", {}),
    ):
        result = await bench.do(name, target, **more)
        assert result.exit_code == 0, (name, result.stderr)
        back = await bench.do(result.undo.tool if result.undo else "", **_arguments(result))
        assert back.exit_code == 0, (name, back.stderr)
    restart = await bench.do("restart_rollout", web)
    assert restart.exit_code == 0, restart.stderr


async def test_a_pod_that_is_not_ready_is_deleted_and_replaced(bench: Bench) -> None:
    # One that is not rolled out meanwhile, which deletes pods as well.
    text = json.dumps(deployment("web:1")).replace('"web"', '"stuck"')
    await bench.apply(json.loads(text))
    async with asyncio.timeout(SETTLED_S_MAX):
        while len(pods := await bench.kubectl.read("-n", SPACE, "pod", "-l", "app=stuck")) < 2:
            await SystemClock().sleep(0.2)
    name = pods[0]["metadata"]["name"]
    result = await bench.do("delete_pod", f"{SPACE}/deployment/stuck", pod=name)
    assert result.exit_code == 0, result.stderr
    gone = await bench.kubectl.run("-n", SPACE, "get", "pod", name, must=False)
    assert gone == ""


async def test_a_failed_job_is_run_once_more_and_only_once(bench: Bench) -> None:
    pod = {"restartPolicy": "Never", "containers": [{"name": "x", "image": "x"}]}
    await bench.apply(
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "import"},
            "spec": {"backoffLimit": 1, "activeDeadlineSeconds": 1, "template": {"spec": pod}},
        }
    )
    failed = ("-n", SPACE, "wait", "--for=condition=Failed", "job/import", "--timeout=60s")
    await bench.kubectl.run(*failed)
    result = await bench.do("rerun_job", f"{SPACE}/job/import")
    assert result.exit_code == 0, result.stderr
    assert await bench.read("job", "import-rerun")
    again = await bench.do("rerun_job", f"{SPACE}/job/import")
    assert "already exists" in again.stderr


async def test_what_was_applied_by_the_server_is_left_to_its_owner(bench: Bench) -> None:
    item = deployment("web:9")
    item["metadata"]["name"] = "owned"
    apply = ("apply", "--server-side", "--field-manager=shop-pipeline", "-f", "-")
    await bench.kubectl.run("-n", SPACE, *apply, text=json.dumps(item))
    result = await bench.do("scale_workload", f"{SPACE}/deployment/owned", replicas=3)
    assert "shop-pipeline applied spec.replicas" in result.stderr
    assert "+ spec.replicas: 3" in result.stderr


async def test_the_account_may_do_what_its_roles_say_and_nothing_else(bench: Bench) -> None:
    granted: dict[str, set[tuple[str, str, str]]] = {"": set(), SPACE: set()}
    for name, spaces in (
        ("observe", ("", SPACE)),
        ("repair-nodes", ("", SPACE)),
        ("repair", (SPACE,)),
    ):
        text = (files("operator_sre.subjects.kubernetes") / "roles" / f"{name}.yaml").read_text()
        for rule in yaml.safe_load(text)["rules"]:
            for group in rule.get("apiGroups", ()):
                for each in rule["resources"]:
                    for space in spaces:
                        granted[space] |= {(group, each, verb) for verb in rule["verbs"]}
    # Every account may ask about itself.
    own = {"selfsubjectaccessreviews", "selfsubjectrulesreviews", "selfsubjectreviews"}
    api = open_api(str(bench.kubeconfig), "")
    try:
        for space, expected in granted.items():
            found = set()
            for group, resource in await _resources(bench.kubectl):
                if resource in own:
                    continue
                for verb in VERBS:
                    plural, _, part = resource.partition("/")
                    asked = {"group": group, "resource": plural, "verb": verb}
                    asked |= {"subresource": part} if part else {}
                    asked |= {"namespace": space or "default"}
                    review = {"spec": {"resourceAttributes": asked}}
                    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
                    answer = json.loads(await api.change("POST", path, review))
                    if answer["status"]["allowed"]:
                        found.add((group, resource, verb))
            assert found == expected, space
    finally:
        await api.close()


async def _resources(kubectl: Kubectl) -> list[tuple[str, str]]:
    """Every resource and part of one that the server has."""
    found = []
    groups = json.loads(await kubectl.run("get", "--raw", "/apis"))["groups"]
    paths = {"/api/v1": ""}
    paths |= {f"/apis/{each['preferredVersion']['groupVersion']}": each["name"] for each in groups}
    for path, group in paths.items():
        listed = json.loads(await kubectl.run("get", "--raw", path))["resources"]
        found += [(group, each["name"]) for each in listed]
    return [*found, ("", "pods/eviction")]
