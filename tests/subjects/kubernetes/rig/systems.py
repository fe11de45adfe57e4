"""Rollouts, services, storage, dependencies, nodes, control plane: a row for each class."""

from __future__ import annotations

from tests.subjects.kubernetes.rig.case import RigCase
from tests.subjects.kubernetes.rig.objects import (
    claim,
    claiming,
    container,
    deployment,
    http,
    job,
    meta,
    pod,
    probe,
    service,
    volume,
    with_volume,
)

__all__ = ["SYSTEM_CASES"]

_WEB = "deployment/web"
_FRONT = container(
    "frontend",
    env=[{"name": "BACKEND_URL", "value": "http://backend:8080"}],
    readinessProbe=probe(**http("/readyz")),
)
_CALLER = container(
    env=[{"name": "DATABASE_URL", "value": "http://database:8080"}],
    readinessProbe=probe(**http("/readyz"), timeoutSeconds=3),
)
_WORKER = deployment(
    "worker", pod(container("worker", env=[{"name": "DATABASE_URL", "value": "http://web:8080"}]))
)
_DATABASE = container(
    "database", env=[{"name": "DATA_DIR", "value": "/tmp"}], readinessProbe=probe(**http())
)
ROLLOUT = (
    RigCase(
        "scaled-to-zero",
        "rollout",
        "services_backed",
        ("scaled_to_zero",),
        _WEB,
        (deployment("web"), service("web"), _WORKER),
        (("scale", "deploy/web", "--replicas=0"),),
    ),
    RigCase(
        "job-failed",
        "rollout",
        "jobs_succeed",
        ("job_failed", "crash"),
        "job/import",
        (job("import", pod(container("nothing", ports=[]))),),
        event="BackoffLimitExceeded",
    ),
    RigCase(
        "job-deadline",
        "rollout",
        "jobs_succeed",
        ("job_deadline",),
        "job/import",
        (job("import", pod(container("sleep", ports=[])), activeDeadlineSeconds=3),),
        event="DeadlineExceeded",
    ),
    RigCase(
        "autoscaler-blind",
        "rollout",
        "autoscaling_works",
        ("autoscaler_blind",),
        "horizontalpodautoscaler/web",
        (
            deployment("web"),
            {
                "apiVersion": "autoscaling/v2",
                "kind": "HorizontalPodAutoscaler",
                "metadata": meta("web"),
                "spec": {
                    "minReplicas": 1,
                    "maxReplicas": 3,
                    "scaleTargetRef": {
                        "apiVersion": "apps/v1",
                        "kind": "Deployment",
                        "name": "web",
                    },
                    "metrics": [
                        {
                            "type": "Resource",
                            "resource": {
                                "name": "cpu",
                                "target": {"type": "Utilization", "averageUtilization": 50},
                            },
                        }
                    ],
                },
            },
        ),
    ),
)
SERVICES = tuple(
    RigCase(
        name,
        "service",
        "services_backed",
        causes,
        blamed,
        (deployment("web"), service("web"), _WORKER),
        (change,),
    )
    for name, causes, blamed, change in (
        (
            "service-selector",
            ("service_selector",),
            "service/web",
            ("patch", "service/web", "-p", '{"spec": {"selector": {"app": "site"}}}'),
        ),
        (
            "service-port-name",
            ("service_port",),
            "service/web",
            (
                "patch",
                "service/web",
                "-p",
                '{"spec": {"ports": [{"port": 8080, "targetPort": "http"}]}}',
            ),
        ),
        (
            "service-port",
            ("service_port",),
            "service/web",
            (
                "patch",
                "service/web",
                "-p",
                '{"spec": {"ports": [{"port": 8080, "targetPort": 9000}]}}',
            ),
        ),
    )
)
DNS = (
    RigCase(
        "dns-down",
        "service",
        "services_backed",
        ("dns_down", "scaled_to_zero"),
        "kube-system/deployment/coredns",
        (),
        (("-n", "kube-system", "scale", "deploy/coredns", "--replicas=0"),),
        (("-n", "kube-system", "scale", "deploy/coredns", "--replicas=1"),),
    ),
)
STORAGE = (
    RigCase(
        "claim-storage-class",
        "storage",
        "volumes_bound",
        ("claim_storage_class",),
        "persistentvolumeclaim/data",
        (claim("data", storageClassName="fast"), deployment("web", claiming("data"))),
        event="ProvisioningFailed",
    ),
    RigCase(
        "claim-capacity",
        "storage",
        "volumes_bound",
        ("claim_capacity",),
        "persistentvolumeclaim/data",
        (
            volume("claim-capacity", "node1"),
            claim(
                "data",
                storageClassName="class-claim-capacity",
                resources={"requests": {"storage": "5Gi"}},
            ),
            deployment("web", claiming("data")),
        ),
        event="ProvisioningFailed",
    ),
    RigCase(
        "claim-access-mode",
        "storage",
        "volumes_bound",
        ("claim_access_mode",),
        "persistentvolumeclaim/data",
        (
            volume("claim-access-mode", "node1"),
            claim(
                "data",
                storageClassName="class-claim-access-mode",
                accessModes=["ReadWriteMany"],
            ),
            deployment("web", claiming("data")),
        ),
        event="ProvisioningFailed",
    ),
    RigCase(
        "mount-failed",
        "storage",
        "volumes_mounted",
        ("mount_failed",),
        _WEB,
        (deployment("web", with_volume({"hostPath": {"path": "/nowhere", "type": "Directory"}})),),
        event="FailedMount",
    ),
    RigCase(
        "volume-configmap-missing",
        "storage",
        "volumes_mounted",
        ("configmap_missing",),
        _WEB,
        (deployment("web", with_volume({"configMap": {"name": "pages"}})),),
        event="FailedMount",
    ),
)
DEPENDENCIES = (
    RigCase(
        "dependency-root",
        "dependencies",
        "containers_run",
        ("crash",),
        "deployment/database",
        (
            deployment("database", pod(_DATABASE)),
            service("database"),
            deployment("backend", pod(_CALLER)),
            service("backend"),
            deployment("frontend", pod(_FRONT)),
        ),
        (
            (
                "patch",
                "deploy/database",
                "-p",
                '{"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}, "template":'
                ' {"spec": {"containers": [{"name": "app", "env": [{"name": "DATA_DIR", "value":'
                ' "/missing"}]}]}}}}',
            ),
        ),
        event="BackOff",
    ),
)
_LEASES = {"scheduler": "kube-scheduler", "controllers": "kube-controller-manager"}
PLATFORM = tuple(
    RigCase(
        name,
        "node and control plane",
        invariant,
        causes,
        blamed,
        stop=stop,
        lease=_LEASES.get(stop, ""),
    )
    for name, invariant, causes, blamed, stop in (
        ("scheduler-down", "control_plane_works", ("scheduler_down",), "cluster", "scheduler"),
        (
            "controller-manager-down",
            "control_plane_works",
            ("controller_manager_down",),
            "cluster",
            "controllers",
        ),
        ("kubelet-down", "nodes_ready", ("kubelet_down",), "node/node2", "node2-kubelet"),
        (
            "container-runtime-down",
            "nodes_ready",
            ("container_runtime_down",),
            "node/node2",
            "node2-runtime",
        ),
        ("api-server-down", "control_plane_works", ("api_server_down",), "cluster", "apiserver"),
        ("etcd-down", "control_plane_works", ("etcd_down",), "cluster", "etcd"),
    )
)
SYSTEM_CASES = (*ROLLOUT, *SERVICES, *DNS, *STORAGE, *DEPENDENCIES, *PLATFORM)
