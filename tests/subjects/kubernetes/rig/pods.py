"""Pods that are not placed, created, started, kept running or ready: a row for each class."""

from __future__ import annotations

from tests.subjects.kubernetes.rig.case import RigCase
from tests.subjects.kubernetes.rig.objects import (
    affinity,
    claim,
    claiming,
    container,
    deployment,
    http,
    meta,
    pod,
    probe,
    quota,
    requests,
    service,
    volume,
)

__all__ = ["POD_CASES"]

REGISTRY = "10.99.0.1:5000"
NODES = ("node1", "node2")
_APART = {
    "labelSelector": {"matchLabels": {"app": "web"}},
    "topologyKey": "kubernetes.io/hostname",
}
_ELSEWHERE = {
    "nodeSelectorTerms": [
        {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["south"]}]}
    ]
}
_WEB = "deployment/web"
_UNSCHEDULED = "pods_scheduled"
_NO_NODE = "FailedScheduling"
_BLOCKING = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingWebhookConfiguration",
    "metadata": meta("lab-case"),
    "webhooks": [
        {
            "name": "check.lab.local",
            "failurePolicy": "Fail",
            "sideEffects": "None",
            "timeoutSeconds": 1,
            "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": "https://10.99.0.1:9443/check"},
            "namespaceSelector": {
                "matchLabels": {"kubernetes.io/metadata.name": "case-webhook-failing"}
            },
            "rules": [
                {
                    "apiGroups": [""],
                    "apiVersions": ["v1"],
                    "operations": ["CREATE"],
                    "resources": ["pods"],
                }
            ],
        }
    ],
}
_DATABASE = container(
    "database", env=[{"name": "DATA_DIR", "value": "/tmp"}], readinessProbe=probe(**http())
)

