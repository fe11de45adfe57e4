"""A small cluster of our own: a page, orders, a ledger with a volume, and a nightly job."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

Object = dict[str, Any]

NAMESPACE = "bakery"


class Cluster:
    """API objects that a test changes, by kind and name."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], Object] = {}
        self.logs: dict[str, list[str]] = {}
        self.units: dict[tuple[str, str], str] = {}
        self.reached: dict[tuple[str, int], bool] = {}
        self.declared: list[tuple[str, str]] = []
        for name in ("head", "one", "two"):
            self.add_node(name)
        self.objects["Node", "head"]["spec"]["unschedulable"] = True
        self.objects["Node", "head"]["metadata"]["labels"]["node-role/control-plane"] = ""
        self.add_workload("page", 8000, {"ORDERS_ADDR": "orders:7000", "MODE": "fast"})
        self.add_workload("orders", 7000, {"LEDGER_ADDR": "ledger:5432"})
        self.add_workload("ledger", 5432, {})
        spec = self.spec("ledger")
        spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
        self.put("PersistentVolumeClaim", "data", spec=_claim(), status={"phase": "Bound"})
        self.objects["PersistentVolumeClaim", "data"]["spec"]["volumeName"] = "disk"
        self.put("PersistentVolume", "disk", spec=_volume(), status={"phase": "Bound"})
        self.put("StorageClass", "slow")
        self.put("ServiceAccount", "default")
        self.put("ConfigMap", "menu")
        self.put("Secret", "oven")

    def put(self, kind: str, name: str, **fields: Any) -> Object:
        """Add an object."""
        metadata = {"name": name, "namespace": NAMESPACE, "labels": {}}
        item: Object = {"kind": kind, "metadata": metadata, **fields}
        self.objects[kind, name] = item
        return item

    def add_node(self, name: str) -> None:
        """A node that is ready, with 4 cores and 8 GiB."""
        room = {"cpu": "4", "memory": "8Gi", "pods": "110"}
        conditions = [{"type": "Ready", "status": "True", "message": "kubelet is posting"}]
        item = self.put(
            "Node", name, spec={}, status={"allocatable": room, "conditions": conditions}
        )
        item["metadata"]["labels"] = {"kubernetes.io/hostname": name, "disk": "fast"}

    def add_workload(self, name: str, port: int, env: dict[str, str]) -> None:
        """A Deployment with one ready pod, and a service in front of it."""
        probe = {"httpGet": {"port": port, "path": "/live"}}
        container: Object = {
            "name": "main",
            "image": f"registry.example/bakery/{name}:1.4",
            "ports": [{"containerPort": port}],
            "env": [{"name": key, "value": value} for key, value in env.items()],
            "resources": {
                "requests": {"cpu": "100m", "memory": "64Mi"},
                "limits": {"memory": "128Mi"},
            },
            "livenessProbe": deepcopy(probe),
            "readinessProbe": deepcopy(probe),
        }
        labels = {"app": name}
        template = {
            "metadata": {"labels": labels},
            "spec": {"containers": [container], "serviceAccountName": "default"},
        }
        self.put(
            "Deployment",
            name,
            spec={"replicas": 1, "selector": {"matchLabels": labels}, "template": template},
            status={"readyReplicas": 1},
        )
        owner = self.put("ReplicaSet", f"{name}-5d8f7c9b6d")
        owner["metadata"]["ownerReferences"] = [{"kind": "Deployment", "name": name}]
        self.add_pod(name)
        ports = [{"port": port, "targetPort": port, "protocol": "TCP"}]
        self.put(
            "Service",
            name,
            spec={"selector": dict(labels), "ports": ports, "clusterIP": f"10.0.0.{port % 250}"},
            status={"endpoints": [f"10.1.0.{port % 250}:{port}"]},
        )

    def add_pod(self, name: str) -> Object:
        """A ready pod of a workload."""
        pod = self.put(
            "Pod",
            f"{name}-5d8f7c9b6d-x2k4p",
            spec=self.spec(name),
            status={
                "phase": "Running",
                "containerStatuses": [{"name": "main", "ready": True, "state": {"running": {}}}],
            },
        )
        pod["spec"] = {**pod["spec"], "nodeName": "one"}
        pod["metadata"]["labels"] = {"app": name}
        owner = {"kind": "ReplicaSet", "name": f"{name}-5d8f7c9b6d"}
        pod["metadata"]["ownerReferences"] = [owner]
        return pod

    def spec(self, name: str) -> Object:
        """The pod template of a workload; its pod shares the containers."""
        spec: Object = self.objects["Deployment", name]["spec"]["template"]["spec"]
        return spec

    def container(self, name: str) -> Object:
        """The container of a workload, in its template and its pod."""
        found: Object = self.spec(name)["containers"][0]
        return found

    def pod(self, name: str) -> Object:
        """The pod of a workload."""
        return self.objects["Pod", f"{name}-5d8f7c9b6d-x2k4p"]

    def remove_pod(self, name: str) -> None:
        """Without the pod of a workload."""
        del self.objects["Pod", f"{name}-5d8f7c9b6d-x2k4p"]
        self.objects["Deployment", name]["status"]["readyReplicas"] = 0
        self.objects["Service", name]["status"]["endpoints"] = []

    def unplace(self, name: str, message: str = "") -> None:
        """The pod of a workload has no node; perhaps the scheduler says why."""
        pod = self.pod(name)
        pod["spec"] = {**self.spec(name), "nodeName": ""}
        pod["status"] = {"phase": "Pending"}
        self.objects["Deployment", name]["status"]["readyReplicas"] = 0
        if message:
            self.tell("Pod", pod["metadata"]["name"], "FailedScheduling", message)

    def set_state(self, name: str, **state: Any) -> None:
        """The state of the container in the pod of a workload, which is not ready."""
        status = {"name": "main", "ready": False, "restartCount": 3, **state}
        self.pod(name)["status"]["containerStatuses"] = [status]
        self.objects["Deployment", name]["status"]["readyReplicas"] = 0

    def wait(self, name: str, reason: str, event: str = "", message: str = "") -> None:
        """The container of a workload waits; perhaps an event says why."""
        self.set_state(name, restartCount=0, state={"waiting": {"reason": reason}})
        self.pod(name)["status"]["phase"] = "Pending"
        if message:
            self.tell("Pod", self.pod(name)["metadata"]["name"], event or "Failed", message)

    def tell(self, kind: str, name: str, reason: str, message: str, age_s: float = 20.0) -> None:
        """An event about an object."""
        about = {"kind": kind, "name": name}
        self.objects["Event", f"{kind}-{name}-{reason}-{len(self.objects)}"] = {
            "kind": "Event",
            "metadata": {"name": "event"},
            "involvedObject": about,
            "type": "Warning",
            "reason": reason,
            "message": message,
            "age_s": age_s,
        }

    def create_fails(self, name: str, message: str) -> None:
        """The pod of a workload was not created."""
        self.remove_pod(name)
        self.tell("ReplicaSet", f"{name}-5d8f7c9b6d", "FailedCreate", message)

    def probe_fails(self, name: str, kind: str, message: str) -> None:
        """A probe of a workload fails, so that it restarts or is not ready."""
        self.set_state(name, restartCount=3 if kind == "liveness" else 0, state={"running": {}})
        pod = self.pod(name)["metadata"]["name"]
        self.tell("Pod", pod, "Unhealthy", f"{kind.title()} probe failed: {message}")

    def service(self, name: str) -> Object:
        """The spec of a service."""
        spec: Object = self.objects["Service", name]["spec"]
        return spec

    def claim(self, **spec: Any) -> None:
        """The claim of the ledger is not bound, and asks for something else."""
        item = self.objects["PersistentVolumeClaim", "data"]
        item["spec"] = {**_claim(), **spec}
        item["status"] = {"phase": "Pending"}
        self.objects["PersistentVolume", "disk"]["spec"].pop("claimRef")
        waits = "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims."
        self.unplace("ledger", waits)


def _claim() -> Object:
    requests = {"requests": {"storage": "1Gi"}}
    return {"accessModes": ["ReadWriteOnce"], "resources": requests, "storageClassName": "slow"}


def _volume() -> Object:
    return {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "slow",
        "claimRef": {"namespace": NAMESPACE, "name": "data"},
    }
