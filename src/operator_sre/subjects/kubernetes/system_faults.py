"""Faults of rollouts, services, storage and the platform, and what is no fault. Data."""

from __future__ import annotations

from operator_sre.subjects.kubernetes.breaks import (
    Break,
    Create,
    Delete,
    Drain,
    Kill,
    Patch,
    Pause,
    Reboot,
    Replace,
    Unplug,
)
from operator_sre.subjects.kubernetes.fault_objects import (
    BACKEND,
    ESCALATED,
    IMAGE,
    REGISTRY,
    claim_row,
    image_row,
    job,
    metadata,
    process_row,
    rollout_row,
    service_row,
    template,
    volume,
    workload,
)

__all__ = ["DAILY", "PLATFORM", "SYSTEM_FAULTS"]

_SCALER = {
    "apiVersion": "autoscaling/v2",
    "kind": "HorizontalPodAutoscaler",
    "metadata": metadata("worker"),
    "spec": {
        "minReplicas": 1,
        "maxReplicas": 3,
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "worker"},
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
}
_KEPT_POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": metadata("export", finalizers=["backup.example.com/wait"]),
    "spec": {
        "terminationGracePeriodSeconds": 1,
        "containers": [
            {"name": "export", "image": IMAGE, "imagePullPolicy": "Never", "args": ["sleep"]}
        ],
    },
}
_OF_HELM = Patch(
    "deployment",
    "backend",
    {"metadata": {"annotations": {"meta.helm.sh/release-name": "shop"}}},
)
_APPLIED = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "backend"},
    "spec": {
        "template": {
            "spec": {
                "containers": [
                    {
                        "name": "backend",
                        "image": f"{REGISTRY}/shop:9",
                        "imagePullPolicy": "IfNotPresent",
                    }
                ]
            }
        }
    },
}


