"""Every class of failure in a cluster of our own: the right cause at the right object."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from operator_protocols.domain.system_record import Reading
from operator_sre.subjects.kubernetes.causes import known_causes, name_among
from operator_sre.subjects.kubernetes.objects import build_snapshot
from operator_sre.subjects.kubernetes.reader import NAMED_MIN, rank
from operator_sre.subjects.kubernetes.snapshot import Snapshot, parse_quantity
from tests.subjects.kubernetes.bakery import NAMESPACE, Cluster

Change = Callable[[Cluster], object]


def _snapshot(cluster: Cluster, *readings: Reading) -> Snapshot:
    return build_snapshot(
        cluster.objects.values(),
        logs=cluster.logs,
        units=cluster.units,
        reached=cluster.reached,
        declared=cluster.declared,
        readings=readings,
    )


def _named(snapshot: Snapshot) -> list[tuple[str, str]]:
    return [(each.cause, each.target) for each in rank(snapshot) if each.weight >= NAMED_MIN]


def _node(cluster: Cluster, name: str) -> dict[str, object]:
    spec: dict[str, object] = cluster.objects["Node", name]["spec"]
    return spec


def _taint_all(cluster: Cluster) -> None:
    for name in ("one", "two"):
        _node(cluster, name)["taints"] = [{"key": "oven", "value": "hot", "effect": "NoSchedule"}]
    cluster.unplace("page")


def _ask_for(cluster: Cluster, resource: str, quantity: str) -> None:
    cluster.container("page")["resources"]["requests"][resource] = quantity
    cluster.unplace("page", f"0/3 nodes are available: 2 Insufficient {resource}.")


def _select_cordoned(cluster: Cluster) -> None:
    cluster.spec("page")["nodeSelector"] = {"kubernetes.io/hostname": "two"}
    _node(cluster, "two")["unschedulable"] = True
    counts = "1 node(s) didn't match Pod's node affinity/selector, 2 node(s) were unschedulable"
    cluster.unplace("page", f"0/3 nodes are available: {counts}.")


def _select_nothing(cluster: Cluster) -> None:
    cluster.spec("page")["nodeSelector"] = {"disk": "gold"}
    cluster.unplace("page")


def _far_apart(cluster: Cluster) -> None:
    rules = [{"key": "disk", "operator": "In", "values": ["tape"]}]
    terms = {"nodeSelectorTerms": [{"matchExpressions": rules}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    cluster.spec("page")["affinity"] = {"nodeAffinity": required}
    cluster.unplace("page")


def _quota(cluster: Cluster, resource: str, asked: str = "") -> None:
    hard = {resource: "2"}
    cluster.put("ResourceQuota", "rules", spec={"hard": hard}, status={"hard": hard, "used": hard})
    if asked:
        told = (
            f"exceeded quota: rules, requested: {asked}, used: {resource}=2, limited: {resource}=2"
        )
        cluster.create_fails("page", f'Error creating: pods "page-" is forbidden: {told}')


def _no_service(cluster: Cluster) -> None:
    _quota(cluster, "services")
    del cluster.objects["Service", "ledger"]
    cluster.declared.append(("service", "ledger"))


def _no_claim(cluster: Cluster) -> None:
    _quota(cluster, "requests.storage")
    del cluster.objects["PersistentVolumeClaim", "data"]
    cluster.put("PersistentVolumeClaim", "other", status={"phase": "Bound"})
    cluster.declared.append(("persistentvolumeclaim", "data"))
    cluster.unplace("ledger", 'persistentvolumeclaim "data" not found')


def _no_account(cluster: Cluster) -> None:
    cluster.spec("page")["serviceAccountName"] = "baker"
    told = 'error looking up service account bakery/baker: serviceaccount "baker" not found'
    cluster.create_fails("page", f'Error creating: pods "page-" is forbidden: {told}')


def _pull(error: str, *, secret: str = "") -> Change:
    def change(cluster: Cluster) -> None:
        image = cluster.container("page")["image"]
        if secret:
            cluster.spec("page")["imagePullSecrets"] = [{"name": secret}]
        cluster.wait(
            "page", "ImagePullBackOff", "Failed", f'Failed to pull image "{image}": {error}'
        )

    return change


def _need(source: str, name: str, *, key: str = "") -> Change:
    def change(cluster: Cluster) -> None:
        reference = {f"{source}KeyRef": {"name": name, "key": key or "value"}}
        cluster.container("page")["env"].append({"name": "HEAT", "valueFrom": reference})
        told = f'{source.lower()} "{name}" not found'
        if key:
            told = f"couldn't find key {key} in Secret bakery/{name}"
        waiting = {"reason": "CreateContainerConfigError", "message": told}
        cluster.set_state("page", restartCount=0, state={"waiting": waiting})

    return change


def _ended(**ended: object) -> Change:
    def change(cluster: Cluster) -> None:
        waiting = {"waiting": {"reason": "CrashLoopBackOff"}}
        cluster.set_state("page", state=waiting, lastState={"terminated": ended})

    return change


def _probe(kind: str, message: str, how: str = "httpGet", **asked: object) -> Change:
    def change(cluster: Cluster) -> None:
        cluster.container("page")[f"{kind}Probe"] = {how: {"port": 8000, **asked}}
        cluster.probe_fails("page", kind, message)

    return change


def _env(value: str, *lines: str) -> Change:
    def change(cluster: Cluster) -> None:
        cluster.container("page")["env"][0]["value"] = value
        cluster.logs["page"] = list(lines)

    return change


def _select(cluster: Cluster) -> None:
    cluster.service("orders")["selector"] = {"app": "order"}
    cluster.objects["Service", "orders"]["status"]["endpoints"] = []


def _port(cluster: Cluster, key: str, value: object) -> None:
    cluster.service("orders")["ports"][0][key] = value
    cluster.reached["orders", 7000] = False


def _unready(message: str) -> Change:
    def change(cluster: Cluster) -> None:
        condition = {"type": "Ready", "status": "Unknown", "message": message}
        cluster.objects["Node", "one"]["status"]["conditions"] = [condition]

    return change


def _stop(unit: str) -> Change:
    def change(cluster: Cluster) -> None:
        cluster.units |= {("one", unit): "inactive (dead)", ("two", unit): "active (running)"}

    return change


def _pressure(kind: str) -> Change:
    def change(cluster: Cluster) -> None:
        conditions = cluster.objects["Node", "one"]["status"]["conditions"]
        conditions.append({"type": kind, "status": "True", "message": "too little is left"})

    return change


def _log(name: str, line: str) -> Change:
    return lambda cluster: cluster.logs.update({name: [line]})


def _scale_down(cluster: Cluster) -> None:
    cluster.remove_pod("ledger")
    cluster.objects["Deployment", "ledger"]["spec"]["replicas"] = 0
    cluster.logs["orders"] = ["error: dial ledger:5432: connection refused"]


def _blocked(cluster: Cluster) -> None:
    cluster.put("NetworkPolicy", "nobody")
    cluster.reached["orders", 7000] = False


def _evict(cluster: Cluster) -> None:
    reason = {"reason": "Evicted", "message": "The node was low on resource: memory."}
    cluster.pod("page")["status"] = {"phase": "Failed", **reason}


_REFUSED = "connect: connection refused"
_CASES: dict[str, tuple[Change, str, str]] = {
    "cpu": (lambda c: _ask_for(c, "cpu", "6"), "cpu_capacity", "page"),
    "memory": (lambda c: _ask_for(c, "memory", "9Gi"), "memory_capacity", "page"),
    "taint": (_taint_all, "taint_not_tolerated", "page"),
    "cordon": (_select_cordoned, "node_cordoned", "page"),
    "labels of nodes": (_select_nothing, "node_selector", "page"),
    "node affinity": (_far_apart, "node_affinity", "page"),
    "apart": (
        lambda c: c.unplace("page", "2 node(s) didn't match pod anti-affinity rules"),
        "pod_anti_affinity",
        "page",
    ),
    "zone": (
        lambda c: c.unplace("page", "3 node(s) had volume node affinity conflict"),
        "volume_zone",
        "page",
    ),
    "quota of CPU": (
        lambda c: _quota(c, "requests.cpu", "requests.cpu=1"),
        "cpu_quota",
        NAMESPACE,
    ),
    "quota of memory": (
        lambda c: _quota(c, "limits.memory", "limits.memory=1Gi"),
        "memory_quota",
        NAMESPACE,
    ),
    "quota of pods": (lambda c: _quota(c, "pods", "pods=1"), "pod_quota", NAMESPACE),
    "quota of services": (_no_service, "service_quota", NAMESPACE),
    "quota of storage": (_no_claim, "storage_quota", NAMESPACE),
    "account": (_no_account, "service_account_missing", "page"),
    "pod security": (
        lambda c: c.create_fails("page", 'pods "page-" is forbidden: violates PodSecurity "x"'),
        "pod_security",
        "page",
    ),
    "webhook": (
        lambda c: c.create_fails("page", 'failed calling webhook "check.example": x509'),
        "webhook_failing",
        "page",
    ),
    "tag": (_pull("rpc error: code = NotFound desc = x: not found"), "image_reference", "page"),
    "name on Docker Hub": (
        _pull("pull access denied, repository does not exist or may require authorization"),
        "image_reference",
        "page",
    ),
    "no such registry": (
        _pull("dial tcp: lookup registry.example on 10.0.0.10:53: no such host"),
        "registry_dns",
        "page",
    ),
    "registry down": (
        _pull("dial tcp 192.0.2.7:443: connect: connection refused"),
        "registry_unreachable",
        "page",
    ),
    "no credentials": (_pull("failed to authorize: 401 Unauthorized"), "pull_secret", "page"),
    "pull secret": (_pull("pull access denied", secret="key"), "pull_secret", "page"),
    "ConfigMap": (_need("configMap", "prices"), "configmap_missing", "page"),
    "Secret": (_need("secret", "prices"), "secret_missing", "page"),
    "key": (_need("secret", "oven", key="heat"), "key_missing", "page"),
    "command": (
        _ended(exitCode=127, message='exec: "bake": executable file not found in $PATH'),
        "wrong_command",
        "page",
    ),
    "crash": (_ended(exitCode=2, reason="Error"), "crash", "page"),
    "out of memory": (_ended(exitCode=137, reason="OOMKilled"), "oom_killed", "page"),
    "evicted": (_evict, "evicted", "page"),
    "liveness port": (
        _probe("liveness", f"dial tcp 10.1.0.1:8001: {_REFUSED}", port=8001),
        "liveness_probe_port",
        "page",
    ),
    "liveness protocol": (
        _probe("liveness", "rpc error: unknown service grpc.health.v1.Health", how="grpc"),
        "liveness_probe_protocol",
        "page",
    ),
    "readiness path": (
        _probe("readiness", "HTTP probe failed with statuscode: 404", path="/ready"),
        "readiness_probe_path",
        "page",
    ),
    "readiness protocol": (
        _probe("readiness", "net/http: HTTP/1.x transport connection broken: malformed HTTP"),
        "readiness_probe_protocol",
        "page",
    ),
    "readiness name of a port": (
        _probe("readiness", "strconv: invalid port", port="web"),
        "readiness_probe_port",
        "page",
    ),
    "startup timing": (
        _probe("startup", 'Get "http://10.1.0.1:8000/": context deadline exceeded'),
        "startup_probe_timing",
        "page",
    ),
    "mistyped host": (
        _env("oders:7000", "dial tcp: lookup oders: no such host"),
        "wrong_address",
        "page",
    ),
    "wrong port": (_env("orders:7001"), "wrong_address", "page"),
    "address of another": (_env("ledger:5432", "error: broken pipe"), "wrong_address", "page"),
    "selector": (_select, "service_selector", "orders"),
    "target port": (lambda c: _port(c, "targetPort", 7007), "service_port", "orders"),
    "name of a port": (lambda c: _port(c, "targetPort", "api"), "service_port", "orders"),
    "protocol": (lambda c: _port(c, "protocol", "UDP"), "service_protocol", "orders"),
    "changed port": (lambda c: _port(c, "port", 9000), "service_port", "orders"),
    "to zero": (_scale_down, "scaled_to_zero", "ledger"),
    "network policy": (_blocked, "network_policy", "orders"),
    "class": (lambda c: c.claim(storageClassName="fast"), "claim_storage_class", "ledger"),
    "mode": (lambda c: c.claim(accessModes=["ReadWriteMany"]), "claim_access_mode", "ledger"),
    "labels of volumes": (
        lambda c: c.claim(selector={"matchLabels": {"kind": "gold"}}),
        "claim_selector",
        "ledger",
    ),
    "size": (
        lambda c: c.claim(resources={"requests": {"storage": "5Gi"}}),
        "claim_capacity",
        "ledger",
    ),
    "mount": (
        lambda c: c.wait(
            "ledger", "ContainerCreating", "FailedMount", "MountVolume: Permission denied"
        ),
        "mount_denied",
        "ledger",
    ),
    "volume not writable": (
        _log("ledger", "could not open /data/ledger.db: Permission denied"),
        "volume_permission",
        "ledger",
    ),
    "seen by its client": (
        _log("orders", "error: MISCONF unable to persist to disk"),
        "volume_permission",
        "ledger",
    ),
    "password": (
        _log("orders", 'FATAL: password authentication failed for user "baker"'),
        "credentials_rejected",
        "orders",
    ),
    "connections": (
        _log("orders", "error: too many connections"),
        "connections_exhausted",
        "orders",
    ),
    "kubelet": (_unready("Kubelet stopped posting node status."), "kubelet_down", "one"),
    "kubelet stopped": (_stop("kubelet"), "kubelet_down", "one"),
    "runtime": (_unready("[container runtime is down, PLEG]"), "container_runtime_down", "one"),
    "runtime stopped": (_stop("containerd"), "container_runtime_down", "one"),
    "proxy stopped": (_stop("kube-proxy"), "proxy_down", "one"),
    "scheduler stopped": (_stop("kube-scheduler"), "scheduler_down", "one"),
    "CNI": (_unready("container runtime network not ready: cni"), "network_plugin_down", "one"),
    "disk of a node": (_pressure("DiskPressure"), "disk_pressure", "one"),
}


@pytest.mark.parametrize("case", _CASES)
def test_each_failure_has_its_cause_and_object_first(case: str) -> None:
    change, cause, target = _CASES[case]
    cluster = Cluster()
    change(cluster)
    named = _named(_snapshot(cluster))
    assert named[:1] == [(cause, target)]


def _finish_job(cluster: Cluster) -> None:
    cluster.put("Job", "nightly", spec={"template": {"spec": {"containers": []}}}, status={})
    pod = cluster.put("Pod", "nightly-abcde", spec={"containers": [{"name": "main"}]})
    pod["metadata"]["ownerReferences"] = [{"kind": "Job", "name": "nightly"}]
    ended = {"terminated": {"exitCode": 0, "reason": "Completed"}}
    states = [{"name": "main", "ready": False, "state": ended}]
    pod["status"] = {"phase": "Succeeded", "containerStatuses": states}


def _drain(cluster: Cluster) -> None:
    _node(cluster, "one")["unschedulable"] = True
    taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    _node(cluster, "one")["taints"] = [taint]
    cluster.pod("page")["spec"]["nodeName"] = "two"


def _roll_out(cluster: Cluster) -> None:
    cluster.objects["Deployment", "page"]["spec"]["replicas"] = 2
    states = [
        {"name": "main", "ready": False, "state": {"waiting": {"reason": "ContainerCreating"}}}
    ]
    pod = cluster.put("Pod", "page-77c6b5f4d9-q8w2z", spec=dict(cluster.spec("page")))
    pod["spec"]["nodeName"] = "two"
    pod["metadata"]["ownerReferences"] = [{"kind": "ReplicaSet", "name": "page-77c6b5f4d9"}]
    pod["status"] = {"phase": "Pending", "containerStatuses": states}
    cluster.tell("Pod", "page-77c6b5f4d9-q8w2z", "Unhealthy", f"Readiness probe failed: {_REFUSED}")


def _scale_up(cluster: Cluster) -> None:
    cluster.objects["Deployment", "page"]["spec"]["replicas"] = 5


def _keep_old_events(cluster: Cluster) -> None:
    pod = cluster.pod("page")["metadata"]["name"]
    told = 'pods "page-" is forbidden: exceeded quota: rules, requested: pods=1, used: pods=2'
    cluster.tell("ReplicaSet", "page-5d8f7c9b6d", "FailedCreate", told)
    cluster.tell("Pod", pod, "Failed", 'Failed to pull image "x": not found', age_s=3000.0)
    cluster.tell("Pod", pod, "FailedScheduling", "3 Insufficient cpu")
    cluster.tell("Pod", "page-gone-abcde", "BackOff", "Back-off restarting failed container")


def _mention_another(cluster: Cluster) -> None:
    cluster.container("page")["env"].append({"name": "GUIDE_URL", "value": "guide:80"})
    cluster.logs["page"] = ["warning: request canceled by the client"]


@pytest.mark.parametrize(
    "change",
    [
        lambda cluster: None,
        _finish_job,
        _drain,
        _roll_out,
        _scale_up,
        _keep_old_events,
        _mention_another,
    ],
)
def test_a_healthy_cluster_has_no_cause(change: Change) -> None:
    cluster = Cluster()
    change(cluster)
    assert _named(_snapshot(cluster)) == []


def test_the_root_is_the_slowest_that_calls_nothing_slow() -> None:
    def latency(name: str, now: float) -> Reading:
        return Reading(name, "latency_p90", now, 4.0)

    slow = (latency("page", 620.0), latency("orders", 610.0), latency("ledger", 600.0))
    assert _named(_snapshot(Cluster(), *slow))[0] == ("pod_network_delay", "ledger")
    assert _named(_snapshot(Cluster(), *slow[:2]))[0] == ("pod_network_delay", "orders")
    busy = Reading("orders", "throttled", 0.7)
    assert _named(_snapshot(Cluster(), *slow[:2], busy))[0] == ("cpu_overload", "orders")
    assert _named(_snapshot(Cluster(), latency("page", 6.0))) == []
    full = Reading("orders", "memory", 3e8, 1e8)
    assert _named(_snapshot(Cluster(), full)) == [("oom_killed", "orders")]
    assert _named(_snapshot(Cluster(), Reading("orders", "memory", 1.2e8, 1e8))) == []


def test_segments_that_are_sent_again_for_long_are_lost_and_few_are_late() -> None:
    slow = Reading("page", "latency_p50", 900.0, 9.0)
    lossy = Reading("one", "retransmissions", 9.0, 0.1)
    assert _named(_snapshot(Cluster(), slow, lossy))[0] == ("node_network_loss", "one")
    late = Reading("two", "retransmissions", 0.8, 0.0)
    assert _named(_snapshot(Cluster(), slow, late))[0] == ("node_network_delay", "two")


def test_what_others_depend_on_is_the_root() -> None:
    cluster = Cluster()
    waiting = {"waiting": {"reason": "CrashLoopBackOff"}}
    for name in ("page", "ledger", "orders"):
        cluster.set_state(name, state=waiting, lastState={"terminated": {"exitCode": 1}})
    assert _named(_snapshot(cluster))[0] == ("crash", "ledger")


def test_what_was_not_listed_is_not_missing() -> None:
    cluster = Cluster()
    cluster.spec("page")["serviceAccountName"] = "baker"
    del cluster.objects["ServiceAccount", "default"]
    cluster.remove_pod("page")
    assert _named(_snapshot(cluster)) == []


@pytest.mark.parametrize(
    ("text", "number"),
    [("100m", 0.1), ("2", 2.0), ("1Ki", 1024.0), ("1.5Gi", 1.5 * 1024**3), ("1k", 1000.0)],
)
def test_quantities_of_the_api_are_numbers(text: str, number: float) -> None:
    assert parse_quantity(text) == pytest.approx(number)
    assert parse_quantity(f"{text}?") is None


def test_every_cause_that_a_rule_names_is_known() -> None:
    assert {cause for _, cause, _ in _CASES.values()} <= set(known_causes())


def test_a_cause_is_found_by_the_words_of_its_name() -> None:
    offered = ("bad_image_tag", "exceeded_memory_quota", "node_memory_shortage", "lost_secret")
    assert name_among("image_reference", offered) == "bad_image_tag"
    assert name_among("memory_quota", offered) == "exceeded_memory_quota"
    assert name_among("memory_capacity", offered) == "node_memory_shortage"
    assert name_among("service_missing", ("missing_service_account", "other")) == ""
    assert name_among("crash", offered) == ""
    assert name_among("crash", ("crash",)) == "crash"
