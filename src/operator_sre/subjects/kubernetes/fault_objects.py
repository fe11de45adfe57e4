"""What the rows of faults are made of: changes of the sample, and objects beside it."""

from __future__ import annotations

from typing import Any

from operator_protocols.ports import CorrectOutcome
from operator_sre.subjects.kubernetes.breaks import Break, Create, Object, Patch, Replace, Step

__all__ = [
    "BACKEND",
    "ESCALATED",
    "IMAGE",
    "NODES",
    "NODE_NAME",
    "REGISTRY",
    "claim_row",
    "image_row",
    "job",
    "metadata",
    "probe_row",
    "process_row",
    "quota_row",
    "rollout_row",
    "service_row",
    "template",
    "volume",
    "workload",
]

ESCALATED = CorrectOutcome.ESCALATED
REGISTRY = "10.99.0.1:5000"
IMAGE = "lab.local/shop:1"
NODES = ("node1", "node2")
BACKEND = "shop/deployment/backend"
NODE_NAME = "kubernetes.io/hostname"


def template(app: str, container: Object | None = None, **pod: Any) -> Patch:
    """Another pod template for a workload: fields of its container, and of the pod."""
    own = {"containers": [{"name": app, **container}]} if container else {}
    spec = {"template": {"spec": {**pod, **own}}}
    return Patch("deployment", app, {"spec": spec})


def rollout_row(
    name: str,
    sentence: str,
    invariant: str,
    cause: str,
    container: Object | None = None,
    *more: Step,
    app: str = "backend",
    end: CorrectOutcome = CorrectOutcome.MITIGATED,
    needs_pods: bool = True,
    **pod: Any,
) -> Break:
    """A change of a pod template that does not work."""
    steps = (*more, template(app, container, **pod))
    truths = (f"{cause}@shop/deployment/{app}",)
    # A container that cannot run is often not ready either.
    others = ("pods_ready", "rollouts_complete", "services_backed", "containers_run")
    breaks = tuple(dict.fromkeys((invariant, *others, "containers_start")))
    return Break(name, sentence, breaks, truths, steps, end, needs_pods)


def image_row(name: str, sentence: str, cause: str, image: str, *more: Step, **how: Any) -> Break:
    container = {"image": image, "imagePullPolicy": "IfNotPresent"}
    return rollout_row(name, sentence, "images_pulled", cause, container, *more, **how)


def probe_row(name: str, sentence: str, kind: str, probe: Object, **container: Any) -> Break:
    """A probe of the back end that fails although the container is well."""
    own = {"periodSeconds": 1, "failureThreshold": 2, **probe}
    invariant = "pods_ready" if kind == "readiness" else "containers_run"
    cause = f"{kind}_probe_{name.rpartition('_')[2]}"
    return rollout_row(name, sentence, invariant, cause, {f"{kind}Probe": own, **container})


def metadata(name: str, **more: Any) -> Object:
    return {"name": name, "namespace": "shop", **more}


def workload(name: str, role: str, *, env: Object | None = None, **pod: Any) -> Object:
    """A Deployment beside the sample."""
    container = {
        "name": name,
        "image": IMAGE,
        "imagePullPolicy": "Never",
        "args": [role],
        "env": [{"name": key, "value": value} for key, value in (env or {}).items()],
        "resources": {"requests": {"cpu": "5m", "memory": "8Mi"}, "limits": {"memory": "64Mi"}},
        "volumeMounts": [{"name": each["name"], "mountPath": "/data"} for each in pod["volumes"]]
        if "volumes" in pod
        else [],
    }
    template = {
        "metadata": {"labels": {"app": name}},
        "spec": {"terminationGracePeriodSeconds": 1, "containers": [container], **pod},
    }
    selector = {"matchLabels": {"app": name}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(name),
        "spec": {"replicas": 1, "selector": selector, "template": template},
    }


def job(name: str, word: str, *, image: str = IMAGE, **spec: Any) -> Object:
    container = {"name": name, "image": image, "imagePullPolicy": "Never", "args": [word]}
    pod = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata(name),
        "spec": {"backoffLimit": 0, "template": {"spec": pod}, **spec},
    }


def quota_row(name: str, cause: str, **hard: str) -> Break:
    limits = {key.replace("_", "."): value for key, value in hard.items()}
    item = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": metadata("team-limit"),
        "spec": {"hard": limits},
    }
    sentence = "A quota of the namespace allows less than its pods use, and one is replaced."
    steps = (Create(item), Replace("backend"))
    return Break(
        *(name, sentence, ("pods_admitted", "services_backed"), (f"{cause}@namespace/shop",)),
        *(steps, ESCALATED),
        needs_pods=False,
    )


def service_row(name: str, sentence: str, cause: str, spec: Object, *more: Step) -> Break:
    steps = (Patch("service", "backend", {"spec": spec}), *more)
    truths = (f"{cause}@shop/service/backend",)
    return Break(name, sentence, ("services_backed", "pods_ready"), truths, steps)


def claim_row(name: str, sentence: str, cause: str, volume: Object | None, **spec: Any) -> Break:
    """A workload with a claim that no volume fits."""
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata("reports"),
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "10Mi"}},
            **spec,
        },
    }
    source = {"name": "data", "persistentVolumeClaim": {"claimName": "reports"}}
    made = [Create(volume)] if volume else []
    steps = (*made, Create(claim), Create(workload("reports", "sleep", volumes=[source])))
    truths = (f"{cause}@shop/persistentvolumeclaim/reports",)
    breaks = ("volumes_bound", "pods_scheduled")
    return Break(name, sentence, breaks, truths, steps, ESCALATED, needs_pods=False)


def process_row(name: str, sentence: str, truth: str, step: Step, *others: str) -> Break:
    """A part of a node or of the control plane. Nothing in the cluster can start it again."""
    first = "nodes_ready" if "@node" in truth else "control_plane_works"
    breaks = (first, *others, "services_backed", "pods_ready", "pods_scheduled", "objects_deleted")
    return Break(name, sentence, breaks, (truth,), (step,), ESCALATED)


def volume(name: str, storage_class: str) -> Object:
    term = {"key": NODE_NAME, "operator": "In", "values": ["node2"]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "20Mi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            "hostPath": {"path": f"/var/lib/volumes/{name}", "type": "DirectoryOrCreate"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [term]}]}},
        },
    }
