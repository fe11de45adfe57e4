"""Faults that keep pods from being admitted, scheduled, started or ready. Data."""

from __future__ import annotations

from operator_sre.subjects.kubernetes.breaks import Break, Create, Patch, Replace
from operator_sre.subjects.kubernetes.fault_objects import (
    BACKEND,
    ESCALATED,
    IMAGE,
    NODE_NAME,
    NODES,
    REGISTRY,
    image_row,
    probe_row,
    quota_row,
    rollout_row,
    workload,
)

__all__ = ["POD_FAULTS"]

NOWHERE = {"name": "DATABASE_URL", "value": "http://databse:8080", "valueFrom": None}
_AFFINITY = "requiredDuringSchedulingIgnoredDuringExecution"
_APART = {
    "topologyKey": NODE_NAME,
    "labelSelector": {"matchLabels": {"app": "backend"}},
}
_ELSEWHERE = {
    "nodeSelectorTerms": [
        {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["fast"]}]}
    ]
}
_RULE = {
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "operations": ["CREATE"],
    "resources": ["pods"],
}
_HOOK = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingWebhookConfiguration",
    "metadata": {"name": "image-policy"},
    "webhooks": [
        {
            "name": "check.policy.local",
            "failurePolicy": "Fail",
            "sideEffects": "None",
            "timeoutSeconds": 1,
            "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": "https://10.99.0.1:9443/check"},
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "shop"}},
            "rules": [_RULE],
        }
    ],
}
_SCRATCH = {"name": "data", "emptyDir": {"sizeLimit": "10Mi"}}
_MIGRATION = {"name": "migrate", "image": IMAGE, "imagePullPolicy": "Never", "args": ["migrate"]}
_SIDECAR = {
    "name": "metrics",
    "image": IMAGE,
    "imagePullPolicy": "Never",
    "args": ["backend"],
    "env": [{"name": "DATABASE_URL", "value": "http://database:8080"}],
}
_OF_HELM = Patch(
    "deployment",
    "backend",
    {"metadata": {"annotations": {"meta.helm.sh/release-name": "shop"}}},
)

