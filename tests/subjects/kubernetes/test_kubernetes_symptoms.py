"""What is a symptom and what is a cluster at work, on objects as the real rig had them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from operator_sre.subjects.kubernetes.analysis import explain, find_symptoms
from operator_sre.subjects.kubernetes.facts import facts_of
from operator_sre.subjects.kubernetes.routes_live import count_endpoints
from operator_sre.subjects.kubernetes.store import ObjectStore
from operator_sre.subjects.kubernetes.symptoms import Symptom, pod_symptoms
from tests.subjects.kubernetes.live_objects import (
    Object,
    event,
    moment,
    named,
    pod_spec,
    running,
    waiting,
    workload,
)

REFUSED = "Readiness probe failed: Get: dial tcp 10.1.0.9:{0}: connect: connection refused"
SILENT = "Readiness probe failed: HTTP probe failed with statuscode: 404"
KILLED = "Liveness probe failed: HTTP probe failed with statuscode: 500"


def pod_of(status: Object) -> Object:
    """A pod of `page` with this status."""
    return {"metadata": named("page-1"), "spec": pod_spec("page"), "status": status}


def unready(up_s: float) -> Object:
    """The status of a container that has run for so long and was never ready."""
    status = running("page", up_s=up_s)
    status["conditions"][1] |= {"status": "False"}
    status["containerStatuses"][0]["ready"] = False
    return status


def symptoms_of(pod: Object, *probes: str) -> list[str]:
    """The invariants that it breaks."""
    found = pod_symptoms(pod, datetime.now(UTC), lambda _: ("deployment", "page"), probes)
    return [each.invariant for each in found]


@pytest.mark.parametrize(
    ("up_s", "message", "expected"),
    [
        (10.0, REFUSED.format(8080), []),
        (10.0, REFUSED.format(9999), ["pods_ready"]),
        (10.0, SILENT, ["pods_ready"]),
        (70.0, REFUSED.format(8080), ["pods_ready"]),
    ],
)
def test_a_container_that_nothing_listens_in_yet_has_a_minute(
    up_s: float, message: str, expected: list[str]
) -> None:
    assert symptoms_of(pod_of(unready(up_s)), message) == expected


@pytest.mark.parametrize(("probes", "expected"), [((KILLED,), ["containers_run"]), ((), [])])
def test_a_first_restart_counts_where_a_probe_killed_the_container(
    probes: tuple[str, ...], expected: list[str]
) -> None:
    status = running("page", up_s=5.0)
    ended = {"terminated": {"exitCode": 143, "reason": "Error", "finishedAt": moment(6)}}
    status["containerStatuses"][0] |= {"restartCount": 1, "lastState": ended}
    assert symptoms_of(pod_of(status), *probes) == expected


def test_an_endpoint_without_the_port_that_a_service_names_leads_nowhere() -> None:
    ready = {"addresses": ["10.1.0.9"], "conditions": {"ready": True}}
    portless = [{"endpoints": [ready], "ports": []}]
    assert count_endpoints(portless, ports=True) == ()
    assert len(count_endpoints(portless, ports=False)) == 1


def find(*objects: tuple[str, Object]) -> tuple[ObjectStore, list[Symptom]]:
    """A store with these objects, and what is wrong in it."""
    store = ObjectStore(facts_of)
    for kind, item in objects:
        store.put(kind, item, received=0.0)
        store.listed.add(kind)
    store.listed |= {"endpointslice", "event"}
    return store, find_symptoms(store, datetime.now(UTC), {})


@pytest.mark.parametrize("port", [53, 80])
def test_a_name_service_without_pods_is_called_by_every_pod(port: int) -> None:
    objects = [pair for pair in workload("coredns", replicas=0) if pair[0] != "endpointslice"]
    for kind, item in objects:
        if kind == "service":
            item["metadata"]["name"] = "kube-dns"
            item["spec"]["ports"] = [{"port": port, "targetPort": 8080}]
    store, symptoms = find(*objects)
    assert [each.name for each in symptoms] == (["kube-dns"] if port == 53 else [])
    explained = explain(store, symptoms, datetime.now(UTC), {})
    roots = {(each.cause, each.kind, each.name) for each in explained.values()}
    assert roots == ({("scaled_to_zero", "deployment", "coredns")} if port == 53 else set())


@pytest.mark.parametrize("refused", [True, False])
def test_a_claim_that_was_refused_gets_no_time(refused: bool) -> None:
    claim = {
        "metadata": named("data", age_s=1.0),
        "spec": {"storageClassName": "fast"},
        "status": {"phase": "Pending"},
    }
    reason = "ProvisioningFailed" if refused else "WaitForFirstConsumer"
    about = event("PersistentVolumeClaim", "data", reason, 'storageclass "fast" not found')
    _, symptoms = find(("persistentvolumeclaim", claim), ("event", about))
    assert [each.invariant for each in symptoms] == (["volumes_bound"] if refused else [])


@pytest.mark.parametrize("early", [True, False])
def test_an_object_that_the_kubelet_does_not_have_yet_is_no_failed_mount(early: bool) -> None:
    why = "failed to sync configmap cache: timed out" if early else "path /data does not exist"
    message = f'MountVolume.SetUp failed for volume "data" : {why}'
    status = waiting("page", "RunContainerError", 'exec: "/serve": no such file or directory')
    objects = list(workload("page", pod=status))
    pod = next(item["metadata"]["name"] for kind, item in objects if kind == "pod")
    store, symptoms = find(*objects, ("event", event("Pod", pod, "FailedMount", message)))
    explained = explain(store, symptoms, datetime.now(UTC), {})
    causes = {each.cause for each in explained.values()}
    assert causes == ({"wrong_command"} if early else {"mount_failed"})