ROLLOUT = (
    Break(
        "scaled_to_zero",
        "The back end was scaled to zero.",
        ("services_backed", "pods_ready"),
        (f"scaled_to_zero@{BACKEND}",),
        (Patch("deployment", "backend", {"spec": {"replicas": 0}}),),
    ),
    Break(
        "database_scaled_to_zero",
        "The database was scaled to zero.",
        ("services_backed", "pods_ready"),
        ("scaled_to_zero@shop/deployment/database",),
        (Patch("deployment", "database", {"spec": {"replicas": 0}}),),
    ),
    image_row(
        "bad_rollouts",
        "Two rollouts after another name images that do not exist.",
        *("image_reference", f"{REGISTRY}/shop:9"),
        template("backend", {"image": f"{REGISTRY}/shop:8", "imagePullPolicy": "IfNotPresent"}),
    ),
    Break(
        "autoscaler_blind",
        "An autoscaler scales by metrics that nothing provides.",
        ("autoscaling_works",),
        ("autoscaler_blind@shop/horizontalpodautoscaler/worker",),
        (Create(_SCALER),),
        ESCALATED,
    ),
    Break(
        "job_failed",
        "A Job has failed as often as it may.",
        ("jobs_succeed", "containers_run"),
        ("job_failed@shop/job/import", "crash@shop/job/import"),
        (Create(job("import", "import")),),
        ESCALATED,
    ),
    Break(
        "job_deadline",
        "A Job takes longer than its deadline.",
        ("jobs_succeed", "containers_run"),
        ("job_deadline@shop/job/import",),
        (Create(job("import", "sleep", activeDeadlineSeconds=3)),),
        ESCALATED,
    ),
    Break(
        "finalizer_left",
        "A deleted pod waits for a finalizer that nothing removes.",
        ("objects_deleted",),
        ("finalizer@shop/pod/export",),
        (Create(_KEPT_POD), Delete("pod", "export")),
        ESCALATED,
    ),
)
SERVICES = (
    service_row(
        "service_selector",
        "The selector of a service was changed, and matches no pod.",
        *("service_selector", {"selector": {"app": "back-end"}}),
    ),
    service_row(
        "service_port",
        "A service was changed, and sends to a port on which nothing listens.",
        *("service_port", {"ports": [{"port": 8080, "targetPort": 9000}]}),
        # Connections that stand go on: only new callers notice.
        *(Replace("frontend"), Replace("frontend")),
    ),
    service_row(
        "service_port_name",
        "A service was changed, and names a port that its pods do not have.",
        *("service_port", {"ports": [{"port": 8080, "targetPort": "web"}]}),
    ),
    Break(
        "dns_down",
        "The DNS of the cluster was scaled to zero.",
        ("services_backed",),
        (
            "dns_down@kube-system/deployment/coredns",
            "scaled_to_zero@kube-system/deployment/coredns",
        ),
        (Patch("deployment", "coredns", {"spec": {"replicas": 0}}, "kube-system"),),
        ESCALATED,
    ),
)
STORAGE = (
    rollout_row(
        "mount_failed",
        "A rollout mounts a directory that its node does not have.",
        *("volumes_mounted", "mount_failed"),
        # A volume that no container mounts is ignored.
        {"volumeMounts": [{"name": "cache", "mountPath": "/cache"}]},
        volumes=[{"name": "cache", "hostPath": {"path": "/nowhere", "type": "Directory"}}],
    ),
    rollout_row(
        "volume_configmap_missing",
        "A rollout mounts a ConfigMap that does not exist.",
        *("volumes_mounted", "configmap_missing"),
        {"volumeMounts": [{"name": "pages", "mountPath": "/pages"}]},
        volumes=[{"name": "pages", "configMap": {"name": "pages"}}],
    ),
    claim_row(
        "claim_class",
        "A claim asks for a storage class that does not exist.",
        *("claim_storage_class", None),
        storageClassName="fast",
    ),
    claim_row(
        "claim_size",
        "A claim asks for more than any volume has.",
        *("claim_capacity", volume("reports", "small")),
        storageClassName="small",
        resources={"requests": {"storage": "5Gi"}},
    ),
)
DEPENDENCIES = (
    rollout_row(
        "database_crash",
        "A rollout of the database exits at its start, and all that calls it fails.",
        *("containers_run", "crash"),
        {"env": [{"name": "DATA_DIR", "value": "/missing"}]},
        app="database",
    ),
)
# Where the obvious repair would be wrong: who looks after the object, or what else has changed.
TRAPS = (
    image_row(
        "managed_by_helm",
        "A release of Helm names an image that does not exist.",
        *("image_reference", f"{REGISTRY}/shop:9"),
        _OF_HELM,
        end=ESCALATED,
    ),
    Break(
        "applied_by_program",
        "A delivery program applied an image that does not exist, and would apply it again.",
        ("images_pulled", "pods_ready", "rollouts_complete"),
        (f"image_reference@{BACKEND}",),
        (Patch("deployment", "backend", _APPLIED, applier="deploy-bot"),),
        ESCALATED,
    ),
    Break(
        "configmap_deleted",
        "The ConfigMap of a workload that worked was deleted, and a pod is replaced.",
        ("containers_start", "pods_ready"),
        (f"configmap_missing@{BACKEND}",),
        (Delete("configmap", "settings"), Replace("backend")),
        ESCALATED,
    ),
    rollout_row(
        "data_moved",
        "A rollout gives the database another volume and does not start.",
        *("containers_run", "crash"),
        {"env": [{"name": "DATA_DIR", "value": "/missing"}]},
        app="database",
        end=ESCALATED,
        volumes=[{"name": "data", "emptyDir": {}, "persistentVolumeClaim": None}],
    ),
)
PLATFORM = (
    process_row(
        *("kubelet_down", "The kubelet of a node is killed.", "kubelet_down@node/node2"),
        Kill("node2-kubelet"),
    ),
    process_row(
        *("kubelet_frozen", "The kubelet of a node is frozen.", "kubelet_down@node/node2"),
        Pause("node2-kubelet"),
    ),
    process_row(
        *("runtime_down", "The container runtime of a node is killed."),
        *("container_runtime_down@node/node2", Kill("node2-runtime")),
    ),
    process_row(
        *("node_down", "A node ends with everything on it.", "kubelet_down@node/node2"),
        Kill("node2"),
    ),
    process_row(
        *("node_cut", "The cable of a node is cut.", "kubelet_down@node/node2", Unplug("node2")),
    ),
    process_row(
        *("scheduler_down", "The scheduler is killed.", "scheduler_down@cluster"),
        Kill("scheduler"),
    ),
    process_row(
        *("scheduler_frozen", "The scheduler is frozen.", "scheduler_down@cluster"),
        Pause("scheduler"),
    ),
    process_row(
        *("controllers_down", "The controller manager is killed."),
        *("controller_manager_down@cluster", Kill("controllers")),
    ),
    process_row(
        *("api_server_down", "The API server is killed.", "api_server_down@cluster"),
        Kill("apiserver"),
    ),
    process_row(
        *("api_server_frozen", "The API server is frozen.", "api_server_down@cluster"),
        Pause("apiserver"),
    ),
    process_row(*("etcd_down", "etcd is killed.", "etcd_down@cluster", Kill("etcd"))),
    process_row(*("etcd_frozen", "etcd is frozen.", "etcd_down@cluster", Pause("etcd"))),
)

SYSTEM_FAULTS = (*ROLLOUT, *SERVICES, *STORAGE, *DEPENDENCIES, *TRAPS)

_AGAIN = {"spec": {"template": {"metadata": {"annotations": {"release": "2"}}}}}
_BUSY = {"FRONTEND_URL": "http://frontend", "RATE": "40", "REPORT": "/report", "CACHE_MB": "0"}
DAILY = (
    Break(
        "rolling_update",
        "Three workloads are rolled out at once.",
        *((), ()),
        tuple(Patch("deployment", app, _AGAIN) for app in ("frontend", "backend", "worker")),
    ),
    Break(
        "scale_down",
        "A workload is scaled down to one replica.",
        *((), ()),
        (Patch("deployment", "backend", {"spec": {"replicas": 1}}),),
    ),
    Break("drain", "A node is drained and takes pods again.", (), (), (Drain("node2"),)),
    Break(
        "completed_job",
        "A Job runs and completes.",
        *((), ()),
        (Create(job("version", "-version", image="lab.local/coredns:1")),),
    ),
    Break(
        "node_reboot",
        "A node is restarted with everything on it.",
        ("nodes_ready", "pods_ready", "services_backed"),
        (),
        (Reboot("node2"),),
    ),
    Break(
        "noisy_neighbour",
        "Another workload sends many requests.",
        *((), ()),
        (Create(workload("import", "customers", env=_BUSY)),),
    ),
)
