"""A live cluster over HTTP: lists, watches, what opens a finding, and what is blamed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping

import pytest

from operator_protocols.domain.health import Health
from operator_protocols.ports import SubjectSettings
from operator_sre.clock import SystemClock
from operator_sre.monitor import findings_of
from operator_sre.subjects.kubernetes.connection import Api
from operator_sre.subjects.kubernetes.subject import KubernetesCluster
from tests.subjects.kubernetes.api_server import fill
from tests.subjects.kubernetes.live_objects import (
    NAMESPACE,
    event,
    moment,
    named,
    node,
    running,
    service,
    waiting,
    workload,
)
from tests.subjects.kubernetes.watching import (
    TIMEOUT_S,
    UNSETTLED,
    Object,
    bakery,
    blamed,
    broken,
    plugin_targets,
    until,
    watching,
)

pytestmark = pytest.mark.asyncio


class Seconds(SystemClock):
    """A clock that shows what it is told."""

    now_s = 0.0

    def monotonic(self) -> float:
        """The time that was set."""
        return self.now_s


async def test_a_healthy_cluster_has_no_broken_invariant() -> None:
    async with watching(bakery()) as subject:
        seen = await subject.observe()
        assert broken(subject, seen) == set()
        assert {"cluster", "node/one", "bakery/deployment/page", "bakery/service/orders"} <= {
            each.target for each in seen.seen
        }


async def test_secrets_are_never_asked_for() -> None:
    server = bakery()
    async with watching(server) as subject:
        await subject.observe()
    assert server.requests
    assert not [path for path in server.requests if "secret" in path]


async def test_a_change_reaches_the_next_observation_by_the_watch() -> None:
    server = bakery()
    async with watching(server) as subject:
        await subject.observe()
        lists = len([path for path in server.requests if "watch=true" not in path])
        fill(server, workload("orders", status=UNSETTLED, pod=_crashing("orders")))
        seen = await until(subject, lambda each: bool(blamed(each)))
        assert blamed(seen) == {"bakery/deployment/orders": "crash"}
        assert ("containers_run", "bakery/deployment/orders") in broken(subject, seen)
        again = len(
            [path for path in server.requests if "watch=true" not in path and "/log" not in path]
        )
        asked = [path for path in server.requests if path.startswith("/readyz")]
        assert again - len(asked) == lists - 1


async def test_a_watch_that_is_too_old_lists_again_and_forgets_what_is_gone() -> None:
    server = bakery()
    async with watching(server) as subject:
        await subject.observe()
        server.forgets = True
        server.drop_watches()
        server.objects["deployment"].pop((NAMESPACE, "ledger"))
        seen = await until(
            subject, lambda each: "bakery/deployment/ledger" not in {s.target for s in each.seen}
        )
        assert broken(subject, seen) == set()


async def test_what_we_may_not_read_is_named_and_the_rest_is_observed() -> None:
    server = bakery()
    server.forbidden = {"poddisruptionbudget", "node"}
    async with watching(server) as subject:
        seen = await subject.observe()
        assert broken(subject, seen) == set()
        assert seen.of("cluster").readings["not_watched"] == "nodes, poddisruptionbudgets"


def _crashing(app: str) -> Object:
    return waiting(app, "CrashLoopBackOff", exitCode=3, reason="Error")


def _pending(message: str) -> Object:
    scheduled = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": message,
    }
    return {"phase": "Pending", "conditions": [scheduled]}


def _unready(up_s: float, since_s: float) -> Object:
    status = running("orders", up_s=up_s)
    status["containerStatuses"][0]["ready"] = False
    status["conditions"][1] = {
        "type": "Ready",
        "status": "False",
        "lastTransitionTime": moment(since_s),
    }
    return status


SET = "orders-5d8f9c7b6d"
POD = f"{SET}-00000"
Rows = Callable[[], Iterable[tuple[str, Object]]]
Case = tuple[str, Rows, tuple[str, str], tuple[str, str]]
CASES: list[Case] = [
    (
        "image",
        lambda: [
            *workload(
                "orders",
                status=UNSETTLED,
                pod=waiting("orders", "ImagePullBackOff", "manifest for x:9 not found"),
            )
        ],
        ("images_pulled", "bakery/deployment/orders"),
        ("bakery/deployment/orders", "image_reference"),
    ),
    (
        "configmap",
        lambda: [
            *workload(
                "orders",
                status=UNSETTLED,
                pod=waiting("orders", "CreateContainerConfigError", 'configmap "menu" not found'),
            )
        ],
        ("containers_start", "bakery/deployment/orders"),
        ("bakery/deployment/orders", "configmap_missing"),
    ),
    (
        "memory",
        lambda: [
            *workload(
                "orders",
                status=UNSETTLED,
                pod=waiting("orders", "CrashLoopBackOff", exitCode=137, reason="OOMKilled"),
            )
        ],
        ("containers_run", "bakery/deployment/orders"),
        ("bakery/deployment/orders", "oom_killed"),
    ),
    (
        "capacity",
        lambda: [
            *workload(
                "orders",
                status=UNSETTLED,
                pod=_pending("0/2 nodes are available: 2 Insufficient memory."),
                place="",
            ),
            (
                "event",
                event("Pod", POD, "FailedScheduling", "0/2 nodes: 2 Insufficient memory."),
            ),
        ],
        ("pods_scheduled", "bakery/deployment/orders"),
        ("bakery/deployment/orders", "memory_capacity"),
    ),
    (
        "readiness",
        lambda: [
            *workload("orders", status=UNSETTLED, pod=_unready(900, 1)),
            (
                "event",
                event(
                    "Pod",
                    POD,
                    "Unhealthy",
                    "Readiness probe failed: HTTP probe failed with statuscode: 404",
                ),
            ),
        ],
        ("pods_ready", "bakery/deployment/orders"),
        ("bakery/deployment/orders", "readiness_probe_path"),
    ),
    (
        "quota",
        lambda: [
            *[
                row
                for row in workload("orders", status={**UNSETTLED, "availableReplicas": 0})
                if row[0] != "pod"
            ],
            (
                "event",
                event(
                    "ReplicaSet",
                    SET,
                    "FailedCreate",
                    'pods "x" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2,'
                    " limited: pods=2",
                ),
            ),
        ],
        ("pods_admitted", "bakery/deployment/orders"),
        ("namespace/bakery", "pod_quota"),
    ),
    (
        "selector",
        lambda: service("orders", selector={"app": "order"}),
        ("services_backed", "bakery/service/orders"),
        ("bakery/service/orders", "service_selector"),
    ),
    (
        "node",
        lambda: [
            ("node", node("one", ready=False, message="Kubelet stopped posting node status."))
        ],
        ("nodes_ready", "node/one"),
        ("node/one", "kubelet_down"),
    ),
]


@pytest.mark.parametrize(
    ("objects", "finding", "root"),
    [pytest.param(*case[1:], id=case[0]) for case in CASES],
)
async def test_a_broken_object_is_found_and_blamed(
    objects: Rows, finding: tuple[str, str], root: tuple[str, str]
) -> None:
    server = bakery()
    server.objects["pod"].pop((NAMESPACE, POD))
    fill(server, [row for row in workload("orders") if row[0] == "pod"])
    if "quota" in str(root):
        server.objects["pod"].pop((NAMESPACE, POD))
    async with watching(server) as subject:
        await subject.observe()
        fill(server, objects())
        seen = await until(subject, lambda each: finding in broken(subject, each))
        assert blamed(seen).get(root[0]) == root[1]
        others = {target for _, target in broken(subject, seen)}
        assert others == {finding[1]}


async def test_a_pod_of_a_rollout_that_is_still_starting_is_no_finding() -> None:
    server = bakery()
    for status in (
        _unready(2, 2),
        {"phase": "Pending", "conditions": []},
        waiting("orders", "ContainerCreating"),
        waiting("orders", "PodInitializing"),
    ):
        fill(server, workload("orders", status=UNSETTLED, pod=status))
        async with watching(server) as subject:
            assert broken(subject, await subject.observe()) == set()


async def test_a_completed_job_a_drained_node_and_a_scaled_workload_are_no_findings() -> None:
    server = bakery()
    owner = {"kind": "Job", "name": "bake", "controller": True}
    done = {"phase": "Succeeded", "conditions": []}
    server.put("pod", {"metadata": named("bake-x", ownerReferences=[owner]), "status": done})
    job = {"conditions": [{"type": "Complete", "status": "True"}]}
    server.put("job", {"metadata": named("bake"), "spec": {}, "status": job})
    drained = node("two")
    drained["spec"]["unschedulable"] = True
    server.put("node", drained)
    fill(server, [row for row in workload("ledger", replicas=0) if row[0] == "deployment"])
    server.delete("pod", "ledger-5d8f9c7b6d-00000", NAMESPACE)
    async with watching(server) as subject:
        assert broken(subject, await subject.observe()) == set()


async def test_the_log_of_a_crash_is_read_once_and_is_evidence() -> None:
    server = bakery()
    fill(server, workload("orders", status=UNSETTLED, pod=_crashing("orders")))
    server.logs[f"{POD}/previous"] = "FATAL: password authentication failed for user orders\n"
    async with watching(server) as subject:
        first = await subject.observe()
        await subject.observe()
        assert blamed(first) == {"bakery/deployment/orders": "credentials_rejected"}
        assert len([path for path in server.requests if "/log" in path]) == 1


async def test_a_configmap_is_kept_as_a_digest_and_key_names() -> None:
    server = bakery()
    server.put("configmap", {"metadata": named("menu"), "data": {"bread": "a-private-price"}})
    async with watching(server) as subject:
        await subject.observe()
        stored = subject.store.find("configmap", NAMESPACE, "menu")
        assert stored is not None
        assert b"a-private-price" not in stored.text
        assert b"bread" in stored.text


class SlowApi:
    """An API server that is well and takes long to list."""

    async def get(self, path: str, query: Mapping[str, str]) -> bytes:
        """Only the answer about its health."""
        if path != "/readyz":
            await asyncio.Event().wait()
        return b"ok"

    async def stream(
        self, path: str, query: Mapping[str, str], *, seconds: float
    ) -> AsyncIterator[bytes]:
        """Nothing."""
        await asyncio.Event().wait()
        yield b""

    async def close(self) -> None:
        """Nothing is open."""


async def test_a_cluster_that_is_still_being_listed_is_unknown_and_not_broken() -> None:
    settings = SubjectSettings("c", plugin_targets, SystemClock(), 0.2, {})
    subject = KubernetesCluster(settings, connect=lambda *_: SlowApi())
    try:
        found = findings_of(subject.invariants, await subject.observe())
    finally:
        await subject.close()
    judged = {each.invariant: each.health for each in found}
    assert judged["control_plane_works"] is Health.UNKNOWN


async def test_a_change_that_can_break_something_asks_for_a_check_and_a_heartbeat_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("operator_sre.subjects.kubernetes.subject.FOLLOW_S", 0.0)
    server = bakery()
    async with watching(server) as subject:
        await subject.observe()
        waiting = asyncio.ensure_future(subject.wait_change())
        received = asyncio.Event()
        for watch in subject.watches:
            # A heartbeat was read once its watch has said so.
            monkeypatch.setattr(watch, "_changed", received.set)
        spec = {"renewTime": moment(), "leaseDurationSeconds": 15}
        server.put("lease", {"metadata": named("kube-scheduler"), "spec": spec})
        for beat in (node("one"), node("one")):
            received.clear()
            server.put("node", beat)
            async with asyncio.timeout(TIMEOUT_S):
                await received.wait()
        assert not waiting.done()
        fill(server, workload("orders", status=UNSETTLED, pod=_crashing("orders")))
        async with asyncio.timeout(TIMEOUT_S):
            await waiting


async def test_what_follows_a_change_is_checked_without_another_change() -> None:
    server = bakery()
    async with watching(server) as subject:
        await subject.observe()
        fill(server, workload("orders", status=UNSETTLED, pod=_crashing("orders")))
        async with asyncio.timeout(TIMEOUT_S):
            await until(subject, lambda each: bool(blamed(each)))
            await subject.wait_change()


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (["error: dial orders:80: connection refused"] * 3, True),
        (["error: dial orders:80: connection refused"], False),
        (["served a page"] * 3, False),
    ],
)
async def test_a_port_that_no_container_declares_is_broken_where_its_callers_say_so(
    lines: list[str], found: bool
) -> None:
    server = bakery()
    ((_, routed), _) = service("orders")
    routed["spec"]["ports"] = [{"port": 80, "targetPort": 9000}]
    server.put("service", routed)
    server.logs["page-5d8f9c7b6d-00000/current"] = "\n".join(lines)
    async with watching(server) as subject:
        seen = await subject.observe()
        hit = ("services_backed", "bakery/service/orders") in broken(subject, seen)
        assert hit is found
        assert blamed(seen) == ({"bakery/service/orders": "service_port"} if found else {})
        asked = [path for path in server.requests if "/log" in path]
        assert all("/pods/page-" in path for path in asked)
        assert asked
        assert all("sinceSeconds" in path for path in asked)


async def test_no_log_of_a_healthy_pod_is_read_where_every_service_leads_to_a_port() -> None:
    server = bakery()
    async with watching(server) as subject:
        await subject.observe()
    assert not [path for path in server.requests if "/log" in path]


async def test_calls_that_failed_while_the_pods_started_say_nothing_of_a_port() -> None:
    server = bakery()
    fill(server, workload("orders", pod=running("orders", up_s=3.0)))
    ((_, routed), _) = service("orders")
    routed["spec"]["ports"] = [{"port": 80, "targetPort": 9000}]
    server.put("service", routed)
    server.logs["page-5d8f9c7b6d-00000/current"] = "error: orders: connection refused\n" * 3
    async with watching(server) as subject:
        assert broken(subject, await subject.observe()) == set()


async def test_a_slow_check_is_followed_by_one_that_finds_what_lasts() -> None:
    clock = Seconds()
    subject = KubernetesCluster(SubjectSettings("c", plugin_targets, clock, TIMEOUT_S, {}))

    async def check(begins: float, ends: float) -> bool:
        """Observe, and whether another check is to follow at once."""
        clock.now_s = begins
        with contextlib.suppress(RuntimeError):
            await subject.observe()
        clock.now_s = ends
        waiting = asyncio.ensure_future(subject.wait_change())
        for _ in range(3):
            await asyncio.sleep(0)
        follows = waiting.done()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        return follows

    def unable(kubeconfig: str, context: str) -> Api:
        raise RuntimeError("there is no cluster")

    subject._connect = unable
    assert not await check(50.0, 51.0)
    clock.now_s = 100.0
    subject._note_change()
    assert await check(101.0, 112.0), "what breaks only when it lasts was not seen yet"
    assert not await check(112.0, 113.0)
