"""A Kubernetes cluster at one moment, as far as invariants and causes need it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from operator_protocols.domain.system_record import Reading

__all__ = [
    "Claim",
    "Container",
    "Event",
    "Node",
    "Pod",
    "PodSpec",
    "Port",
    "Probe",
    "Quota",
    "Reference",
    "Service",
    "Snapshot",
    "Taint",
    "Volume",
    "Workload",
    "parse_quantity",
]

_UNITS = {
    **{unit: 1000.0**power for power, unit in enumerate("num kMGT", start=-3) if unit != " "},
    **{unit: 1024.0**power for power, unit in enumerate(("Ki", "Mi", "Gi", "Ti"), start=1)},
}
_QUANTITY = re.compile(r"^(\d+(?:\.\d+)?)([A-Za-z]*)$")


@dataclass(frozen=True, slots=True)
class Port:
    """A port of a container or a service; `target` is where a service sends to."""

    number: int
    protocol: str = "TCP"
    name: str = ""
    target: str = ""


@dataclass(frozen=True, slots=True)
class Probe:
    """A check of the kubelet: how it asks, and where."""

    kind: str
    how: str
    port: str = ""
    path: str = ""
    delay_s: int = 0
    timeout_s: int = 1


@dataclass(frozen=True, slots=True)
class Reference:
    """A ConfigMap or Secret that a pod needs to start, perhaps a single key of it."""

    kind: str
    name: str
    key: str = ""


@dataclass(frozen=True, slots=True)
class Container:
    """A container as declared, and its state in a pod; `exit_now` where it has not run again."""

    name: str
    image: str = ""
    ports: tuple[Port, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    references: tuple[Reference, ...] = ()
    requests: Mapping[str, float] = field(default_factory=dict)
    limits: Mapping[str, float] = field(default_factory=dict)
    probes: tuple[Probe, ...] = ()
    init: bool = False
    waiting: str = ""
    message: str = ""
    exit_reason: str = ""
    exit_code: int | None = None
    exit_now: bool = False
    restarts: int = 0
    ready: bool = True


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint of a node, or what a pod tolerates."""

    key: str
    value: str = ""
    effect: str = ""
    exists: bool = False


@dataclass(frozen=True, slots=True)
class PodSpec:
    """What a pod asks for, in a workload's template or in a pod."""

    labels: Mapping[str, str] = field(default_factory=dict)
    containers: tuple[Container, ...] = ()
    account: str = ""
    selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Taint, ...] = ()
    claims: tuple[str, ...] = ()
    references: tuple[Reference, ...] = ()
    pull_secrets: tuple[str, ...] = ()
    affinity: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod; `owner` is the workload that it belongs to."""

    name: str
    namespace: str
    owner: str
    spec: PodSpec
    node: str = ""
    phase: str = ""
    reason: str = ""
    message: str = ""
    address: str = ""
    age_s: float | None = None

    @property
    def ready(self) -> bool:
        """Whether it serves: running, with every container ready."""
        mains = [container for container in self.spec.containers if not container.init]
        return self.phase == "Running" and all(container.ready for container in mains)

    @property
    def restarts(self) -> int:
        """The restarts of its containers."""
        return sum(container.restarts for container in self.spec.containers)


@dataclass(frozen=True, slots=True)
class Workload:
    """A Deployment, StatefulSet, DaemonSet or Job."""

    kind: str
    name: str
    namespace: str
    spec: PodSpec
    selector: Mapping[str, str] = field(default_factory=dict)
    desired: int | None = None
    ready: int | None = None


@dataclass(frozen=True, slots=True)
class Service:
    """A service with the addresses behind it; None where they were not observed."""

    name: str
    namespace: str
    selector: Mapping[str, str] = field(default_factory=dict)
    ports: tuple[Port, ...] = ()
    endpoints: tuple[str, ...] | None = None
    address: str = ""


@dataclass(frozen=True, slots=True)
class Node:
    """A node: its conditions by type, and what is left for pods."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    conditions: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    cordoned: bool = False
    allocatable: Mapping[str, float] = field(default_factory=dict)
    requested: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Claim:
    """A PersistentVolumeClaim."""

    name: str
    namespace: str
    phase: str = ""
    storage_class: str | None = None
    size: float | None = None
    modes: tuple[str, ...] = ()
    selector: Mapping[str, str] = field(default_factory=dict)
    volume: str = ""


@dataclass(frozen=True, slots=True)
class Volume:
    """A PersistentVolume; `terms` are the node selector terms of where it can be used."""

    name: str
    phase: str = ""
    storage_class: str = ""
    size: float | None = None
    modes: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    claim: str = ""
    terms: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Quota:
    """A ResourceQuota: the limit and the use of each resource."""

    name: str
    namespace: str
    hard: Mapping[str, float] = field(default_factory=dict)
    used: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Event:
    """An event about an object; `age_s` is None where it is unknown."""

    kind: str
    name: str
    reason: str
    message: str
    warning: bool
    age_s: float | None = None
    count: int = 1


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that was observed. `listed` are the kinds of which every object is known.

    `logs` has lines of each workload, `units` the state of system services by node and name,
    `reached` whether a service accepted a connection on a port, `calls` which workloads a
    workload was seen to call, `declared` the kinds and names that were applied.
    """

    pods: tuple[Pod, ...] = ()
    workloads: tuple[Workload, ...] = ()
    services: tuple[Service, ...] = ()
    nodes: tuple[Node, ...] = ()
    claims: tuple[Claim, ...] = ()
    volumes: tuple[Volume, ...] = ()
    quotas: tuple[Quota, ...] = ()
    events: tuple[Event, ...] = ()
    names: Mapping[str, frozenset[str]] = field(default_factory=dict)
    listed: frozenset[str] = frozenset()
    logs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    units: Mapping[tuple[str, str], str] = field(default_factory=dict)
    reached: Mapping[tuple[str, int], bool] = field(default_factory=dict)
    readings: tuple[Reading, ...] = ()
    calls: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    declared: frozenset[tuple[str, str]] = frozenset()

    def pods_of(self, workload: str) -> list[Pod]:
        """The pods of one workload."""
        return [pod for pod in self.pods if pod.owner == workload]

    def select_workloads(self, service: Service) -> list[Workload]:
        """The workloads whose pods a service selects."""
        if not service.selector:
            return []
        return [
            workload
            for workload in self.workloads
            if workload.namespace == service.namespace
            and service.selector.items() <= workload.spec.labels.items()
        ]

    def lacks(self, kind: str, name: str) -> bool:
        """Whether an object certainly does not exist; False where its kind was not listed."""
        return kind in self.listed and name not in self.names.get(kind, frozenset())


def parse_quantity(text: object) -> float | None:
    """A quantity of the API as a number: `100m` is 0.1, `1Ki` is 1024."""
    match = _QUANTITY.match(str(text).strip())
    if not match or (match.group(2) and match.group(2) not in _UNITS):
        return None
    return float(match.group(1)) * _UNITS.get(match.group(2), 1.0)
