"""The facts of an object that every check needs: whether it can break anything, and what is
configured. Pure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from operator_sre.subjects.kubernetes.resources import WORKLOAD_KINDS
from operator_sre.subjects.kubernetes.snapshot import parse_quantity
from operator_sre.subjects.kubernetes.store import Facts

__all__ = ["condition_of", "controller_of", "facts_of"]

Object = Mapping[str, Any]
_PRESSURES = ("MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable")
_REVISION = "deployment.kubernetes.io/revision"
# Who manages an object, by the label or annotation that each leaves; the value names the version.
_MANAGERS = {
    "helm.sh/chart": "helm_chart",
    "argocd.argoproj.io/instance": "argocd_application",
    "argocd.argoproj.io/tracking-id": "argocd_application",
    "kustomize.toolkit.fluxcd.io/name": "flux_kustomization",
    "helm.toolkit.fluxcd.io/name": "flux_release",
    "app.kubernetes.io/version": "app_version",
}
_encode = msgspec.json.Encoder(order="deterministic").encode


def facts_of(kind: str, item: Object) -> Facts:
    """The facts of an object as the API has it."""
    if kind == "pod":
        return _pod_facts(item)
    if kind in WORKLOAD_KINDS:
        readings = _workload_readings(kind, item)
        labels, ports = _find_ports(item)
        return Facts(
            _is_settled(kind, item),
            readings,
            owner=controller_of(item)[1],
            labels=labels,
            ports=ports,
        )
    if kind == "service":
        spec = item.get("spec") or {}
        targets = [each.get("targetPort", each.get("port")) for each in spec.get("ports") or ()]
        return Facts(
            labels=frozenset((spec.get("selector") or {}).items()),
            ports=frozenset(str(each) for each in targets if str(each).isdecimal()),
        )
    if kind == "node":
        return Facts(quiet=_is_node_well(item), readings=_node_readings(item))
    if kind == "persistentvolumeclaim":
        return Facts(quiet=(item.get("status") or {}).get("phase") == "Bound")
    if kind == "configmap":
        return Facts(quiet=True, readings={"digest": str(item.get("digest", ""))})
    if kind == "namespace":
        return Facts(quiet=not (item.get("metadata") or {}).get("deletionTimestamp"))
    if kind == "replicaset":
        return Facts(quiet=True, owner=controller_of(item)[1])
    if kind == "event":
        return Facts(reason=str(item.get("reason") or ""))
    return Facts(quiet=kind not in ("horizontalpodautoscaler", "lease"))


def controller_of(item: Object) -> tuple[str, str]:
    """Kind and name of what controls an object; empty where nothing does."""
    for owner in (item.get("metadata") or {}).get("ownerReferences") or ():
        if owner.get("controller"):
            return str(owner.get("kind", "")).lower(), str(owner.get("name", ""))
    return "", ""


def condition_of(item: Object, kind: str) -> Object:
    """The condition of that type, or an empty one."""
    for condition in (item.get("status") or {}).get("conditions") or ():
        if condition.get("type") == kind:
            found: Object = condition
            return found
    return {}


def _pod_facts(item: Object) -> Facts:
    spec, status = item.get("spec") or {}, item.get("status") or {}
    phase = status.get("phase")
    deleted = bool((item.get("metadata") or {}).get("deletionTimestamp"))
    ready = condition_of(item, "Ready").get("status") == "True"
    states = (
        *(status.get("containerStatuses") or ()),
        *(status.get("initContainerStatuses") or ()),
    )
    # A container that was restarted is checked, because it may have been killed a moment ago.
    steady = all(state.get("restartCount", 0) == 0 for state in states)
    cpu = memory = 0.0
    for container in spec.get("containers") or ():
        wanted = (container.get("resources") or {}).get("requests") or {}
        cpu += parse_quantity(wanted.get("cpu", "0")) or 0.0
        memory += parse_quantity(wanted.get("memory", "0")) or 0.0
    over = phase in ("Succeeded", "Failed")
    return Facts(
        quiet=(phase == "Succeeded" and not deleted) or (ready and steady and not deleted),
        owner=controller_of(item)[1],
        node=str(spec.get("nodeName") or ""),
        requests=(0.0, 0.0) if over else (cpu, memory),
    )


def _find_ports(item: Object) -> tuple[frozenset[tuple[str, str]], frozenset[str]]:
    """The labels of the pods of a workload, and the ports that they declare or that probes ask."""
    template = (item.get("spec") or {}).get("template") or {}
    labels = (template.get("metadata") or {}).get("labels") or {}
    ports: set[str] = set()
    for container in (template.get("spec") or {}).get("containers") or ():
        ports |= {str(port.get("containerPort")) for port in container.get("ports") or ()}
        for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
            for how in ("httpGet", "tcpSocket", "grpc"):
                number = ((container.get(probe) or {}).get(how) or {}).get("port")
                ports |= {str(number)} if number else set()
    return frozenset(labels.items()), frozenset(ports)


def _is_settled(kind: str, item: Object) -> bool:
    """Whether a workload has all that it wants, and reports no condition that says otherwise."""
    metadata, spec, status = (item.get(key) or {} for key in ("metadata", "spec", "status"))
    if metadata.get("deletionTimestamp"):
        return True
    if kind == "cronjob":
        return True
    if kind == "job":
        return condition_of(item, "Failed").get("status") != "True"
    if kind == "daemonset":
        wanted = status.get("desiredNumberScheduled", 0)
        return bool(status.get("numberAvailable", 0) >= wanted)
    wanted = spec.get("replicas", 1)
    progress = condition_of(item, "Progressing").get("status", "True")
    refused = condition_of(item, "ReplicaFailure").get("status", "False")
    have = status.get("availableReplicas", 0)
    current = status.get("updatedReplicas", have)
    settled = have >= wanted and current >= wanted
    return bool(settled and progress == "True" and refused != "True" and wanted)


def _workload_readings(kind: str, item: Object) -> dict[str, str]:
    """What is configured, as texts that tell a change."""
    metadata, spec = item.get("metadata") or {}, item.get("spec") or {}
    template = spec.get("template") or (spec.get("jobTemplate") or {}).get("spec", {}).get(
        "template"
    )
    pod = (template or {}).get("spec") or {}
    images = sorted({str(each.get("image", "")) for each in pod.get("containers") or ()})
    notes = {**(metadata.get("labels") or {}), **(metadata.get("annotations") or {})}
    readings = {
        "image": ", ".join(images),
        "template": hashlib.sha256(_encode(template or {})).hexdigest()[:12],
        "revision": str(notes.get(_REVISION) or metadata.get("generation") or ""),
    }
    if kind in ("deployment", "statefulset"):
        readings["setting_replicas"] = str(spec.get("replicas", 1))
    for label, reading in _MANAGERS.items():
        if notes.get(label):
            readings[reading] = str(notes[label])
    return readings


def _is_node_well(item: Object) -> bool:
    pressed = any(condition_of(item, kind).get("status") == "True" for kind in _PRESSURES)
    return condition_of(item, "Ready").get("status") == "True" and not pressed


def _node_readings(item: Object) -> dict[str, str]:
    info = (item.get("status") or {}).get("nodeInfo") or {}
    spec = item.get("spec") or {}
    return {
        "kubelet_version": str(info.get("kubeletVersion", "")),
        "container_runtime": str(info.get("containerRuntimeVersion", "")),
        "kernel": str(info.get("kernelVersion", "")),
        "setting_cordoned": "yes" if spec.get("unschedulable") else "no",
    }
