"""Objects as a real API server has them, small: a Deployment with its ReplicaSet and pods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

Object = dict[str, Any]

NAMESPACE = "bakery"
START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def moment(seconds_ago: float = 0.0, *, now: datetime | None = None) -> str:
    """A time as the API writes it."""
    at = (now or datetime.now(UTC)) - timedelta(seconds=seconds_ago)
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def named(name: str, *, age_s: float = 3600.0, namespace: str = NAMESPACE, **more: Any) -> Object:
    """The metadata of an object."""
    found: Object = {"name": name, "creationTimestamp": moment(age_s), **more}
    return {**found, "namespace": namespace} if namespace else found


def node(name: str, *, ready: bool = True, message: str = "") -> Object:
    """A node with 4 cores and 8 GiB."""
    status = "True" if ready else "Unknown"
    condition = {"type": "Ready", "status": status, "message": message}
    return {
        "metadata": named(name, namespace="", labels={"kubernetes.io/hostname": name}),
        "spec": {},
        "status": {
            "conditions": [condition],
            "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
            "nodeInfo": {"kubeletVersion": "v1.34.4"},
        },
    }


def pod_spec(app: str, **more: Any) -> Object:
    """What the template of a workload asks for."""
    container = {
        "name": app,
        "image": f"registry.example/{app}:1",
        "ports": [{"containerPort": 8080, "name": "http"}],
        "readinessProbe": {"httpGet": {"path": "/ready", "port": 8080}, "periodSeconds": 1},
        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
    }
    return {"containers": [{**container, **more}]}


def running(app: str, *, up_s: float = 3000.0) -> Object:
    """The status of a pod that serves."""
    return {
        "phase": "Running",
        "startTime": moment(up_s),
        "conditions": [
            {"type": "PodScheduled", "status": "True"},
            {"type": "Ready", "status": "True", "lastTransitionTime": moment(up_s)},
        ],
        "containerStatuses": [
            {
                "name": app,
                "ready": True,
                "started": True,
                "restartCount": 0,
                "state": {"running": {"startedAt": moment(up_s)}},
            }
        ],
    }


def waiting(app: str, why: str, message: str = "", **last: Any) -> Object:
    """The status of a pod whose container waits, after an end if there was one."""
    state: Object = {
        "name": app,
        "ready": False,
        "started": False,
        "restartCount": 3 if last else 0,
        "state": {"waiting": {"reason": why, "message": message}},
    }
    if last:
        state["lastState"] = {"terminated": {"finishedAt": moment(2), **last}}
    return {
        "phase": "Pending" if not last else "Running",
        "startTime": moment(60),
        "conditions": [
            {"type": "PodScheduled", "status": "True"},
            {"type": "Ready", "status": "False", "lastTransitionTime": moment(60)},
        ],
        "containerStatuses": [state],
    }


def workload(
    app: str,
    *,
    replicas: int = 1,
    status: Object | None = None,
    pod: Object | None = None,
    spec: Object | None = None,
    place: str = "one",
    namespace: str = NAMESPACE,
) -> Iterator[tuple[str, Object]]:
    """A Deployment, its ReplicaSet, its pods and a service in front of them."""
    labels = {"app": app}
    template = {"metadata": {"labels": labels}, "spec": spec or pod_spec(app)}
    yield (
        "deployment",
        {
            "metadata": named(app, namespace=namespace, generation=1),
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": labels},
                "template": template,
            },
            "status": status
            or {"availableReplicas": replicas, "readyReplicas": replicas, "updatedReplicas": 1},
        },
    )
    owner = {"kind": "Deployment", "name": app, "controller": True}
    set_name = f"{app}-5d8f9c7b6d"
    metadata = named(set_name, namespace=namespace, ownerReferences=[owner])
    yield "replicaset", {"metadata": metadata, "spec": {"replicas": replicas}}
    owner = {"kind": "ReplicaSet", "name": set_name, "controller": True}
    for index in range(replicas):
        yield (
            "pod",
            {
                "metadata": named(
                    f"{set_name}-{index:05d}",
                    namespace=namespace,
                    labels=labels,
                    ownerReferences=[owner],
                ),
                "spec": {**template["spec"], "nodeName": place},
                "status": pod or running(app),
            },
        )
    yield from service(app, namespace=namespace)


def service(
    app: str, *, selector: Mapping[str, str] | None = None, namespace: str = NAMESPACE
) -> Iterator[tuple[str, Object]]:
    """A service and the endpoints behind it."""
    yield (
        "service",
        {
            "metadata": named(app, namespace=namespace),
            "spec": {
                "selector": dict(selector or {"app": app}),
                "ports": [{"port": 80, "targetPort": 8080}],
            },
        },
    )
    labels = {"kubernetes.io/service-name": app}
    ready = {"addresses": ["10.1.0.9"], "conditions": {"ready": True}}
    yield (
        "endpointslice",
        {
            "metadata": named(f"{app}-x", namespace=namespace, labels=labels),
            "endpoints": [ready] if selector is None else [],
            "ports": [{"port": 8080}],
        },
    )


def event(kind: str, name: str, reason: str, message: str, **more: Any) -> Object:
    """A fresh warning."""
    about = {"kind": kind, "name": name, "namespace": NAMESPACE}
    return {
        "metadata": named(f"{name}.{reason}", age_s=1),
        "involvedObject": about,
        "type": "Warning",
        "reason": reason,
        "message": message,
        "lastTimestamp": moment(1),
        "count": 2,
        **more,
    }
