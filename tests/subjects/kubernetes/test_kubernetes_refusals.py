"""A repair that is not sure is refused, with the reason, before anything is changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from operator_protocols.domain.action import Argument
from operator_protocols.domain.tool import Prepared
from tests.subjects.kubernetes.api_server import ApiServer
from tests.subjects.kubernetes.live_objects import NAMESPACE, named
from tests.subjects.kubernetes.tool_bench import WEB, Case, Object, at, cluster, hands, pod

pytestmark = pytest.mark.asyncio

Mutate = Callable[[ApiServer], None]


def _edit(
    kind: str, name: str, change: Callable[[Object], object], space: str = NAMESPACE
) -> Mutate:
    def mutate(server: ApiServer) -> None:
        change(server.objects[kind][space, name])

    return mutate


def _no_good_revision(server: ApiServer) -> None:
    old = server.objects["replicaset"][NAMESPACE, "web-h1"]
    old["status"] = {}
    old["metadata"]["creationTimestamp"] = at(2990)


def _autoscaler(server: ApiServer) -> None:
    target = {"kind": "Deployment", "name": "idle"}
    server.put(
        "horizontalpodautoscaler", {"metadata": named("h"), "spec": {"scaleTargetRef": target}}
    )


def _forget(server: ApiServer) -> None:
    server.objects["event"].clear()


def _volume(**volume: Any) -> Mutate:
    return lambda server: server.put(
        "pod", pod("web-2", ready=False, node_name="node-a", volumes=[volume])
    )


def _lonely(server: ApiServer) -> None:
    for name in ("node-b", "node-c"):
        server.delete("node", name)


def _complete(server: ApiServer) -> None:
    """The present revision was rolled out long ago: it has worked."""
    condition = {
        "type": "Progressing",
        "status": "True",
        "reason": "NewReplicaSetAvailable",
        "lastUpdateTime": at(0),
    }
    server.objects["deployment"][NAMESPACE, "web"]["status"] = {"conditions": [condition]}


def _other_data(server: ApiServer) -> None:
    """The earlier revision has another volume."""
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "old"}}
    pods = server.objects["replicaset"][NAMESPACE, "web-h1"]["spec"]["template"]["spec"]
    pods["volumes"] = [volume]


def _drained(server: ApiServer) -> None:
    server.objects["node"]["", "node-a"]["spec"]["unschedulable"] = True
    server.delete("pod", "web-2", NAMESPACE)


REFUSED: tuple[tuple[str, str, Mapping[str, Argument], Mutate | None, str], ...] = (
    ("undo_rollout", WEB, {}, _no_good_revision, "known to have worked"),
    ("undo_rollout", WEB, {"revision": 9}, None, "no revision 9"),
    ("undo_rollout", WEB, {}, _complete, "something else has changed"),
    ("undo_rollout", WEB, {}, _other_data, "which data is right"),
    ("undo_rollout", WEB, {"revision": 1}, _other_data, "which data is right"),
    ("drain_node", "node/node-a", {}, _drained, "no pod has to leave"),
    (
        "undo_rollout",
        WEB,
        {},
        _edit("deployment", "web", lambda item: item["spec"].update(paused=True)),
        "paused",
    ),
    (
        "undo_rollout",
        WEB,
        {},
        _edit("deployment", "web", lambda item: item["metadata"].update(deletionTimestamp=at(0))),
        "being deleted",
    ),
    ("undo_rollout", f"{NAMESPACE}/deployment/none", {}, None, "not found"),
    ("undo_rollout", f"{NAMESPACE}/statefulset/store", {}, None, "is no deployment"),
    ("undo_rollout", "deployment/web", {}, None, "lacks its namespace"),
    ("undo_rollout", "kube-system/deployment/coredns", {}, None, "changes nothing in"),
    ("undo_rollout", "../deployment/web", {}, None, "not found"),
    ("restart_rollout", "kube-system/deployment/coredns", {}, None, "changes nothing in"),
    ("restart_rollout", f"{NAMESPACE}/deployment/idle", {}, None, "has no replicas"),
    ("restart_dns", WEB, {}, None, "is not the DNS"),
    ("scale_workload", f"{NAMESPACE}/deployment/idle", {}, _autoscaler, "autoscaler h scales"),
    ("scale_workload", f"{NAMESPACE}/deployment/idle", {}, _forget, "not known"),
    ("scale_workload", WEB, {}, None, "was not scaled to zero"),
    ("scale_workload", WEB, {"replicas": 2}, None, "nothing to change"),
    (
        "restore_service",
        f"{NAMESPACE}/service/web",
        {},
        lambda server: server.objects["pod"].clear(),
        "selects no pod",
    ),
    ("restore_service", f"{NAMESPACE}/service/web", {"which": "before"}, None, "not known"),
    (
        "restore_service",
        f"{NAMESPACE}/service/web",
        {},
        _edit("service", "web", lambda item: item["metadata"].pop("annotations")),
        "not known",
    ),
    ("cordon_node", "node/node-a", {}, _lonely, "No other node"),
    ("drain_node", "node/node-a", {}, _lonely, "No other node"),
    ("drain_node", "node/node-a", {}, _volume(name="x", emptyDir={}), "would lose"),
    ("drain_node", "node/node-a", {}, _volume(name="x", hostPath={}), "may be bound"),
    ("drain_node", "node/node-a", {}, _volume(name="x", persistentVolumeClaim={}), "may be bound"),
    (
        "drain_node",
        "node/node-a",
        {},
        _edit("pod", "web-2", lambda item: item["metadata"].pop("ownerReferences")),
        "Nothing replaces",
    ),
    (
        "uncordon_node",
        "node/node-c",
        {},
        _edit("node", "node-c", lambda item: item["status"].update(conditions=[]), ""),
        "is not ready",
    ),
    (
        "uncordon_node",
        "node/node-c",
        {},
        _edit("node", "node-c", lambda item: item["spec"].update(taints=[{"key": "broken"}]), ""),
        "tainted as well: broken",
    ),
    ("delete_pod", WEB, {"pod": "web-1"}, None, "is ready"),
    ("delete_pod", f"{NAMESPACE}/statefulset/store", {"pod": "web-2"}, None, "does not belong"),
    (
        "delete_pod",
        WEB,
        {"pod": "web-2"},
        _edit("pod", "web-2", lambda item: item["metadata"].pop("ownerReferences")),
        "does not belong",
    ),
    (
        "rerun_job",
        f"{NAMESPACE}/job/import",
        {},
        _edit("job", "import", lambda item: item["spec"].update(backoffLimit=0)),
        "not to be repeated",
    ),
    (
        "rerun_job",
        f"{NAMESPACE}/job/import",
        {},
        _edit("job", "import", lambda item: item["status"].clear()),
        "has not failed",
    ),
    (
        "rerun_job",
        f"{NAMESPACE}/job/import",
        {},
        lambda server: server.put("job", {"metadata": named("import-rerun"), "spec": {}}),
        "already exists",
    ),
    ("set_memory_limit", WEB, {"container": "web", "memory": "1Gi"}, None, "four times"),
    ("set_memory_limit", WEB, {"container": "web", "memory": "16Mi"}, None, "requests more"),
    ("set_memory_limit", WEB, {"container": "db", "memory": "96Mi"}, None, "has no container"),
    ("set_memory_limit", WEB, {"container": "web", "memory": "lots"}, None, "not an amount"),
    (
        "set_quota",
        f"{NAMESPACE}/resourcequota/limits",
        {"resource": "pods", "amount": "21"},
        None,
        "more than twice",
    ),
    (
        "set_quota",
        f"{NAMESPACE}/resourcequota/limits",
        {"resource": "pods", "amount": "7"},
        None,
        "is used",
    ),
    (
        "set_quota",
        f"{NAMESPACE}/resourcequota/limits",
        {"resource": "secrets", "amount": "7"},
        None,
        "has no limit",
    ),
)


@pytest.mark.parametrize(
    ("tool", "target", "more", "mutate", "words"),
    REFUSED,
    ids=[f"{each[0]}-{each[-1]}" for each in REFUSED],
)
async def test_a_tool_refuses_what_it_is_not_sure_of(
    tool: str, target: str, more: Mapping[str, Argument], mutate: Mutate | None, words: str
) -> None:
    server = cluster()
    if mutate is not None:
        mutate(server)
    given = Case(tool, {"target": target, **more}, "", ("", ""))
    async with hands(server) as ours:
        prepared = await ours.prepare(given)
        result = await ours.call(given, Prepared())
    assert len(prepared.flaws) == 1
    assert words in prepared.flaws[0]
    assert words in result.stderr
    assert result.exit_code != 0
    assert ours.kept() == []
