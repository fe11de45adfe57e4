"""Services that lead nowhere, and claims that no volume is bound to. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from operator_sre.subjects.kubernetes.dependencies import addresses_of, error_lines
from operator_sre.subjects.kubernetes.snapshot import Service, Snapshot
from operator_sre.subjects.kubernetes.symptoms import Symptom, age_of

__all__ = ["claim_symptoms", "count_endpoints", "service_callers", "service_symptoms"]

Object = Mapping[str, Any]

# Controllers fill the endpoints of a new service within a second or two.
SETTLE_S = 5.0
# No address in an environment leads to the name service, and every pod asks it.
DNS_PORT = 53
# One failed call may be of the moment at which the service or its pods changed.
LINES_MIN = 2
SLICE_LABEL = "kubernetes.io/service-name"
_WAITS = "WaitForFirstConsumer"


def count_endpoints(slices: Sequence[Object], *, ports: bool) -> tuple[str, ...]:
    """The addresses of the ready endpoints in the slices of one service.

    Of a service that names `ports`, an endpoint without one leads nowhere: its pod lacks the port.
    """
    return tuple(
        f"{address}:{port.get('port')}"
        for item in slices
        for endpoint in item.get("endpoints") or ()
        if (endpoint.get("conditions") or {}).get("ready") is not False
        for address in endpoint.get("addresses") or ()
        for port in item.get("ports") or ([] if ports else [{}])
    )


def service_callers(snapshot: Snapshot, service: Service) -> list[str]:
    """The workloads whose environment has the address of a service."""
    return [
        workload.name
        for workload in snapshot.workloads
        if any(address.name == service.name for address in addresses_of(workload))
    ]


def service_symptoms(snapshot: Snapshot, ages: Mapping[str, float]) -> Iterator[Symptom]:
    """Services that are called and cannot answer, and why not for the reason of their pods."""
    for service in snapshot.services:
        if not service.selector or ages.get(service.name, 0.0) < SETTLE_S:
            continue
        callers = service_callers(snapshot, service)
        if DNS_PORT in {port.number for port in service.ports}:
            callers.append("every pod")
        behind = snapshot.select_workloads(service)
        pods = [
            pod
            for pod in snapshot.pods
            if pod.namespace == service.namespace
            and service.selector.items() <= pod.spec.labels.items()
        ]
        namesake = any(each.name == service.name for each in snapshot.workloads)
        why = ""
        if not service.endpoints:
            if not pods and not behind and (callers or namesake):
                why = "its selector matches no pod"
            elif behind and callers and all(each.desired == 0 for each in behind):
                why = "everything behind it is scaled to zero"
            elif any(pod.ready for pod in pods):
                why = "pods are ready, and none of their ports is the one it names"
        elif missed := _find_undeclared(service, snapshot):
            failing = [
                name
                for name in callers
                if sum(service.name in line for line in error_lines(snapshot, name)) >= LINES_MIN
            ]
            why = f"{', '.join(failing)} cannot reach it; {missed}" if failing else ""
        if why:
            yield Symptom("services_backed", "service", service.namespace, service.name, why)


def _find_undeclared(service: Service, snapshot: Snapshot) -> str:
    """A port that it sends to and that no container behind it declares; "" for none."""
    declared = {
        (str(port.number), port.protocol)
        for workload in snapshot.select_workloads(service)
        for container in workload.spec.containers
        for port in container.ports
    }
    for port in service.ports:
        if declared and port.target.isdecimal() and (port.target, port.protocol) not in declared:
            return f"it sends to port {port.target}/{port.protocol}, which no container declares"
    return ""


def claim_symptoms(
    claim: Object, *, classes: Mapping[str, str], used_by: str, refused: bool, now: datetime
) -> Iterator[Symptom]:
    """A claim that stays unbound although a pod needs it; `classes` has the binding modes.

    A claim that a controller has `refused` gets no time to be bound.
    """
    metadata, spec = claim.get("metadata") or {}, claim.get("spec") or {}
    if (claim.get("status") or {}).get("phase") != "Pending" or metadata.get("deletionTimestamp"):
        return
    age_s = age_of(metadata.get("creationTimestamp"), now)
    mode = classes.get(str(spec.get("storageClassName") or ""))
    if (age_s < SETTLE_S and not refused) or (mode == _WAITS and not used_by):
        return
    namespace, name = str(metadata.get("namespace") or ""), str(metadata.get("name") or "")
    needed = f", and {used_by} needs it" if used_by else ""
    kind = "persistentvolumeclaim"
    yield Symptom("volumes_bound", kind, namespace, name, f"no volume is bound to it{needed}")
