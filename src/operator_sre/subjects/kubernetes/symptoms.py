"""What is wrong with an object right now: a broken invariant at a target. Pure.

Only states that a healthy rollout, scaling, drain or completed Job never shows are symptoms. What
such a change shows for a moment is separated by how long it lasts, and by the object's own limits.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from operator_sre.subjects.kubernetes.facts import condition_of, controller_of

__all__ = ["Symptom", "age_of", "home_of", "node_symptoms", "pod_symptoms", "workload_symptoms"]

Object = Mapping[str, Any]

_PULLING = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"})
_STARTING = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError"})
# A container that ended counts for as long as it could end again for the same reason.
RESTARTED_S = 300.0
# How often it must have ended within that time, unless the kernel killed it.
RESTARTS_MIN = 2
# The kubelet reports readiness a moment after the probe.
PROBE_SLACK_S = 2.0
# What nothing listens to yet may still be starting, so it has at least this long.
STARTING_S = 60.0
# A pod that lost its readiness had it for at least this long after its start.
FLIP_S = 2.0
DELETION_SLACK_S = 30.0
NAMESPACE_DELETION_S = 60.0
_KILLING_PROBE = re.compile(r"(?:Liveness|Startup) probe failed")
_REFUSED = re.compile(r"Readiness probe failed: .*:(\d+)\S*: connect: connection refused")
_PRESSURES = {
    "MemoryPressure": "is short of memory",
    "DiskPressure": "is short of disk space",
    "PIDPressure": "is short of process ids",
    "NetworkUnavailable": "has no network",
}


@dataclass(frozen=True, slots=True)
class Symptom:
    """A broken invariant. `kind`, `namespace` and `name` are the object at which it is reported,
    `node` is where the pod runs that shows it.
    """

    invariant: str
    kind: str
    namespace: str
    name: str
    detail: str
    node: str = ""


def age_of(text: object, now: datetime) -> float:
    """Seconds since a time as the API writes it; 0 for none."""
    if not text:
        return 0.0
    try:
        return (now - datetime.fromisoformat(str(text).replace("Z", "+00:00"))).total_seconds()
    except ValueError:
        return 0.0


def pod_symptoms(
    pod: Object,
    now: datetime,
    home: Callable[[Object], tuple[str, str]],
    failed_probes: Sequence[str] = (),
) -> Iterator[Symptom]:
    """What is wrong with a pod; `home` is the kind and name of the workload it is reported at.

    `failed_probes` is what the kubelet reported about its probes within the last minute.
    """
    metadata, status = pod.get("metadata") or {}, pod.get("status") or {}
    kind, name = home(pod)
    namespace, own = str(metadata.get("namespace") or ""), str(metadata.get("name") or "")

    def symptom(invariant: str, detail: str) -> Symptom:
        node = str((pod.get("spec") or {}).get("nodeName") or "")
        return Symptom(invariant, kind, namespace, name, f"pod {own}: {detail}"[:300], node)

    if metadata.get("deletionTimestamp"):
        over_s = age_of(metadata["deletionTimestamp"], now)
        if over_s > DELETION_SLACK_S:
            held = ", ".join(metadata.get("finalizers") or ()) or "the kubelet has not reported"
            yield symptom("objects_deleted", f"still being deleted ({held})")
        return
    if status.get("phase") == "Failed" and kind != "job":
        if status.get("reason") == "Evicted" and age_of(status.get("startTime"), now) < 3600:
            yield symptom("containers_run", f"evicted: {status.get('message', '')}")
        return
    if status.get("phase") == "Succeeded":
        return
    scheduled = condition_of(pod, "PodScheduled")
    if scheduled.get("status") == "False":
        if scheduled.get("reason") == "Unschedulable":
            yield symptom("pods_scheduled", str(scheduled.get("message", "")))
        return
    states = [
        *(status.get("initContainerStatuses") or ()),
        *(status.get("containerStatuses") or ()),
    ]
    restarts_min = 1 if any(map(_KILLING_PROBE.search, failed_probes)) else RESTARTS_MIN
    wrong = [
        found
        for state in states
        if (found := _container_symptom(pod, state, now, restarts_min=restarts_min))
    ]
    for invariant, detail in dict(wrong).items():
        yield symptom(invariant, detail)
    if not wrong and (why := _why_unready(pod, now, failed_probes)):
        yield symptom("pods_ready", why)


def _container_symptom(
    pod: Object, state: Object, now: datetime, *, restarts_min: int
) -> tuple[str, str] | None:
    """What is wrong with one container, by its state and the last one."""
    current, last = state.get("state") or {}, state.get("lastState") or {}
    waiting = current.get("waiting") or {}
    reason, name = str(waiting.get("reason") or ""), state.get("name")
    message = f"container {name}: {reason} {waiting.get('message') or ''}".strip()
    if reason in _PULLING:
        return "images_pulled", message
    if reason in _STARTING:
        return "containers_start", message
    ended = current.get("terminated") or last.get("terminated") or {}
    if not ended:
        return None
    code, why = ended.get("exitCode"), str(ended.get("reason") or "")
    fresh = age_of(ended.get("finishedAt"), now) < RESTARTED_S
    restarts = int(state.get("restartCount") or 0)
    report = f"container {name}: {why or 'ended'}, exit code {code}, {restarts} restarts"
    if why in ("StartError", "ContainerCannotRun"):
        return "containers_start", f"{report}: {ended.get('message') or ''}"
    if why == "OOMKilled" and fresh:
        return "containers_run", report
    # A container that the kubelet stops to delete its pod ends as well, but is not restarted.
    if reason == "CrashLoopBackOff":
        return "containers_run", report
    if (
        code
        and current.get("terminated")
        and (pod.get("spec") or {}).get("restartPolicy") != "Never"
    ):
        return "containers_run", report
    if fresh and restarts >= restarts_min and (restarts_min == 1 or not state.get("ready")):
        return "containers_run", report
    return None


def _why_unready(pod: Object, now: datetime, failed_probes: Sequence[str]) -> str:
    """Why a pod that runs should be ready and is not; "" where it still has time."""
    ready, status = condition_of(pod, "Ready"), pod.get("status") or {}
    if status.get("phase") != "Running" or ready.get("status") != "False":
        return ""
    waited_s = age_of(ready.get("lastTransitionTime"), now)
    specs = {item.get("name"): item for item in (pod.get("spec") or {}).get("containers") or ()}
    for state in status.get("containerStatuses") or ():
        if state.get("ready"):
            continue
        running = (state.get("state") or {}).get("running")
        if not running:
            return ""
        up_s = age_of(running.get("startedAt"), now)
        item = specs.get(state.get("name"), {})
        flipped = up_s - waited_s > FLIP_S
        patience_s = _patience_s(item, started=bool(state.get("started", True)))
        if _is_starting(item, failed_probes):
            patience_s = max(patience_s, STARTING_S)
        if flipped or up_s > patience_s:
            return f"container {state.get('name')} runs and is not ready"
    return ""


def _is_starting(container: Object, failed_probes: Sequence[str]) -> bool:
    """Whether nothing listens yet at the port that a container declares."""
    refused = [match for each in failed_probes if (match := _REFUSED.search(each))]
    ports = {str(port.get("containerPort")) for port in container.get("ports") or ()}
    meant = all(not ports or match.group(1) in ports for match in refused)
    return bool(refused) and meant and len(refused) == len(failed_probes)


def _patience_s(container: Object, *, started: bool) -> float:
    """How long a container may take to become ready, by its own probes."""
    total = PROBE_SLACK_S
    for key in ("readinessProbe",) if started else ("startupProbe", "readinessProbe"):
        probe = container.get(key)
        if probe:
            period, failures = probe.get("periodSeconds", 10), probe.get("failureThreshold", 3)
            total += probe.get("initialDelaySeconds", 0) + period * failures
    return total


def workload_symptoms(kind: str, item: Object, now: datetime) -> Iterator[Symptom]:
    """What a workload, claim, autoscaler or namespace reports of itself."""
    metadata, status = item.get("metadata") or {}, item.get("status") or {}
    namespace, name = str(metadata.get("namespace") or ""), str(metadata.get("name") or "")

    def symptom(invariant: str, detail: object) -> Symptom:
        return Symptom(invariant, kind, namespace, name, str(detail)[:300])

    if metadata.get("deletionTimestamp"):
        over_s = age_of(metadata["deletionTimestamp"], now)
        slack_s = NAMESPACE_DELETION_S if kind == "namespace" else DELETION_SLACK_S
        if over_s > slack_s and (metadata.get("finalizers") or kind == "namespace"):
            why = condition_of(item, "NamespaceFinalizersRemaining").get("message")
            held = ", ".join(metadata.get("finalizers") or ())
            yield symptom("objects_deleted", f"still being deleted: {why or held}")
        return
    if kind == "deployment":
        refused = condition_of(item, "ReplicaFailure")
        if refused.get("status") == "True":
            yield symptom("pods_admitted", refused.get("message"))
        progress = condition_of(item, "Progressing")
        if progress.get("reason") == "ProgressDeadlineExceeded":
            yield symptom("rollouts_complete", progress.get("message"))
    elif kind == "job":
        failed = condition_of(item, "Failed")
        if failed.get("status") == "True":
            yield symptom("jobs_succeed", f"{failed.get('reason')}: {failed.get('message')}")
    elif kind == "horizontalpodautoscaler":
        for part in ("AbleToScale", "ScalingActive"):
            found = condition_of(item, part)
            if found.get("status") == "False" and found.get("reason") != "ScalingDisabled":
                yield symptom("autoscaling_works", found.get("message"))
    elif kind == "persistentvolumeclaim" and status.get("phase") == "Lost":
        yield symptom("volumes_bound", "its volume is gone")


def node_symptoms(node: Object) -> Iterator[Symptom]:
    """What a node reports, and that it reports nothing."""
    name = str((node.get("metadata") or {}).get("name") or "")
    ready = condition_of(node, "Ready")
    if ready.get("status") != "True":
        why = ready.get("message") or "it has not reported yet"
        yield Symptom("nodes_ready", "node", "", name, f"not ready: {why}"[:300])
        return
    for kind, words in _PRESSURES.items():
        if condition_of(node, kind).get("status") == "True":
            yield Symptom("nodes_ready", "node", "", name, words)


def home_of(pod: Object, sets: Mapping[tuple[str, str], str]) -> tuple[str, str]:
    """The workload that a pod is reported at; `sets` has the Deployment of each ReplicaSet."""
    metadata = pod.get("metadata") or {}
    kind, name = controller_of(pod)
    if kind == "replicaset":
        deployment = sets.get((str(metadata.get("namespace") or ""), name), "")
        return ("deployment", deployment) if deployment else ("replicaset", name)
    return (kind, name) if kind else ("pod", str(metadata.get("name") or ""))