SCHEDULING = tuple(
    RigCase(
        name,
        "scheduling",
        _UNSCHEDULED,
        (name.replace("-", "_"),),
        _WEB,
        (*extra, deployment("web", spec, **more)),
        event=_NO_NODE,
    )
    for name, spec, more, extra in (
        ("cpu-capacity", pod(container(**requests(cpu="64"))), {}, ()),
        ("memory-capacity", pod(container(**requests(memory="900Gi"))), {}, ()),
        ("node-selector", pod(nodeSelector={"disk": "fast"}), {}, ()),
        ("node-affinity", pod(**affinity("nodeAffinity", _ELSEWHERE)), {}, ()),
        ("pod-anti-affinity", pod(**affinity("podAntiAffinity", [_APART])), {"replicas": 3}, ()),
        (
            "host-port-taken",
            pod(container(ports=[{"containerPort": 8080, "hostPort": 28080}])),
            {"replicas": 3},
            (),
        ),
        (
            "volume-zone",
            {**claiming("data"), "nodeSelector": {"kubernetes.io/hostname": "node2"}},
            {},
            (
                volume("volume-zone", "node1"),
                claim("data", storageClassName="class-volume-zone"),
            ),
        ),
    )
)
NODE_RULES = (
    RigCase(
        "taint-not-tolerated",
        "scheduling",
        _UNSCHEDULED,
        ("taint_not_tolerated",),
        _WEB,
        (deployment("web"),),
        (
            ("taint", "nodes", *NODES, "lab=only:NoSchedule"),
            ("scale", "deploy/web", "--replicas=2"),
        ),
        (("taint", "nodes", *NODES, "lab=only:NoSchedule-"),),
        event=_NO_NODE,
    ),
    RigCase(
        "node-cordoned",
        "scheduling",
        _UNSCHEDULED,
        ("node_cordoned",),
        _WEB,
        (deployment("web"),),
        (("cordon", *NODES), ("scale", "deploy/web", "--replicas=2")),
        (("uncordon", *NODES),),
        event=_NO_NODE,
    ),
)
ADMISSION = tuple(
    RigCase(
        name,
        "admission",
        "pods_admitted",
        (name.replace("-", "_"),),
        blamed,
        (*extra, deployment("web", spec, **more)),
        event="FailedCreate",
        undo=undo,
        labels={"pod-security.kubernetes.io/enforce": "baseline"},
    )
    for name, blamed, extra, spec, more, undo in (
        ("pod-quota", "namespace/{namespace}", (quota(pods="1"),), pod(), {"replicas": 2}, ()),
        (
            "cpu-quota",
            "namespace/{namespace}",
            (quota(requests_cpu="1m"),),
            pod(),
            {},
            (),
        ),
        ("memory-quota", "namespace/{namespace}", (quota(requests_memory="1Mi"),), pod(), {}, ()),
        ("service-account-missing", _WEB, (), pod(serviceAccountName="nobody"), {}, ()),
        ("pod-security", _WEB, (), pod(hostNetwork=True), {}, ()),
        (
            "webhook-failing",
            _WEB,
            (_BLOCKING,),
            pod(),
            {},
            (("delete", "validatingwebhookconfiguration", "lab-case"),),
        ),
    )
)
IMAGES = tuple(
    RigCase(
        name,
        "image",
        "images_pulled",
        causes,
        _WEB,
        (deployment("web", pod(container(image=image))),),
        event="Failed",
    )
    for name, image, causes in (
        ("image-reference", f"{REGISTRY}/shop:9", ("image_reference",)),
        ("image-name-invalid", "Not_An_Image::", ("image_reference",)),
        ("pull-secret", f"{REGISTRY}/private/shop:1", ("pull_secret",)),
        ("registry-unreachable", "10.99.0.1:5999/shop:1", ("registry_unreachable",)),
        ("registry-dns", "registry.invalid/shop:1", ("registry_dns",)),
    )
)
START = tuple(
    RigCase(
        name,
        "start",
        invariant,
        causes,
        _WEB,
        (*extra, deployment("web", spec)),
        event=event,
    )
    for name, invariant, causes, spec, extra, event in (
        (
            "configmap-missing",
            "containers_start",
            ("configmap_missing",),
            pod(container(envFrom=[{"configMapRef": {"name": "settings"}}])),
            (),
            "Failed",
        ),
        (
            "secret-missing",
            "containers_start",
            ("secret_missing",),
            pod(container(envFrom=[{"secretRef": {"name": "password"}}])),
            (),
            "Failed",
        ),
        (
            "key-missing",
            "containers_start",
            ("key_missing",),
            pod(
                container(
                    env=[
                        {
                            "name": "DATABASE_URL",
                            "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "url"}},
                        }
                    ]
                )
            ),
            (
                {
                    "apiVersion": "v1",
                    "kind": "ConfigMap",
                    "metadata": meta("settings"),
                    "data": {"address": "x"},
                },
            ),
            "Failed",
        ),
        (
            "wrong-command",
            "containers_start",
            ("wrong_command",),
            pod(container(command=["/shop-server"])),
            (),
            "Failed",
        ),
        (
            "init-failed",
            "containers_run",
            ("init_failed",),
            pod(initContainers=[container("migrate", name="migrate", ports=[])]),
            (),
            "",
        ),
        (
            "port-taken",
            "containers_run",
            ("port_taken",),
            pod(
                container("database", env=[{"name": "DATA_DIR", "value": "/tmp"}]),
                container(name="second"),
            ),
            (),
            "",
        ),
        (
            "wrong-address",
            "pods_ready",
            ("wrong_address",),
            pod(
                container(
                    env=[{"name": "DATABASE_URL", "value": "http://databse:8080"}],
                    readinessProbe=probe(**http("/readyz")),
                )
            ),
            (deployment("database", pod(_DATABASE)), service("database")),
            "Unhealthy",
        ),
    )
)
RUN_TIME = (
    RigCase(
        "crash",
        "run time",
        "containers_run",
        ("crash",),
        _WEB,
        (deployment("web", pod(container(env=[]))),),
        event="",
    ),
    RigCase(
        "oom-killed",
        "run time",
        "containers_run",
        ("oom_killed",),
        _WEB,
        (
            deployment(
                "web",
                pod(
                    container(
                        env=[{"name": "CACHE_MB", "value": "300"}],
                        resources={"limits": {"memory": "32Mi"}},
                    )
                ),
            ),
        ),
    ),
    RigCase(
        "evicted",
        "run time",
        "containers_run",
        ("evicted",),
        _WEB,
        (
            deployment(
                "web",
                pod(
                    container(
                        "fill",
                        env=[{"name": "FILL_MB", "value": "40"}],
                        volumeMounts=[{"name": "data", "mountPath": "/data"}],
                    ),
                    volumes=[{"name": "data", "emptyDir": {"sizeLimit": "10Mi"}}],
                ),
            ),
        ),
        event="Evicted",
    ),
)
PROBES = tuple(
    RigCase(
        name,
        "probes",
        invariant,
        (name.replace("-", "_"),),
        _WEB,
        (deployment("web", pod({**container(), **probes, **more})),),
        event="Unhealthy" if invariant == "pods_ready" else "Killing",
    )
    for name, invariant, probes, more in (
        (
            "liveness-probe-port",
            "containers_run",
            {"livenessProbe": probe(**http(port=8081))},
            {},
        ),
        (
            "readiness-probe-path",
            "pods_ready",
            {"readinessProbe": probe(**http("/ready"))},
            {},
        ),
        (
            "readiness-probe-port",
            "pods_ready",
            {"readinessProbe": probe(**http(port=8081))},
            {},
        ),
        (
            "readiness-probe-protocol",
            "pods_ready",
            {"readinessProbe": probe(**http(scheme="HTTPS"))},
            {},
        ),
        (
            "startup-probe-timing",
            "containers_run",
            {"startupProbe": probe(**http())},
            {
                "env": [
                    {"name": "DATABASE_URL", "value": "http://localhost:1"},
                    {"name": "START_S", "value": "60"},
                ]
            },
        ),
    )
)
POD_CASES = (
    *SCHEDULING,
    *NODE_RULES,
    *ADMISSION,
    *IMAGES,
    *START,
    *RUN_TIME,
    *PROBES,
)