IMAGES = (
    image_row(
        "image_missing",
        "A rollout names an image tag that does not exist.",
        *("image_reference", f"{REGISTRY}/shop:9"),
    ),
    image_row(
        "image_invalid",
        "A rollout names an image that cannot be a name.",
        *("image_reference", "Not_An_Image::"),
    ),
    image_row(
        "image_private",
        "A rollout names an image that needs a login.",
        *("pull_secret", f"{REGISTRY}/private/shop:1"),
    ),
    image_row(
        "registry_down",
        "A rollout names a registry that does not answer.",
        *("registry_unreachable", "10.99.0.1:5999/shop:1"),
    ),
    image_row(
        "registry_unknown",
        "A rollout names a registry whose name does not resolve.",
        *("registry_dns", "registry.invalid/shop:1"),
    ),
)
START = (
    rollout_row(
        "configmap_missing",
        "A rollout needs a ConfigMap that does not exist.",
        *("containers_start", "configmap_missing"),
        {"envFrom": [{"configMapRef": {"name": "features"}}]},
    ),
    rollout_row(
        "secret_missing",
        "A rollout needs a Secret that does not exist.",
        *("containers_start", "secret_missing"),
        {"envFrom": [{"secretRef": {"name": "payment"}}]},
    ),
    rollout_row(
        "key_missing",
        "A rollout needs a key that its ConfigMap does not have.",
        *("containers_start", "key_missing"),
        {
            "env": [
                {
                    "name": "TIMEOUT",
                    "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "timeout"}},
                }
            ]
        },
    ),
    rollout_row(
        "wrong_command",
        "A rollout starts a program that is not in the image.",
        *("containers_start", "wrong_command"),
        {"command": ["/shop-server"]},
    ),
    rollout_row(
        "init_failed",
        "A rollout has an init container that fails.",
        *("containers_run", "init_failed"),
        initContainers=[_MIGRATION],
    ),
    rollout_row(
        "wrong_address",
        "A rollout has the address of a database that does not exist.",
        *("pods_ready", "wrong_address"),
        {
            "env": [NOWHERE],
            "readinessProbe": {"httpGet": {"path": "/readyz", "port": 8080}, "timeoutSeconds": 3},
        },
    ),
    rollout_row(
        "port_taken",
        "A rollout has a second container with the same port.",
        *("containers_run", "port_taken"),
        containers=[_SIDECAR],
    ),
)
RUN_TIME = (
    rollout_row(
        "crash",
        "A rollout lacks a variable without which its program exits.",
        *("containers_run", "crash"),
        {"env": [{"name": "BACKEND_URL", "value": ""}]},
        app="frontend",
    ),
    rollout_row(
        "memory_exceeded",
        "A rollout needs more memory than its limit.",
        *("containers_run", "oom_killed"),
        {"env": [{"name": "CACHE_MB", "value": "300"}]},
    ),
    Break(
        "evicted",
        "A new workload writes more than its scratch volume may have.",
        ("containers_run", "pods_ready"),
        ("evicted@shop/deployment/reports",),
        (Create(workload("reports", "fill", env={"FILL_MB": "40"}, volumes=[_SCRATCH])),),
        ESCALATED,
    ),
)
PROBES = (
    probe_row(
        "liveness_port",
        "A rollout has a liveness probe for a port on which nothing listens.",
        *("liveness", {"httpGet": {"path": "/healthz", "port": 8081}}),
    ),
    probe_row(
        "liveness_path",
        "A rollout has a liveness probe for a path that does not exist.",
        *("liveness", {"httpGet": {"path": "/alive", "port": 8080}}),
    ),
    probe_row(
        "readiness_path",
        "A rollout has a readiness probe for a path that does not exist.",
        *("readiness", {"httpGet": {"path": "/ready", "port": 8080}}),
    ),
    probe_row(
        "readiness_port",
        "A rollout has a readiness probe for a port on which nothing listens.",
        *("readiness", {"httpGet": {"path": "/healthz", "port": 8081}}),
    ),
    probe_row(
        "readiness_protocol",
        "A rollout has a readiness probe that speaks TLS to a plain port.",
        *("readiness", {"httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTPS"}}),
    ),
    probe_row(
        "startup_timing",
        "A rollout takes longer to start than its startup probe allows.",
        *("startup", {"httpGet": {"path": "/healthz", "port": 8080}}),
        env=[{"name": "START_S", "value": "60"}],
    ),
)
SCHEDULING = (
    *(
        rollout_row(
            *(name, sentence, "pods_scheduled", cause, container),
            needs_pods=False,
            **pod,
        )
        for name, sentence, cause, container, pod in (
            (
                "cpu_request",
                "A rollout requests more CPU than any node has.",
                "cpu_capacity",
                {"resources": {"requests": {"cpu": "64"}}},
                {},
            ),
            (
                "memory_request",
                "A rollout requests more memory than any node has.",
                "memory_capacity",
                {"resources": {"requests": {"memory": "900Gi"}, "limits": {"memory": "900Gi"}}},
                {},
            ),
            (
                "node_selector",
                "A rollout selects nodes by a label that none has.",
                "node_selector",
                None,
                {"nodeSelector": {"disk": "fast"}},
            ),
            (
                "node_affinity",
                "A rollout demands nodes that do not exist.",
                "node_affinity",
                None,
                {"affinity": {"nodeAffinity": {_AFFINITY: _ELSEWHERE}}},
            ),
            (
                "anti_affinity",
                "A rollout demands a node of its own for every pod.",
                "pod_anti_affinity",
                None,
                {"affinity": {"podAntiAffinity": {_AFFINITY: [_APART]}}},
            ),
        )
    ),
    rollout_row(
        "volume_zone",
        "A rollout sends the database to a node that its volume is not on.",
        *("pods_scheduled", "volume_zone"),
        app="database",
        needs_pods=False,
        nodeSelector={NODE_NAME: "node2"},
    ),
    Break(
        "nodes_tainted",
        "All nodes have a taint that no pod tolerates, and a pod is replaced.",
        ("pods_scheduled",),
        (f"taint_not_tolerated@{BACKEND}",),
        (
            *(
                Patch(
                    *("node", node),
                    {
                        "spec": {
                            "taints": [{"key": "team", "value": "data", "effect": "NoSchedule"}]
                        }
                    },
                    "",
                )
                for node in NODES
            ),
            Replace("backend"),
        ),
        ESCALATED,
        needs_pods=False,
    ),
    Break(
        "nodes_cordoned",
        "All nodes were left cordoned, and a pod is replaced.",
        ("pods_scheduled",),
        (f"node_cordoned@{BACKEND}",),
        (
            *(Patch("node", node, {"spec": {"unschedulable": True}}, "") for node in NODES),
            Replace("backend"),
        ),
        ESCALATED,
        needs_pods=False,
    ),
)
ADMISSION = (
    quota_row("quota_pods", "pod_quota", pods="1"),
    quota_row("quota_cpu", "cpu_quota", requests_cpu="1m"),
    quota_row("quota_memory", "memory_quota", requests_memory="1Mi"),
    rollout_row(
        "service_account_missing",
        "A rollout needs a service account that does not exist.",
        *("pods_admitted", "service_account_missing"),
        needs_pods=False,
        serviceAccountName="payments",
    ),
    rollout_row(
        "pod_security",
        "A rollout asks for the network of the node, which its namespace forbids.",
        *("pods_admitted", "pod_security", None),
        Patch(
            *("namespace", "shop"),
            {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "baseline"}}},
            "",
        ),
        needs_pods=False,
        hostNetwork=True,
    ),
    Break(
        "webhook_down",
        "An admission webhook does not answer, and a pod is replaced.",
        ("pods_admitted",),
        (f"webhook_failing@{BACKEND}",),
        (Create(_HOOK), Replace("backend")),
        ESCALATED,
        needs_pods=False,
    ),
)
POD_FAULTS = (*IMAGES, *START, *RUN_TIME, *PROBES, *SCHEDULING, *ADMISSION)
