"""Pods without a node: which of their demands no node meets, and why a pod was not created."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from operator_sre.subjects.kubernetes.snapshot import Node, Pod, PodSpec, Snapshot, Taint, Workload
from operator_sre.subjects.kubernetes.suspicion import (
    CERTAIN,
    LIKELY,
    POSSIBLE,
    WEAK,
    Suspicion,
    first_match,
    fresh_events,
    incomplete,
)

__all__ = ["find_admission", "find_scheduling"]

# What the scheduler says of nodes, and the cause behind it.
_FILTERS = (
    ("taint_not_tolerated", re.compile(r"(\d+) node\(s\) had (?:untolerated )?taint")),
    ("memory_capacity", re.compile(r"(\d+) Insufficient memory")),
    ("cpu_capacity", re.compile(r"(\d+) Insufficient cpu")),
    ("pod_capacity", re.compile(r"(\d+) (?:Too many pods|Insufficient pods)")),
    ("disk_capacity", re.compile(r"(\d+) Insufficient ephemeral-storage")),
    ("pod_anti_affinity", re.compile(r"(\d+) node\(s\) didn't (?:match|satisfy).*anti-affinity")),
    ("pod_affinity", re.compile(r"(\d+) node\(s\) didn't match pod affinity")),
    ("topology_spread", re.compile(r"(\d+) node\(s\) didn't match pod topology spread")),
    ("host_port_taken", re.compile(r"(\d+) node\(s\) didn't have free ports")),
    ("volume_zone", re.compile(r"(\d+) node\(s\) had volume node affinity conflict")),
    # The control plane often takes no pods, so of equal numbers this says least.
    ("node_cordoned", re.compile(r"(\d+) node\(s\) were unschedulable")),
    ("node_selector", re.compile(r"(\d+) node\(s\) didn't match (?:Pod's )?node (?:affinity|sel)")),
)
# Taints that Kubernetes sets itself, and the condition behind each.
_OWN_TAINTS = {
    "node.kubernetes.io/unschedulable": "node_cordoned",
    "node.kubernetes.io/memory-pressure": "memory_pressure",
    "node.kubernetes.io/disk-pressure": "disk_pressure",
    "node.kubernetes.io/pid-pressure": "pid_pressure",
}
_BROKEN_NODE = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_REFUSALS = (
    ("quota", re.compile(r"exceeded quota: ([^,]+), requested: (\S+?)[,=].*|failed quota: (\S+)")),
    ("service_account_missing", re.compile(r'service ?account "?([^"\s]*)"? not found', re.I)),
    ("pod_security", re.compile(r"violates PodSecurity|unable to validate against any .*polic")),
    ("webhook_failing", re.compile(r"failed calling (?:admission )?webhook|admission webhook")),
    ("limit_range", re.compile(r"(?:maximum|minimum) \S+ usage per|maxLimitRequestRatio")),
    ("priority_class_missing", re.compile(r"no PriorityClass with name")),
    ("permission_missing", re.compile(r"is forbidden: User|cannot (?:create|get|list) resource")),
)
_QUOTAS = (
    ("cpu_quota", re.compile(r"\bcpu\b")),
    ("memory_quota", re.compile(r"memory")),
    ("storage_quota", re.compile(r"storage|persistentvolumeclaims")),
    ("service_quota", re.compile(r"services")),
    ("pod_quota", re.compile(r"\bpods\b")),
)
_FULL = 0.999
# The scheduler reports a pod that it cannot place within a second.
UNSEEN_S = 30.0


def find_scheduling(snapshot: Snapshot) -> Iterator[Suspicion]:
    """Why pods without a node have none."""
    for pod in snapshot.pods:
        if pod.node or pod.phase not in ("Pending", ""):
            continue
        report = next(
            (
                event.message
                for event in fresh_events(snapshot, "pod", pod.name)
                if event.reason == "FailedScheduling"
            ),
            "",
        )
        spec = next((w.spec for w in snapshot.workloads if w.name == pod.owner), pod.spec)
        cause, why = _find_block(snapshot, pod, spec)
        counted = _count_rejections(report)
        if "unbound" in report or "persistentvolumeclaim" in report:
            continue  # what is wrong with the claim is found at the claim
        if counted and cause not in counted and not _is_same(cause, counted):
            # The scheduler knows more than the fields that were observed.
            cause = next(iter(counted))
        if cause and cause != "node_not_ready":
            weight = CERTAIN if report else LIKELY
            yield Suspicion.of(cause, pod.owner, weight, report, why, explains=[pod.owner])
        elif not report and snapshot.nodes and (pod.age_s or 0.0) > UNSEEN_S:
            # Without a scheduler nothing is tried: it reports every pod that it cannot place.
            unready = f"pod {pod.name} has no node, and the scheduler reported nothing about it"
            yield Suspicion.of("scheduler_down", _control(snapshot), POSSIBLE, unready)


def find_admission(snapshot: Snapshot) -> Iterator[Suspicion]:
    """Why pods of a workload were not created, and quotas that are used up."""
    refused = False
    for workload in incomplete(snapshot):
        for event in _creation_events(snapshot, workload):
            found = first_match(_REFUSALS, event)
            if not found:
                continue
            refused = True
            cause = found[0]
            target = workload.name
            if cause == "quota":
                resource = first_match(_QUOTAS, event.partition("requested:")[2] or event)
                cause = resource[0] if resource else "object_quota"
                target = workload.namespace
            yield Suspicion.of(cause, target, CERTAIN, event, explains=[workload.name])
            break
        account = workload.spec.account
        if account and snapshot.lacks("serviceaccount", account):
            refused = True
            why = f"{workload.name} runs as service account {account}, which does not exist"
            yield Suspicion.of(
                "service_account_missing", workload.name, CERTAIN, why, explains=[workload.name]
            )
        if not refused and not snapshot.pods_of(workload.name) and workload.desired:
            why = f"{workload.name} wants {workload.desired} pods, and none was created"
            yield Suspicion.of("controller_manager_down", _control(snapshot), WEAK, why)
    yield from _find_full_quotas(snapshot)


def _creation_events(snapshot: Snapshot, workload: Workload) -> Iterator[str]:
    about = [(workload.kind, workload.name)]
    for name in snapshot.names.get("replicaset", ()):
        # The name of a ReplicaSet is its Deployment's and a hash.
        if name.rpartition("-")[0] == workload.name:
            about.append(("replicaset", name))
    for kind, name in about:
        for event in fresh_events(snapshot, kind, name):
            if event.reason in ("FailedCreate", "FailedCreatePodSandBox", "ReplicaSetCreateError"):
                yield event.message


def _find_full_quotas(snapshot: Snapshot) -> Iterator[Suspicion]:
    """A quota with nothing left, while something that it counts was applied and does not exist."""
    missing = {
        "services": [
            name
            for kind, name in snapshot.declared
            if kind == "service" and snapshot.lacks(kind, name)
        ],
        "persistentvolumeclaims": [
            name
            for kind, name in snapshot.declared
            if kind == "persistentvolumeclaim" and snapshot.lacks(kind, name)
        ],
        "pods": [workload.name for workload in incomplete(snapshot)],
    }
    for quota in snapshot.quotas:
        for resource, hard in quota.hard.items():
            used = quota.used.get(resource, 0.0)
            found = first_match(_QUOTAS, resource)
            counts = "persistentvolumeclaims" if "storage" in resource else resource
            counts = "pods" if counts not in missing else counts
            absent = missing[counts]
            nearly = used >= hard * _FULL or ("storage" in resource and bool(absent))
            if not found or not nearly:
                continue
            why = f"quota {quota.name}: {resource} {used:g} of {hard:g} used"
            gone = f"missing: {', '.join(sorted(absent)[:5])}" if absent else ""
            weight = CERTAIN if absent else WEAK
            yield Suspicion.of(found[0], quota.namespace, weight, why, gone, explains=absent)


def _control(snapshot: Snapshot) -> str:
    """The node of the control plane, or the first one where none is marked."""
    for node in snapshot.nodes:
        words = " ".join((*node.labels, *node.labels.values()))
        if "control-plane" in words or "master" in words or "master" in node.name:
            return node.name
    return snapshot.nodes[0].name if snapshot.nodes else "control plane"


def _count_rejections(message: str) -> Counter[str]:
    """How many nodes the scheduler rejected for each reason, the most frequent first."""
    sentence = message.partition("preemption:")[0]
    counts: Counter[str] = Counter()
    for cause, pattern in _FILTERS:
        for match in pattern.finditer(sentence):
            counts[cause] += int(match.group(1))
    others = {cause: count for cause, count in counts.items() if cause != "node_selector"}
    return Counter(dict(Counter(others or counts).most_common()))


def _is_same(cause: str, counted: Mapping[str, int]) -> bool:
    """Whether a cause is what the scheduler calls the affinity or selector of the pod.

    It says so of the node affinity too, and of the other nodes when a volume allows only one.
    """
    return cause in ("node_affinity", "volume_zone") and set(counted) == {"node_selector"}


def _find_block(snapshot: Snapshot, pod: Pod, spec: PodSpec) -> tuple[str, str]:
    """What keeps a pod from the nodes that it could use, by their fields; empty if nothing."""
    wanted = {**spec.selector, **pod.spec.selector}
    suitable = [node for node in snapshot.nodes if _asked_for(node, wanted, spec.affinity)]
    if not snapshot.nodes:
        return "", ""
    if not suitable:
        labels = ", ".join(f"{key}={value}" for key, value in wanted.items())
        if labels and not any(wanted.items() <= node.labels.items() for node in snapshot.nodes):
            return "node_selector", f"no node has the labels {labels}"
        return "node_affinity", f"no node meets the node affinity of {pod.owner}"
    for volume in snapshot.volumes:
        used = volume.claim in {f"{pod.namespace}/{name}" for name in pod.spec.claims}
        if used and not any(_meets_terms(node, volume.terms) for node in suitable):
            names = ", ".join(node.name for node in suitable)
            return "volume_zone", f"volume {volume.name} cannot be used on {names}"
    reasons = {node.name: _objection(snapshot, node, pod) for node in suitable}
    if not all(reasons.values()):
        return "", ""
    # A node that takes no pods at all is a candidate only if there is no other.
    open_nodes = [node for node in suitable if not _takes_no_pods(node)] or suitable
    counts = Counter(reasons[node.name] for node in open_nodes)
    cause = counts.most_common(1)[0][0]
    names = ", ".join(name for name, reason in reasons.items() if reason == cause)
    return cause, f"{cause.replace('_', ' ')} on {names}"


def _asked_for(node: Node, wanted: Mapping[str, str], affinity: Mapping[str, Any]) -> bool:
    if not wanted.items() <= node.labels.items():
        return False
    required = (affinity.get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    ) or {}
    return _meets_terms(node, required.get("nodeSelectorTerms") or ())


def _meets_terms(node: Node, terms: Sequence[Mapping[str, Any]]) -> bool:
    return not terms or any(
        all(_meets(node.labels, rule) for rule in term.get("matchExpressions") or ())
        for term in terms
    )


def _meets(labels: Mapping[str, str], rule: Mapping[str, Any]) -> bool:
    key, values = str(rule.get("key")), [str(value) for value in rule.get("values") or ()]
    match rule.get("operator"):
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
    return True


def _tolerates(taint: Taint, tolerations: tuple[Taint, ...]) -> bool:
    return any(
        (not each.key or each.key == taint.key)
        and (each.exists or each.value == taint.value)
        and (not each.effect or each.effect == taint.effect)
        for each in tolerations
    )


def _takes_no_pods(node: Node) -> bool:
    return node.cordoned and any(key in node.name for key in ("master", "control"))


def _objection(snapshot: Snapshot, node: Node, pod: Pod) -> str:
    """The first reason, in the order of the scheduler, why a node does not take a pod."""
    for taint in node.taints:
        if taint.effect == "PreferNoSchedule" or _tolerates(taint, pod.spec.tolerations):
            continue
        if taint.key in _BROKEN_NODE:
            return "node_not_ready"
        if taint.key not in _OWN_TAINTS or not node.cordoned:
            return _OWN_TAINTS.get(taint.key, "taint_not_tolerated")
    if node.cordoned:
        return "node_cordoned"
    mains = [container for container in pod.spec.containers if not container.init]
    lacking = {}
    for resource in ("memory", "cpu"):
        demand = sum(container.requests.get(resource, 0.0) for container in mains)
        whole = node.allocatable.get(resource)
        if whole is None or not demand:
            continue
        used = node.requested.get(resource)
        if used is None:
            used = sum(
                container.requests.get(resource, 0.0)
                for other in snapshot.pods
                if other.node == node.name
                for container in other.spec.containers
            )
        if demand > whole - used:
            lacking[resource] = demand / whole
    return f"{max(lacking, key=lambda name: lacking[name])}_capacity" if lacking else ""
