"""What is wrong with a cluster and why: the symptoms in a store, explained by the same rules that
diagnose a recorded cluster.
"""

from __future__ import annotations

import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from importlib.resources import files
from typing import Any

from operator_protocols.domain.health import Severity
from operator_sre.subjects.kubernetes.containers import NOT_YET
from operator_sre.subjects.kubernetes.dependencies import callers_below, calls_between
from operator_sre.subjects.kubernetes.facts import condition_of
from operator_sre.subjects.kubernetes.objects import build_snapshot
from operator_sre.subjects.kubernetes.reader import rank
from operator_sre.subjects.kubernetes.resources import CLUSTER_WIDE, WATCHED, WORKLOAD_KINDS
from operator_sre.subjects.kubernetes.routes_live import (
    SLICE_LABEL,
    claim_symptoms,
    count_endpoints,
    service_callers,
    service_symptoms,
)
from operator_sre.subjects.kubernetes.snapshot import Snapshot
from operator_sre.subjects.kubernetes.store import Facts, ObjectStore, Stored, decode
from operator_sre.subjects.kubernetes.suspicion import POSSIBLE, Suspicion
from operator_sre.subjects.kubernetes.symptoms import (
    Symptom,
    age_of,
    home_of,
    node_symptoms,
    pod_symptoms,
    workload_symptoms,
)

__all__ = [
    "Explanation",
    "InvariantSpec",
    "explain",
    "find_doubtful_callers",
    "find_symptoms",
    "invariant_specs",
    "snapshot_of",
]

Object = dict[str, Any]

# An event says something about now for this long; the kubelet repeats what lasts.
EVENT_FRESH_S = 60.0
EVENTS_KEPT_S = 900.0
# What callers of a service log is about its port once its pods have been ready for so long.
READY_S_MIN = 15.0
_PROBE_EVENT = "Unhealthy"
_CLAIM_EVENTS = frozenset({"ProvisioningFailed", "VolumeMismatch"})
_MOUNT_EVENTS = frozenset({"FailedMount", "FailedAttachVolume"})
_NAMED_IN_EVIDENCE = frozenset({"service", "persistentvolumeclaim"})
# The rules blame the workload behind a service; the object to repair is the service.
_OF_SERVICES = frozenset({"service_selector", "service_port", "service_protocol"})
_LIKE_WORKLOADS = (*WORKLOAD_KINDS, "horizontalpodautoscaler", "namespace", "persistentvolumeclaim")
# A probe also takes too long where what its workload calls is broken.
_MAY_FOLLOW = frozenset({"readiness_probe_timing", "startup_probe_timing"})
_WITHOUT_SUSPICION = {
    "jobs_succeed": "job_failed",
    "objects_deleted": "finalizer",
    "autoscaling_works": "autoscaler_blind",
    "volumes_bound": "claim_pending",
    "volumes_mounted": "mount_failed",
    "containers_run": "crash",
}


@dataclass(frozen=True, slots=True)
class InvariantSpec:
    """An invariant as data: its sentence, and what can break it."""

    name: str
    sentence: str
    severity: Severity
    grace_s: float
    causes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """The most probable cause of a symptom, and the object at which it lies."""

    cause: str
    kind: str
    namespace: str
    name: str
    evidence: tuple[str, ...]


@cache
def invariant_specs() -> tuple[InvariantSpec, ...]:
    """The invariants of invariants.toml, in their order."""
    text = files(__package__).joinpath("invariants.toml").read_text(encoding="utf-8")
    return tuple(
        InvariantSpec(
            name,
            row["sentence"],
            Severity(row["severity"]),
            float(row["grace_s"]),
            tuple(row["causes"]),
        )
        for name, row in tomllib.loads(text).items()
    )


def find_symptoms(
    store: ObjectStore, now: datetime, logs: Mapping[str, Mapping[str, Sequence[str]]]
) -> list[Symptom]:
    """Everything that is wrong now; `logs` has the lines of workloads by namespace and name."""
    sets = {key: stored.facts.owner for key, stored in store.of("replicaset").items()}
    probes = _failed_probes(store, now)
    found = [
        symptom
        for key, stored in store.loud("pod").items()
        for symptom in pod_symptoms(
            decode(stored), now, lambda pod: home_of(pod, sets), probes.get(key, ())
        )
    ]
    for kind in _LIKE_WORKLOADS:
        for stored in store.loud(kind).values():
            found += workload_symptoms(kind, decode(stored), now)
    for stored in store.loud("node").values():
        found += node_symptoms(decode(stored))
    found += _event_symptoms(store, now, sets)
    found += _claims(store, now)
    found += _services(store, now, logs)
    return list(dict.fromkeys(found))


