"""Nodes and the control plane: conditions, and the system services that should run."""

from __future__ import annotations

import re
from collections.abc import Iterator

from operator_sre.subjects.kubernetes.snapshot import Node, Snapshot
from operator_sre.subjects.kubernetes.suspicion import CERTAIN, LIKELY, Suspicion, first_match

__all__ = ["find_node_failures"]

# The name of a system service or of a static pod, and the cause when it is not running; what
# others need to run comes first.
_SERVICES = (
    ("container_runtime_down", re.compile(r"containerd|docker|cri-?o|crio")),
    ("kubelet_down", re.compile(r"kubelet")),
    ("proxy_down", re.compile(r"kube-proxy")),
    ("scheduler_down", re.compile(r"scheduler")),
    ("controller_manager_down", re.compile(r"controller-manager")),
    ("api_server_down", re.compile(r"apiserver")),
    ("etcd_down", re.compile(r"etcd")),
    ("dns_down", re.compile(r"coredns|kube-dns")),
    ("network_plugin_down", re.compile(r"flannel|calico|cilium|weave")),
)
_RUNS = re.compile(r"^active \((?:running|exited)\)")
# What the kubelet says of a node that is not ready.
_UNREADY = (
    ("network_plugin_down", re.compile(r"cni|network plugin|network not ready", re.IGNORECASE)),
    (
        "container_runtime_down",
        re.compile(r"container runtime (?:is down|not ready)|PLEG|runtime status check", re.I),
    ),
    ("certificate_expired", re.compile(r"x509|certificate", re.IGNORECASE)),
    ("disk_pressure", re.compile(r"no space left|image filesystem", re.IGNORECASE)),
    ("kubelet_down", re.compile(r"stopped posting", re.IGNORECASE)),
)
_PRESSURES = {
    "MemoryPressure": "memory_pressure",
    "DiskPressure": "disk_pressure",
    "PIDPressure": "pid_pressure",
    "NetworkUnavailable": "network_plugin_down",
}


def find_node_failures(snapshot: Snapshot) -> Iterator[Suspicion]:
    """Nodes that are not ready or under pressure, and system services that do not run."""
    stopped: dict[str, set[str]] = {}
    for (host, unit), state in snapshot.units.items():
        found = first_match(_SERVICES, unit)
        if found and not _RUNS.match(state):
            stopped.setdefault(host, set()).add(found[0])
    for name, causes in stopped.items():
        # Without its runtime the kubelet stops too.
        cause = next(cause for cause, _ in _SERVICES if cause in causes)
        state = next(
            f"{unit} on {name}: {state}"
            for (host, unit), state in snapshot.units.items()
            if host == name and (first_match(_SERVICES, unit) or ("",))[0] == cause
        )
        yield Suspicion.of(
            cause, name, CERTAIN + 0.03, state, explains=_find_hosted(snapshot, name)
        )
    for node in snapshot.nodes:
        if node.name not in stopped:
            yield from _judge_conditions(snapshot, node)
    for pod in snapshot.pods:
        found = first_match(_SERVICES, pod.owner)
        if pod.namespace == "kube-system" and found and not pod.ready:
            target = pod.node or pod.owner
            yield Suspicion.of(found[0], target, LIKELY, f"pod {pod.name} is not ready")


def _judge_conditions(snapshot: Snapshot, node: Node) -> Iterator[Suspicion]:
    hosted = _find_hosted(snapshot, node.name)
    status, message = node.conditions.get("Ready", ("True", ""))
    if status != "True":
        found = first_match(_UNREADY, message)
        cause = found[0] if found else "kubelet_down"
        report = f"node {node.name} is not ready: {message}"
        yield Suspicion.of(cause, node.name, CERTAIN, report, explains=hosted)
        return
    for kind, cause in _PRESSURES.items():
        status, message = node.conditions.get(kind, ("False", ""))
        if status == "True":
            report = f"node {node.name}: {kind}, {message}"
            yield Suspicion.of(cause, node.name, CERTAIN, report, explains=hosted)


def _find_hosted(snapshot: Snapshot, node: str) -> list[str]:
    return [pod.owner for pod in snapshot.pods if pod.node == node]
