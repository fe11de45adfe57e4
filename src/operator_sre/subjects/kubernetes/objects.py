"""A snapshot built from objects of the Kubernetes API. Pure.

Recorded output of kubectl is first converted to such objects, so both have one type.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from operator_protocols.domain.system_record import Reading
from operator_sre.subjects.kubernetes.snapshot import (
    Claim,
    Container,
    Event,
    Node,
    Pod,
    PodSpec,
    Port,
    Probe,
    Quota,
    Reference,
    Service,
    Snapshot,
    Taint,
    Volume,
    Workload,
    parse_quantity,
)

__all__ = ["Object", "build_snapshot"]

Object = Mapping[str, Any]

OBJECTS_MAX = 200_000
WORKLOADS = ("deployment", "statefulset", "daemonset", "replicaset", "job", "cronjob")
_HASH = re.compile(r"-[a-z0-9]{5,10}(?:-[a-z0-9]{5})?$")
_MAPPED = (("secret", "secretName", "secret"), ("configMap", "name", "configmap"))


def build_snapshot(
    objects: Iterable[Object],
    *,
    listed: Iterable[str] = (),
    logs: Mapping[str, Sequence[str]] | None = None,
    units: Mapping[tuple[str, str], str] | None = None,
    reached: Mapping[tuple[str, int], bool] | None = None,
    readings: Sequence[Reading] = (),
    calls: Mapping[str, Sequence[str]] | None = None,
    declared: Iterable[tuple[str, str]] = (),
) -> Snapshot:
    """The snapshot of API objects; what is not understood is left out, never guessed."""
    kinds: dict[str, list[Object]] = {}
    events: dict[tuple[str, str, str, str], Event] = {}
    for item, _ in zip(objects, range(OBJECTS_MAX), strict=False):
        kind = str(item.get("kind", "")).lower()
        for report in item.get("events", ()):
            _add_event(events, report)
        if kind == "event":
            about = item.get("involvedObject") or item.get("regarding") or {}
            _add_event(
                events,
                {
                    "kind": str(about.get("kind", "")).lower(),
                    "name": about.get("name", ""),
                    "type": item.get("type", ""),
                    "reason": item.get("reason", ""),
                    "message": item.get("message") or item.get("note") or "",
                    "age_s": item.get("age_s"),
                    "count": item.get("count") or 1,
                },
            )
        elif _name(item):
            kinds.setdefault(kind, []).append(item)
    sets = {_name(item): _owner(item) for item in kinds.get("replicaset", [])}
    ends = {_name(item): _addresses(item) for item in kinds.get("endpoints", [])}
    workloads = [
        _workload(kind, item)
        for kind in WORKLOADS
        for item in kinds.get(kind, [])
        if not _owner(item)
    ]
    return Snapshot(
        pods=tuple(_pod(item, sets) for item in kinds.get("pod", [])),
        workloads=tuple(workloads),
        services=tuple(_service(item, ends) for item in kinds.get("service", [])),
        nodes=tuple(_node(item) for item in kinds.get("node", [])),
        claims=tuple(_claim(item) for item in kinds.get("persistentvolumeclaim", [])),
        volumes=tuple(_volume(item) for item in kinds.get("persistentvolume", [])),
        quotas=tuple(_quota(item) for item in kinds.get("resourcequota", [])),
        events=tuple(events.values()),
        names={kind: frozenset(_name(item) for item in items) for kind, items in kinds.items()},
        listed=frozenset(listed) | set(kinds),
        logs={name: tuple(lines) for name, lines in (logs or {}).items()},
        units=dict(units or {}),
        reached=dict(reached or {}),
        readings=tuple(readings),
        calls={name: tuple(called) for name, called in (calls or {}).items()},
        declared=frozenset(declared),
    )


def _name(item: Object) -> str:
    return str(item.get("metadata", {}).get("name", ""))


def _namespace(item: Object) -> str:
    return str(item.get("metadata", {}).get("namespace") or "default")


def _labels(item: Object) -> dict[str, str]:
    return dict(item.get("metadata", {}).get("labels") or {})


def _owner(item: Object) -> str:
    owners = item.get("metadata", {}).get("ownerReferences") or [{}]
    return str(owners[0].get("name", ""))


def _add_event(events: dict[tuple[str, str, str, str], Event], report: Object) -> None:
    """The newest of equal events."""
    event = Event(
        kind=str(report["kind"]),
        name=str(report["name"]),
        reason=str(report["reason"]),
        message=str(report["message"]),
        warning=report["type"] == "Warning",
        age_s=report["age_s"],
        count=int(report["count"]),
    )
    key = (event.kind, event.name, event.reason, event.message)
    known = events.get(key)
    if known is None or (known.age_s or 0.0) > (event.age_s or 0.0):
        events[key] = event


def _numbers(items: Mapping[str, Any] | None) -> dict[str, float]:
    parsed = {name: parse_quantity(value) for name, value in (items or {}).items()}
    return {name: value for name, value in parsed.items() if value is not None}


def _ports(items: Iterable[Object]) -> tuple[Port, ...]:
    return tuple(
        Port(
            number=int(item.get("containerPort") or item.get("port") or 0),
            protocol=item.get("protocol") or "TCP",
            name=item.get("name") or "",
            target=str(item.get("targetPort") or item.get("port") or ""),
        )
        for item in items
    )


def _probes(item: Object) -> tuple[Probe, ...]:
    found = []
    for kind in ("liveness", "readiness", "startup"):
        probe = item.get(f"{kind}Probe")
        if not probe:
            continue
        how = next((way for way in ("httpGet", "tcpSocket", "grpc", "exec") if way in probe), "")
        demand = probe.get(how) or {}
        found.append(
            Probe(
                kind=kind,
                how=how,
                port=str(demand.get("port") or ""),
                path=str(demand.get("path") or ""),
                delay_s=int(probe.get("initialDelaySeconds") or 0),
                timeout_s=int(probe.get("timeoutSeconds") or 1),
            )
        )
    return tuple(found)


def _references(item: Object) -> tuple[Reference, ...]:
    found = []
    for entry in item.get("env") or ():
        source = entry.get("valueFrom") or {}
        for key, kind in (("secretKeyRef", "secret"), ("configMapKeyRef", "configmap")):
            demand = source.get(key)
            if demand and not demand.get("optional"):
                found.append(Reference(kind, demand.get("name", ""), demand.get("key", "")))
    for entry in item.get("envFrom") or ():
        for key, kind in (("secretRef", "secret"), ("configMapRef", "configmap")):
            demand = entry.get(key)
            if demand and not demand.get("optional"):
                found.append(Reference(kind, demand.get("name", "")))
    return tuple(found)


def _container(item: Object, status: Object, *, init: bool) -> Container:
    resources = item.get("resources") or {}
    state, last = status.get("state") or {}, status.get("lastState") or {}
    waiting = state.get("waiting") or {}
    ended = state.get("terminated") or last.get("terminated") or {}
    limits = _numbers(resources.get("limits"))
    return Container(
        name=str(item.get("name", "")),
        image=str(item.get("image") or ""),
        ports=_ports(item.get("ports") or ()),
        env={
            str(entry["name"]): str(entry["value"])
            for entry in item.get("env") or ()
            if entry.get("value") is not None
        },
        references=_references(item),
        # What is not requested is requested up to its limit.
        requests={**limits, **_numbers(resources.get("requests"))},
        limits=limits,
        probes=_probes(item),
        init=init,
        waiting=str(waiting.get("reason") or ""),
        message=str(waiting.get("message") or ended.get("message") or ""),
        exit_reason=str(ended.get("reason") or ""),
        exit_code=ended.get("exitCode"),
        exit_now=bool(state.get("terminated")),
        restarts=int(status.get("restartCount") or 0),
        ready=bool(status.get("ready", True)),
    )


def _taint(item: Object) -> Taint:
    exists = item.get("operator") == "Exists"
    value = str(item.get("value") or "")
    return Taint(item.get("key") or "", value, item.get("effect") or "", exists)


def _spec(labels: Mapping[str, str], spec: Object, status: Object) -> PodSpec:
    states = {
        state.get("name"): state
        for key in ("initContainerStatuses", "containerStatuses")
        for state in status.get(key) or ()
    }
    containers = [
        _container(item, states.get(item.get("name"), {}), init=key == "initContainers")
        for key in ("initContainers", "containers")
        for item in spec.get(key) or ()
    ]
    claims, references = [], []
    for volume in spec.get("volumes") or ():
        if claim := volume.get("persistentVolumeClaim"):
            claims.append(str(claim.get("claimName", "")))
        for key, inner, kind in _MAPPED:
            demand = volume.get(key)
            if demand and not demand.get("optional") and demand.get(inner):
                references.append(Reference(kind, demand[inner]))
    return PodSpec(
        labels=labels,
        containers=tuple(containers),
        account=str(spec.get("serviceAccountName") or ""),
        selector=dict(spec.get("nodeSelector") or {}),
        tolerations=tuple(_taint(item) for item in spec.get("tolerations") or ()),
        claims=tuple(claims),
        references=tuple(references),
        pull_secrets=tuple(item.get("name", "") for item in spec.get("imagePullSecrets") or ()),
        affinity=spec.get("affinity") or {},
    )


def _pod(item: Object, sets: Mapping[str, str]) -> Pod:
    spec, status = item.get("spec") or {}, item.get("status") or {}
    owner = _owner(item)
    # A ReplicaSet that was not observed is named after its Deployment.
    owner = sets.get(owner) or (_HASH.sub("", owner) if owner and owner not in sets else owner)
    return Pod(
        name=_name(item),
        namespace=_namespace(item),
        owner=owner or _HASH.sub("", _name(item)),
        spec=_spec(_labels(item), spec, status),
        node=str(spec.get("nodeName") or ""),
        phase=str(status.get("phase") or ""),
        reason=str(status.get("reason") or ""),
        message=str(status.get("message") or ""),
        address=str(status.get("podIP") or ""),
        age_s=item.get("age_s"),
    )


def _workload(kind: str, item: Object) -> Workload:
    spec, status = item.get("spec") or {}, item.get("status") or {}
    template = spec.get("template") or {}
    return Workload(
        kind=kind,
        name=_name(item),
        namespace=_namespace(item),
        spec=_spec(_labels(template), template.get("spec") or {}, {}),
        selector=dict((spec.get("selector") or {}).get("matchLabels") or {}),
        desired=spec.get("replicas"),
        ready=status.get("readyReplicas"),
    )


def _addresses(item: Object) -> tuple[str, ...]:
    return tuple(
        f"{address['ip']}:{port['port']}" if port else str(address["ip"])
        for subset in item.get("subsets") or ()
        for address in subset.get("addresses") or ()
        for port in (subset.get("ports") or [None])
    )


def _service(item: Object, ends: Mapping[str, tuple[str, ...]]) -> Service:
    spec, status = item.get("spec") or {}, item.get("status") or {}
    report = status.get("endpoints")
    return Service(
        name=_name(item),
        namespace=_namespace(item),
        selector=dict(spec.get("selector") or {}),
        ports=_ports(spec.get("ports") or ()),
        endpoints=tuple(report) if report is not None else ends.get(_name(item)),
        address=str(spec.get("clusterIP") or ""),
    )


def _node(item: Object) -> Node:
    spec, status = item.get("spec") or {}, item.get("status") or {}
    return Node(
        name=_name(item),
        labels=_labels(item),
        conditions={
            entry["type"]: (str(entry.get("status")), str(entry.get("message") or ""))
            for entry in status.get("conditions") or ()
        },
        taints=tuple(_taint(taint) for taint in spec.get("taints") or ()),
        cordoned=bool(spec.get("unschedulable")),
        allocatable=_numbers(status.get("allocatable")),
        requested=_numbers(status.get("requested")),
    )


def _claim(item: Object) -> Claim:
    spec, status = item.get("spec") or {}, item.get("status") or {}
    return Claim(
        name=_name(item),
        namespace=_namespace(item),
        phase=str(status.get("phase") or ""),
        storage_class=spec.get("storageClassName"),
        size=parse_quantity(((spec.get("resources") or {}).get("requests") or {}).get("storage")),
        modes=tuple(spec.get("accessModes") or ()),
        selector=dict((spec.get("selector") or {}).get("matchLabels") or {}),
        volume=str(spec.get("volumeName") or ""),
    )


def _volume(item: Object) -> Volume:
    spec, status = item.get("spec") or {}, item.get("status") or {}
    claim = spec.get("claimRef") or {}
    required = (spec.get("nodeAffinity") or {}).get("required") or {}
    return Volume(
        name=_name(item),
        phase=str(status.get("phase") or ""),
        storage_class=str(spec.get("storageClassName") or ""),
        size=parse_quantity((spec.get("capacity") or {}).get("storage")),
        modes=tuple(spec.get("accessModes") or ()),
        labels=_labels(item),
        claim=f"{claim.get('namespace')}/{claim['name']}" if claim.get("name") else "",
        terms=tuple(required.get("nodeSelectorTerms") or ()),
    )


def _quota(item: Object) -> Quota:
    spec, status = item.get("spec") or {}, item.get("status") or {}
    hard = status.get("hard") or spec.get("hard")
    return Quota(_name(item), _namespace(item), _numbers(hard), _numbers(status.get("used")))