def _failed_probes(store: ObjectStore, now: datetime) -> dict[tuple[str, str], list[str]]:
    """What the kubelet reported recently about the probes of pods, by namespace and name."""
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for stored in store.of("event").values():
        if stored.facts.reason != _PROBE_EVENT:
            continue
        event = decode(stored)
        about = event.get("involvedObject") or {}
        if _event_age(event, now) <= EVENT_FRESH_S:
            key = (str(about.get("namespace") or ""), str(about.get("name") or ""))
            found[key].append(str(event.get("message") or ""))
    return found


def _event_symptoms(
    store: ObjectStore, now: datetime, sets: Mapping[tuple[str, str], str]
) -> Iterator[Symptom]:
    """What only events tell: pods that are refused, and volumes that are not mounted."""
    for stored in store.of("event").values():
        event = decode(stored)
        if _event_age(event, now) > EVENT_FRESH_S:
            continue
        about = event.get("involvedObject") or {}
        kind, name = str(about.get("kind", "")).lower(), str(about.get("name", ""))
        namespace, reason = str(about.get("namespace") or ""), event.get("reason")
        message = str(event.get("message") or "")[:300]
        if reason == "FailedCreate" and kind in ("replicaset", *WORKLOAD_KINDS):
            owner = sets.get((namespace, name)) if kind == "replicaset" else ""
            kind, name = ("deployment", owner) if owner else (kind, name)
            if (namespace, name) in store.loud(kind) or kind == "job":
                yield Symptom("pods_admitted", kind, namespace, name, message)
        elif reason in _MOUNT_EVENTS and kind == "pod" and int(event.get("count") or 1) > 1:
            pod = store.loud("pod").get((namespace, name))
            if pod is None or NOT_YET.search(message):
                continue
            home, owner = home_of(decode(pod), sets)
            detail = f"pod {name}: {message}"[:300]
            yield Symptom("volumes_mounted", home, namespace, owner, detail, pod.facts.node)


def _claims(store: ObjectStore, now: datetime) -> Iterator[Symptom]:
    waiting = store.loud("persistentvolumeclaim")
    if not waiting:
        return
    classes = {
        name: str(decode(stored).get("volumeBindingMode") or "")
        for (_, name), stored in store.of("storageclass").items()
    }
    users: dict[tuple[str, str], str] = {}
    for (namespace, name), stored in store.loud("pod").items():
        for volume in (decode(stored).get("spec") or {}).get("volumes") or ():
            if claim := volume.get("persistentVolumeClaim"):
                users[namespace, str(claim.get("claimName"))] = f"pod {name}"
    refused = {
        (str(about.get("namespace") or ""), str(about.get("name") or ""))
        for stored in store.of("event").values()
        if stored.facts.reason in _CLAIM_EVENTS
        and _event_age(event := decode(stored), now) <= EVENT_FRESH_S
        and (about := event.get("involvedObject") or {})
    }
    for key, stored in waiting.items():
        yield from claim_symptoms(
            decode(stored),
            classes=classes,
            used_by=users.get(key, ""),
            refused=key in refused,
            now=now,
        )


def _services(
    store: ObjectStore, now: datetime, logs: Mapping[str, Mapping[str, Sequence[str]]]
) -> Iterator[Symptom]:
    """Services without a ready endpoint, and those whose callers log that they cannot reach it."""
    if "endpointslice" not in store.listed:
        return
    served = {
        (key[0], str((item.get("metadata") or {}).get("labels", {}).get(SLICE_LABEL)))
        for key, stored in store.of("endpointslice").items()
        if count_endpoints([item := decode(stored)], ports=True)
    }
    empty = {key[0] for key in store.of("service") if key not in served}
    for namespace in sorted(empty | set(logs)):
        snapshot = snapshot_of(store, namespace, now, logs.get(namespace, {}))
        ages = {
            key[1]: age_of((decode(stored).get("metadata") or {}).get("creationTimestamp"), now)
            for key, stored in store.of("service").items()
            if key[0] == namespace
        }
        yield from service_symptoms(snapshot, ages)


