"""A cluster in which every tool has something to repair, and the tools that do it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import httpx2
import pytest

from operator_protocols.domain.action import Argument, Result
from operator_protocols.domain.tool import Prepared
from operator_protocols.ports import Job, SubjectSettings
from operator_sre.clock import SystemClock
from operator_sre.subjects.kubernetes.connection import HttpApi
from operator_sre.subjects.kubernetes.tools import RepairTool, kubernetes_tools
from tests.subjects.kubernetes.api_server import ApiServer, Change
from tests.subjects.kubernetes.live_objects import NAMESPACE, START, named, node

Object = dict[str, Any]
WEB = f"{NAMESPACE}/deployment/web"
WORDS = {"app": "web"}


def at(seconds: float) -> str:
    """A time as the API writes it."""
    return (START + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def template(image: str, memory: str = "64Mi") -> Object:
    """A pod template."""
    resources = {"limits": {"memory": memory}, "requests": {"memory": "32Mi"}}
    container = {"name": "web", "image": image, "resources": resources}
    return {"metadata": {"labels": dict(WORDS)}, "spec": {"containers": [container]}}


def replica_set(revision: int, image: str, *, ready: int, made_s: float) -> Object:
    """A revision of the Deployment `web`."""
    pods = template(image)
    pods["metadata"]["labels"]["pod-template-hash"] = f"h{revision}"
    owner = {"kind": "Deployment", "apiVersion": "apps/v1", "name": "web", "uid": "uid-web"}
    return {
        "metadata": {
            **named(f"web-h{revision}", ownerReferences=[{**owner, "controller": True}]),
            "creationTimestamp": at(made_s),
            "annotations": {"deployment.kubernetes.io/revision": str(revision)},
        },
        "spec": {"replicas": ready, "template": pods},
        "status": {"readyReplicas": ready},
    }


def workload(kind: str, name: str, uid: str) -> Object:
    """A Deployment, StatefulSet or DaemonSet of two replicas."""
    notes = {"deployment.kubernetes.io/revision": "2"} if kind == "deployment" else {}
    spec: Object = {"template": template("web:2"), "selector": {"matchLabels": dict(WORDS)}}
    spec |= {} if kind == "daemonset" else {"replicas": 2}
    return {"metadata": named(name, uid=uid, annotations=notes), "spec": spec, "status": {}}


def service() -> Object:
    """A service that was applied well and then given another selector."""
    ports = [{"name": "http", "port": 80, "targetPort": 8080}]
    applied = {"spec": {"selector": dict(WORDS), "ports": ports}}
    note = {"kubectl.kubernetes.io/last-applied-configuration": json.dumps(applied)}
    live = [{**ports[0], "protocol": "TCP", "nodePort": 30080}]
    return {
        "metadata": named("web", uid="uid-service", annotations=note),
        "spec": {"selector": {"app": "site"}, "ports": live, "clusterIP": "10.96.0.7"},
    }


def pod(name: str, *, ready: bool, node_name: str = "node-b", **spec: Any) -> Object:
    """A pod of the Deployment `web`."""
    owner = {"kind": "ReplicaSet", "apiVersion": "apps/v1", "name": "web-h2", "controller": True}
    status = "True" if ready else "False"
    return {
        "metadata": named(name, labels=dict(WORDS), ownerReferences=[owner]),
        "spec": {"nodeName": node_name, "containers": [], **spec},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": status}]},
    }


def job() -> Object:
    """A Job that failed."""
    labels = {"batch.kubernetes.io/controller-uid": "u", "job-name": "import", "app": "import"}
    return {
        "metadata": named("import", uid="uid-job"),
        "spec": {
            "backoffLimit": 2,
            "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": []}},
        },
        "status": {"conditions": [{"type": "Failed", "status": "True"}]},
    }


def cluster() -> ApiServer:
    """Everything that a tool could repair."""
    server = ApiServer()
    server.put("deployment", workload("deployment", "web", "uid-web"))
    server.put("replicaset", replica_set(1, "web:1", ready=1, made_s=0))
    server.put("replicaset", replica_set(2, "web:2", ready=0, made_s=3000))
    server.put("statefulset", workload("statefulset", "store", "uid-store"))
    server.put("daemonset", workload("daemonset", "agent", "uid-agent"))
    idle = workload("deployment", "idle", "uid-idle")
    idle["spec"]["replicas"] = 0
    server.put("deployment", idle)
    for count, seconds in ((3, 10), (5, 20)):
        message = f"Scaled down replica set idle-h1 from {count} to 0"
        server.put("event", {"metadata": named(f"idle.{seconds}"), "message": message})
    dns = workload("deployment", "coredns", "uid-dns")
    dns["metadata"]["namespace"] = "kube-system"
    server.put("deployment", dns)
    server.put("service", service())
    server.put("pod", pod("web-1", ready=True))
    server.put("pod", pod("web-2", ready=False, node_name="node-a"))
    server.put("job", job())
    quota = {"spec": {"hard": {"pods": "10"}}, "status": {"used": {"pods": "8"}}}
    server.put("resourcequota", {"metadata": named("limits"), **quota})
    for name in ("node-a", "node-b"):
        server.put("node", node(name))
    cordoned = node("node-c")
    cordoned["spec"]["unschedulable"] = True
    server.put("node", cordoned)
    return server


@dataclass(frozen=True)
class Case:
    """A call that is right in `cluster`, and its object; `declared` fields have an owner."""

    tool: str
    arguments: Mapping[str, Argument]
    kind: str
    key: tuple[str, str]
    declared: bool = True

    @property
    def id(self) -> str:
        """Its name in the output of the tests."""
        return f"{self.tool}-{self.key[1]}"


def case(tool: str, kind: str, name: str, *, declared: bool = True, **arguments: Argument) -> Case:
    """A case at a target of the usual namespace, or of none."""
    space = "" if kind == "node" else NAMESPACE
    target = f"{space}/{kind}/{name}" if space else f"{kind}/{name}"
    return Case(tool, {"target": target, **arguments}, kind, (space, name), declared)


CASES = (
    case("undo_rollout", "deployment", "web"),
    case("restart_rollout", "deployment", "web", declared=False),
    case("restart_rollout", "statefulset", "store", declared=False),
    case("restart_rollout", "daemonset", "agent", declared=False),
    Case(
        "restart_dns",
        {"target": "kube-system/deployment/coredns"},
        "deployment",
        ("kube-system", "coredns"),
        declared=False,
    ),
    case("scale_workload", "deployment", "idle"),
    case("scale_workload", "statefulset", "store", replicas=3),
    case("restore_service", "service", "web"),
    case("cordon_node", "node", "node-a", declared=False),
    case("drain_node", "node", "node-a", declared=False),
    case("uncordon_node", "node", "node-c", declared=False),
    Case("delete_pod", {"target": WEB, "pod": "web-2"}, "pod", (NAMESPACE, "web-2")),
    case("rerun_job", "job", "import"),
    case("set_memory_limit", "deployment", "web", container="web", memory="128Mi"),
    case("set_quota", "resourcequota", "limits", resource="pods", amount="15"),
)
every_case = pytest.mark.parametrize("given", CASES, ids=[each.id for each in CASES])
PATCHED = [each for each in CASES if each.declared and each.tool not in ("delete_pod", "rerun_job")]


@dataclass
class Hands:
    """The tools of a cluster."""

    server: ApiServer
    tools: Mapping[str, RepairTool]

    async def prepare(self, given: Case) -> Prepared:
        """What the proposal adds."""
        return await self.tools[given.tool].prepare(given.arguments)

    async def call(self, given: Case, prepared: Prepared) -> Result:
        """Do it as it was approved."""
        arguments = {**given.arguments, **prepared.arguments}
        return await self.tools[given.tool].call(arguments, Job(timeout_s=20))

    async def do(self, given: Case) -> Result:
        """Propose and do it."""
        return await self.call(given, await self.prepare(given))

    def kept(self) -> list[Change]:
        """The requests that were no dry run."""
        return [each for each in self.server.changes if not each.dry]


class KeptApi(HttpApi):
    """The API on a connection that outlives a call."""

    async def close(self) -> None:
        """Keep it."""


@asynccontextmanager
async def hands(server: ApiServer, **options: Any) -> AsyncIterator[Hands]:
    """The tools, on the stand-in."""
    async with (
        server.serve() as address,
        httpx2.AsyncClient(base_url=address, verify=False) as client,
    ):

        def connect(kubeconfig: str, context: str) -> HttpApi:
            return KeptApi(client)

        settings = SubjectSettings("c", lambda: (), SystemClock(), 10.0, options)
        tools = kubernetes_tools(settings, connect=connect)
        assert all(isinstance(each, RepairTool) for each in tools)
        yield Hands(server, {each.spec.name: each for each in tools})  # type: ignore[misc]


def found(server: ApiServer, given: Case) -> Object:
    """The object of a case."""
    return server.objects[given.kind][given.key]
