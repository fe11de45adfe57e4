"""Kubernetes objects for cases, with everything that a case does not speak of already right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = [
    "IMAGE",
    "Object",
    "affinity",
    "claim",
    "claiming",
    "container",
    "deployment",
    "http",
    "job",
    "meta",
    "pod",
    "probe",
    "quota",
    "requests",
    "service",
    "volume",
    "with_volume",
]

Object = dict[str, Any]
IMAGE = "lab.local/shop:1"


def meta(name: str, **more: Any) -> Object:
    """The metadata of an object; its namespace is that of the case."""
    return {"name": name, **more}


def container(role: str = "backend", **more: Any) -> Object:
    """The sample program in a role, with nothing that it needs to start."""
    env = [{"name": "DATABASE_URL", "value": "http://localhost:1"}]
    found: Object = {
        "name": "app",
        "image": IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "args": [role],
        "env": env,
        "ports": [{"containerPort": 8080}],
        "resources": {"requests": {"cpu": "5m", "memory": "8Mi"}, "limits": {"memory": "64Mi"}},
    }
    return {**found, **more}


def pod(*containers: Object, **more: Any) -> Object:
    """The spec of a pod that ends at once when it is asked to."""
    found: Object = {
        "terminationGracePeriodSeconds": 1,
        "containers": list(containers or (container(),)),
    }
    return {**found, **more}


def deployment(name: str, spec: Object | None = None, **more: Any) -> Object:
    """A Deployment of one replica."""
    template = {"metadata": {"labels": {"app": name}}, "spec": spec or pod()}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": meta(name),
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": name}},
            "template": template,
            **more,
        },
    }


def service(name: str, **more: Any) -> Object:
    """A service of the Deployment with its name."""
    port = {"port": 8080, "targetPort": 8080}
    spec = {"selector": {"app": name}, "ports": [port], **more}
    return {"apiVersion": "v1", "kind": "Service", "metadata": meta(name), "spec": spec}


def quota(**hard: str) -> Object:
    """A quota of the namespace; `_` stands for a full stop."""
    limits = {name.replace("_", "."): value for name, value in hard.items()}
    spec = {"hard": limits}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": meta("limit"), "spec": spec}


def claim(name: str, **more: Any) -> Object:
    """A claim of 10 MiB."""
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "local",
        "resources": {"requests": {"storage": "10Mi"}},
        **more,
    }
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": meta(name),
        "spec": spec,
    }


def volume(name: str, node: str, *, labels: Mapping[str, str] | None = None) -> Object:
    """A volume of 20 MiB on a node, for one claim."""
    term = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": meta(name, labels=dict(labels or {"case": name})),
        "spec": {
            "capacity": {"storage": "20Mi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": f"class-{name}",
            "persistentVolumeReclaimPolicy": "Retain",
            "hostPath": {"path": f"/var/lib/volumes/{name}", "type": "DirectoryOrCreate"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [term]}]}},
        },
    }


def job(name: str, spec: Object, **more: Any) -> Object:
    """A Job without a second try."""
    template = {"spec": {"restartPolicy": "Never", **spec}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": meta(name),
        "spec": {"backoffLimit": 0, "template": template, **more},
    }


def requests(**amount: str) -> Object:
    """Resource requests of a container."""
    return {"resources": {"requests": amount}}


def probe(**how: Any) -> Object:
    """A probe that fails after two seconds."""
    return {"periodSeconds": 1, "failureThreshold": 2, **how}


def http(path: str = "/healthz", port: int = 8080, **more: Any) -> Object:
    """What an HTTP probe asks for."""
    return {"httpGet": {"path": path, "port": port, **more}}


def affinity(kind: str, rule: Object | list[Object]) -> Object:
    """A rule that the scheduler must obey."""
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": rule}}}


def with_volume(source: Object) -> Object:
    """A pod with one volume."""
    mounted = container(volumeMounts=[{"name": "data", "mountPath": "/data"}])
    return pod(mounted, volumes=[{"name": "data", **source}])


def claiming(name: str) -> Object:
    """A pod with the volume of a claim."""
    return with_volume({"persistentVolumeClaim": {"claimName": name}})