def find_doubtful_callers(store: ObjectStore, now: datetime) -> set[tuple[str, str]]:
    """The callers of services that send to a port which no container behind declares.

    A container may serve a port that it does not declare, so that only its callers can tell.
    """
    behind: dict[str, list[Facts]] = defaultdict(list)
    for kind in ("deployment", "statefulset", "daemonset"):
        for (namespace, _), stored in store.of(kind).items():
            behind[namespace].append(stored.facts)
    doubtful: dict[str, set[str]] = defaultdict(set)
    for (namespace, name), stored in store.of("service").items():
        selected = stored.facts.labels
        served = [each.ports for each in behind[namespace] if selected and selected <= each.labels]
        if any(ports and not stored.facts.ports <= ports for ports in served) and not any(
            _is_fresh(pod, selected, now) for pod in store.within("pod", namespace)
        ):
            doubtful[namespace].add(name)
    found: set[tuple[str, str]] = set()
    for namespace, names in doubtful.items():
        snapshot = snapshot_of(store, namespace, now, {})
        for service in snapshot.services:
            if service.name in names:
                found |= {(namespace, caller) for caller in service_callers(snapshot, service)}
    return found


def _is_fresh(stored: Stored, selected: frozenset[tuple[str, str]], now: datetime) -> bool:
    """Whether a selected pod became ready or unready a moment ago: calls may have failed then."""
    pod = decode(stored)
    labels = (pod.get("metadata") or {}).get("labels") or {}
    changed = condition_of(pod, "Ready").get("lastTransitionTime")
    return selected <= labels.items() and age_of(changed, now) < READY_S_MIN


def snapshot_of(
    store: ObjectStore, namespace: str, now: datetime, logs: Mapping[str, Sequence[str]]
) -> Snapshot:
    """The snapshot of one namespace, with the nodes and volumes that all namespaces share."""
    objects: list[Object] = []
    slices: dict[str, list[Object]] = defaultdict(list)
    for resource in WATCHED:
        kind = resource.kind
        if kind in CLUSTER_WIDE and kind != "namespace":
            objects += [decode(stored) for stored in store.of(kind).values()]
        elif kind == "endpointslice":
            for stored in store.within(kind, namespace):
                item = decode(stored)
                labels = (item.get("metadata") or {}).get("labels") or {}
                slices[str(labels.get(SLICE_LABEL))].append(item)
        elif kind != "lease":
            objects += [decode(stored) for stored in store.within(kind, namespace)]
    used = _sum_requests(store)
    kept = [item for item in objects if not _is_over(item)]
    for item in kept:
        metadata, kind = item.get("metadata") or {}, item["kind"]
        status = item.setdefault("status", {})
        item["age_s"] = age_of(metadata.get("creationTimestamp"), now)
        if kind == "service":
            ports = bool((item.get("spec") or {}).get("ports"))
            own = slices[str(metadata.get("name"))]
            status["endpoints"] = count_endpoints(own, ports=ports)
        elif kind == "event":
            item["age_s"] = _event_age(item, now)
        elif kind == "node":
            cpu, memory = used.get(str(metadata.get("name")), (0.0, 0.0))
            status["requested"] = {"cpu": cpu, "memory": memory}
    return build_snapshot(kept, listed=store.listed, logs=logs)


def _is_over(item: Object) -> bool:
    """A pod that has completed or is being deleted no longer tells how its workload is."""
    if item["kind"] != "pod":
        return False
    phase = (item.get("status") or {}).get("phase")
    return phase == "Succeeded" or bool((item.get("metadata") or {}).get("deletionTimestamp"))


def _sum_requests(store: ObjectStore) -> dict[str, tuple[float, float]]:
    """CPU and memory that the pods of each node request."""
    found: dict[str, tuple[float, float]] = {}
    for stored in store.of("pod").values():
        if stored.facts.node:
            cpu, memory = found.get(stored.facts.node, (0.0, 0.0))
            more = stored.facts.requests
            found[stored.facts.node] = (cpu + more[0], memory + more[1])
    return found


def _event_age(event: Object, now: datetime) -> float:
    series = event.get("series") or {}
    times = (
        series.get("lastObservedTime"),
        event.get("lastTimestamp"),
        event.get("eventTime"),
        (event.get("metadata") or {}).get("creationTimestamp"),
    )
    return age_of(next((time for time in times if time), None), now)


def explain(
    store: ObjectStore,
    symptoms: Sequence[Symptom],
    now: datetime,
    logs: Mapping[str, Mapping[str, Sequence[str]]],
) -> dict[Symptom, Explanation]:
    """The most probable cause of each symptom that any rule explains."""
    specs = {spec.name: spec for spec in invariant_specs()}
    broken_nodes = {symptom.name for symptom in symptoms if symptom.kind == "node"}
    ranked: dict[str, list[Suspicion]] = {}
    calls: dict[str, dict[str, set[str]]] = {}
    found: dict[Symptom, Explanation] = {}
    for symptom in symptoms:
        namespace = symptom.namespace
        if namespace not in ranked:
            snapshot = snapshot_of(store, namespace, now, logs.get(namespace, {}))
            ranked[namespace] = rank(snapshot)
            calls[namespace] = calls_between(snapshot)
        if symptom.node in broken_nodes:
            # What fails on a node that has failed says nothing more.
            own = Symptom("nodes_ready", "node", "", symptom.node, "")
            chosen = _choose(own, ranked[namespace], specs["nodes_ready"])
        else:
            chosen = _choose(symptom, ranked[namespace], specs[symptom.invariant])
        if chosen is not None:
            place = _place(store, symptom, chosen)
            found[symptom] = Explanation(chosen.cause, *place, chosen.evidence)
        elif symptom.invariant in _WITHOUT_SUSPICION:
            cause = _WITHOUT_SUSPICION[symptom.invariant]
            if "DeadlineExceeded" in symptom.detail and cause == "job_failed":
                cause = "job_deadline"
            place = (symptom.kind, symptom.namespace, symptom.name)
            found[symptom] = Explanation(cause, *place, (symptom.detail,))
    for symptom in symptoms:
        known = found.get(symptom)
        if symptom.invariant != "pods_ready" or (known and known.cause not in _MAY_FOLLOW):
            continue
        called = callers_below(_turn(calls[symptom.namespace]), symptom.name)
        roots = [
            each
            for other, each in found.items()
            if other.namespace == symptom.namespace
            and other.name in called
            and each.cause not in _MAY_FOLLOW
        ]
        if roots:
            # It is not ready because what it calls is broken.
            found[symptom] = roots[0]
    return found


def _turn(calls: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Who is called by whom, from who calls whom."""
    turned: dict[str, set[str]] = defaultdict(set)
    for caller, called in calls.items():
        for name in called:
            turned[name].add(caller)
    return turned


def _choose(symptom: Symptom, ranked: Sequence[Suspicion], spec: InvariantSpec) -> Suspicion | None:
    """The first suspicion that explains a symptom: of a cause that breaks just this, else any."""
    near = [
        each
        for each in ranked
        if symptom.name in (each.target, *each.explains)
        or (symptom.kind in _NAMED_IN_EVIDENCE and symptom.name in _words(each))
    ]
    fitting = [each for each in near if each.cause in spec.causes]
    others = [each for each in near if each.weight >= POSSIBLE and not spec.causes]
    return next(iter((*fitting, *others)), None)


def _words(suspicion: Suspicion) -> list[str]:
    return " ".join(suspicion.evidence).replace(":", " ").split()


def _place(store: ObjectStore, symptom: Symptom, suspicion: Suspicion) -> tuple[str, str, str]:
    """Kind, namespace and name of what a suspicion blames."""
    own, target = (symptom.kind, symptom.namespace, symptom.name), suspicion.target
    if symptom.kind == "persistentvolumeclaim" or suspicion.cause in _OF_SERVICES:
        return own
    # The rules blame the workload that suffers; the object to repair is the claim.
    words = _words(suspicion)
    for namespace, name in store.loud("persistentvolumeclaim"):
        if namespace == symptom.namespace and name in words:
            return "persistentvolumeclaim", namespace, name
    if target == symptom.name and symptom.kind != "service":
        return own
    for kind in WORKLOAD_KINDS:
        if store.find(kind, symptom.namespace, target) is not None:
            return kind, symptom.namespace, target
    if store.find("node", "", target) is not None:
        return "node", "", target
    if target == symptom.namespace:
        return "namespace", "", target
    if target == "kube-dns":
        return "deployment", "kube-system", "coredns"
    return own
