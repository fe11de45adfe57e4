"""What can be done to a cluster through its API: each tool reads, refuses where it is unsure, lets
the API server try it without keeping anything, and changes only what it read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from operator_protocols.domain.action import Argument, Result
from operator_protocols.domain.category import FailureCategory
from operator_protocols.domain.tool import Prepared, ToolSpec
from operator_protocols.errors import OperatorError
from operator_protocols.kit.knowledge import read_knowledge
from operator_protocols.kit.tool import Call, Done, RefusedCall, TypedTool, check_arguments
from operator_protocols.ports import Job, SubjectSettings, Tool
from operator_sre.subjects.kubernetes.connection import ChangingApi, open_api
from operator_sre.subjects.kubernetes.edits import Fields
from operator_sre.subjects.kubernetes.facts import condition_of, controller_of
from operator_sre.subjects.kubernetes.owners import find_owner
from operator_sre.subjects.kubernetes.plans import RESOURCES, ClusterCall, Plan, Request
from operator_sre.subjects.kubernetes.rollouts import restart_dns, restart_rollout, undo_rollout
from operator_sre.subjects.kubernetes.snapshot import parse_quantity
from operator_sre.subjects.kubernetes.subject import Options, options_from

__all__ = ["KNOWLEDGE", "RepairTool", "kubernetes_tools"]

Object = dict[str, Any]
Planner = Callable[[ClusterCall], Awaitable[Plan]]
Connect = Callable[[str, str], ChangingApi]
T = TypeVar("T")

KNOWLEDGE = read_knowledge(Path(__file__).parent / "repairs")
APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
BEFORE = "operator-sre/before"
RETRY_S = 1.0
MEMORY_FACTOR_MAX, QUOTA_FACTOR_MAX = 4.0, 2.0
_SCALED = re.compile(r"replica set (?P<set>\S+) from (?P<count>\d+) to 0$")
_SERVICE_FIELDS = ("selector", "ports")
_REPLICAS = ("spec", "replicas")


@dataclass(frozen=True, slots=True)
class RepairTool:
    """One plan as a tool: bound when it is proposed, tried by the server, and then done."""

    spec: ToolSpec
    planner: Planner
    settings: SubjectSettings
    connect: Connect

    async def prepare(self, arguments: Mapping[str, Argument]) -> Prepared:
        """The object that the call is bound to and the diff, after a dry run; what speaks against
        it otherwise. A cluster that does not answer is for the call to report.
        """
        try:
            given = check_arguments(self.spec, arguments)
            plan = await self._with_cluster(given, Job(), self._try)
        except RefusedCall as refused:
            return Prepared(flaws=(str(refused),), category=refused.category)
        except (OperatorError, OSError, TimeoutError):
            return Prepared()
        return Prepared(plan.binding, plan.expected)

    async def call(self, arguments: Mapping[str, Argument], job: Job) -> Result:
        """Do it. A failure is a Result."""

        async def act(call: Call) -> Done:
            return await self._with_cluster(call.arguments, call.job, self._do)

        return await TypedTool(self.spec, act).call(arguments, job)

    async def _with_cluster(
        self,
        arguments: Mapping[str, Argument],
        job: Job,
        work: Callable[[ClusterCall], Awaitable[T]],
    ) -> T:
        """Work on a connection of its own."""
        options: Options = options_from(self.settings.options)
        api = self.connect(options.kubeconfig, options.context)
        try:
            now = self.settings.clock.now()
            call = ClusterCall(arguments, job, api, now, options.namespace, options.good_after_s)
            return await work(call)
        finally:
            await api.close()

    async def _try(self, call: ClusterCall) -> Plan:
        plan = call.require_same(await self.planner(call))
        for request in plan.requests:
            await request.send(call.api, dry=True)
        return plan

    async def _do(self, call: ClusterCall) -> Done:
        plan = await self._try(call)
        for request in plan.requests:
            while not await request.send_soon(call.api):
                await self.settings.clock.sleep(RETRY_S)
        return Done(plan.sentence, plan.data, plan.undo)


def kubernetes_tools(settings: SubjectSettings, *, connect: Connect = open_api) -> Sequence[Tool]:
    """All of them, for one cluster."""
    planners = (
        *(undo_rollout, restart_rollout, restart_dns, scale_workload, restore_service),
        *(uncordon_node, cordon_node, drain_node, delete_pod, rerun_job, set_memory_limit),
        set_quota,
    )
    return tuple(
        RepairTool(KNOWLEDGE.tools[each.__name__], each, settings, connect) for each in planners
    )


async def scale_workload(call: ClusterCall) -> Plan:
    """Refused where an autoscaler decides, and where the last number is not known."""
    kind, namespace, name = call.place("deployment", "statefulset")
    item = await call.read(kind, namespace, name)
    for each in await call.list("horizontalpodautoscaler", namespace):
        target = each["spec"].get("scaleTargetRef") or {}
        if (str(target.get("kind")).lower(), target.get("name")) == (kind, name):
            raise RefusedCall(f"The autoscaler {each['metadata']['name']} scales {name}.")
    before = int(item["spec"].get("replicas", 1))
    wanted = call.integer("replicas") or (0 if before else await _last_replicas(call, item))
    if not wanted:
        raise RefusedCall(
            f"The last number of replicas of {name} is not known; a person names it."
            if not before
            else f"{name} has {before} replicas and was not scaled to zero; name a number."
        )
    undo = call.undone_by("scale_workload", replicas=before) if before else None
    sentence = f"{name} has {wanted} replicas instead of {before}."
    return call.change(item, {_REPLICAS: wanted}, sentence, undo=undo)


async def _last_replicas(call: ClusterCall, item: Object) -> int:
    """How many were applied last, or ran before it was scaled to zero by its events; or 0."""
    metadata = item["metadata"]
    if applied := int((_read_applied(item).get("spec") or {}).get("replicas") or 0):
        return applied
    query = {"fieldSelector": f"involvedObject.uid={metadata['uid']},reason=ScalingReplicaSet"}
    events = await call.list("event", metadata["namespace"], query)
    # The clock of an event has seconds; its version has the order.
    found = [
        (each, match)
        for each in sorted(events, key=_version_of, reverse=True)
        if (match := _SCALED.search(str(each.get("message") or "")))
    ]
    if not found or any(match["set"] != found[0][1]["set"] for _, match in found):
        return 0  # in the middle of a rollout each revision has a number of its own
    return int(found[0][1]["count"])


def _version_of(item: Object) -> int:
    text = str(item["metadata"].get("resourceVersion") or "")
    return int(text) if text.isdecimal() else 0


def _read_applied(item: Object) -> Object:
    """What `kubectl apply` was given last; empty where that is not known."""
    text = (item["metadata"].get("annotations") or {}).get(APPLIED) or "{}"
    try:
        found: Object = json.loads(text)
    except ValueError:
        return {}
    return found


async def restore_service(call: ClusterCall) -> Plan:
    """Refused where what was applied would lead to no pod either."""
    kind, namespace, name = call.place("service")
    item = await call.read(kind, namespace, name)
    before = {key: item["spec"][key] for key in _SERVICE_FIELDS if key in item["spec"]}
    annotations = item["metadata"].get("annotations") or {}
    if call.text("which") == "before":
        wanted: Object = json.loads(annotations.get(BEFORE) or "{}")
        note, undo = None, None
    else:
        wanted = _read_applied(item).get("spec") or {}
        note = json.dumps(before)
        undo = call.undone_by("restore_service", which="before")
        selector = wanted.get("selector") or {}
        pods = await call.list("pod", namespace)
        if not any(
            selector.items() <= (pod["metadata"].get("labels") or {}).items() for pod in pods
        ):
            raise RefusedCall(
                f"The applied selector of {name} selects no pod either, or is not known; its owner "
                "corrects it."
            )
    if not wanted.get("selector") or not wanted.get("ports"):
        raise RefusedCall(
            f"The earlier selector and ports of {name} are not known.", FailureCategory.NOT_FOUND
        )
    ports = [_complete_port(each, before.get("ports") or ()) for each in wanted["ports"]]
    fields: Fields = {
        ("spec", "selector"): wanted["selector"],
        ("spec", "ports"): ports,
    }
    if all(item["spec"].get(path[1]) == value for path, value in fields.items()):
        raise RefusedCall(f"{name} already has the applied values; nothing to change.")
    sentence = f"{name} has the selector and ports that it had."
    return call.change(
        item, {**fields, ("metadata", "annotations", BEFORE): note}, sentence, undo=undo
    )


def _complete_port(wanted: Object, live: Sequence[Object]) -> Object:
    """A port as it was applied, with what the API server had chosen for it."""
    number = wanted.get("port")
    chosen = next((each.get("nodePort") for each in live if each.get("port") == number), None)
    more = {"nodePort": chosen} if chosen else {}
    return {"protocol": "TCP", "targetPort": number, **more, **wanted}


async def cordon_node(call: ClusterCall) -> Plan:
    """Refused where no other node could take pods."""
    return _cordon(call, await _read_node(call))


async def _read_node(call: ClusterCall) -> Object:
    """The node; RefusedCall where no other one takes pods."""
    kind, namespace, name = call.place("node")
    item = await call.read(kind, namespace, name)
    others = [
        each["metadata"]["name"]
        for each in await call.list("node", "")
        if each["metadata"]["name"] != name
        and not (each.get("spec") or {}).get("unschedulable")
        and condition_of(each, "Ready").get("status") == "True"
    ]
    if not others:
        raise RefusedCall(f"No other node than {name} takes pods.", FailureCategory.RESOURCE)
    return item


def _cordon(call: ClusterCall, item: Object) -> Plan:
    name = item["metadata"]["name"]
    undo = call.undone_by("uncordon_node")
    fields: Fields = {("spec", "unschedulable"): True}
    return call.change(item, fields, f"{name} takes no new pods.", undo=undo, declared=False)


async def drain_node(call: ClusterCall) -> Plan:
    """Refused where a pod would not come back elsewhere, or would lose data."""
    item = await _read_node(call)
    name = item["metadata"]["name"]
    is_cordoned = (item.get("spec") or {}).get("unschedulable")
    # A drain that was interrupted has cordoned the node already.
    cordon = Plan(item, (), "") if is_cordoned else _cordon(call, item)
    requests = list(cordon.requests)
    for pod in await call.list("pod", "", {"fieldSelector": f"spec.nodeName={name}"}):
        metadata, spec = pod["metadata"], pod["spec"]
        own, namespace = metadata["name"], metadata["namespace"]
        holder, _ = controller_of(pod)
        is_over = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
        if holder in ("daemonset", "node") or is_over or metadata.get("deletionTimestamp"):
            continue
        volumes = spec.get("volumes") or ()
        if not holder:
            raise RefusedCall(f"Nothing replaces the pod {own}, which runs on {name}.")
        if any("emptyDir" in each for each in volumes):
            raise RefusedCall(f"The pod {own} would lose what it keeps on {name} (emptyDir).")
        if any("hostPath" in each or "persistentVolumeClaim" in each for each in volumes):
            raise RefusedCall(f"The pod {own} has a volume that may be bound to {name}.")
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": own, "namespace": namespace},
            "deleteOptions": {"preconditions": {"uid": metadata["uid"]}},
        }
        path = f"{RESOURCES['pod'].path(namespace)}/{own}/eviction"
        requests.append(Request("POST", path, body, is_patient=True))
    count = len(requests) - len(cordon.requests)
    if not requests:
        raise RefusedCall(f"{name} is cordoned, and no pod has to leave it.")
    sentence = f"{name} is cordoned, and {count} pods were evicted."
    return replace(
        cordon, requests=tuple(requests), sentence=sentence, expected=f"{count} pods are evicted."
    )


async def uncordon_node(call: ClusterCall) -> Plan:
    """Refused for a node that is not ready, or that is tainted for another reason."""
    kind, namespace, name = call.place("node")
    item = await call.read(kind, namespace, name)
    if condition_of(item, "Ready").get("status") != "True":
        raise RefusedCall(f"{name} is not ready.")
    taints = [
        str(each.get("key"))
        for each in (item.get("spec") or {}).get("taints") or ()
        if each.get("key") != "node.kubernetes.io/unschedulable"
    ]
    if taints:
        raise RefusedCall(f"{name} is tainted as well: {', '.join(taints)}.")
    undo = call.undone_by("cordon_node")
    fields: Fields = {("spec", "unschedulable"): None}
    return call.change(item, fields, f"{name} takes new pods.", undo=undo, declared=False)


async def delete_pod(call: ClusterCall) -> Plan:
    """Refused for a pod that serves, that nothing replaces, or that is not of the target."""
    kind, namespace, name = call.place("deployment", "statefulset", "daemonset")
    own = call.text("pod")
    item = await call.read("pod", namespace, own)
    holder, holder_name = controller_of(item)
    if holder == "replicaset":
        above = await call.read("replicaset", namespace, holder_name)
        holder, holder_name = controller_of(above)
    if (holder, holder_name) != (kind, name):
        raise RefusedCall(f"The pod {own} does not belong to {name}.", FailureCategory.NOT_FOUND)
    if find_owner(item):
        raise RefusedCall(f"The pod {own} is looked after by {find_owner(item)}.")
    if condition_of(item, "Ready").get("status") == "True":
        raise RefusedCall(f"The pod {own} is ready; only a pod that is not ready is deleted.")
    metadata = item["metadata"]
    only = {name: metadata[name] for name in ("uid", "resourceVersion")}
    body = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": only}
    request = Request("DELETE", f"{RESOURCES['pod'].path(namespace)}/{own}", body)
    return Plan(item, (request,), f"The pod {own} is replaced.", f"The pod {own} is deleted.")


async def rerun_job(call: ClusterCall) -> Plan:
    """Refused where the Job may not be repeated, or was repeated once already."""
    kind, namespace, name = call.place("job")
    item = await call.read(kind, namespace, name)
    if condition_of(item, "Failed").get("status") != "True":
        raise RefusedCall(f"The Job {name} has not failed.")
    spec = json.loads(json.dumps(item["spec"]))
    if not spec.get("backoffLimit", 6):
        raise RefusedCall(f"The Job {name} has a backoffLimit of 0, so it is not to be repeated.")
    owner = find_owner(item)
    if owner:
        raise RefusedCall(f"The Job {name} is looked after by {owner}.", FailureCategory.PERMISSION)
    for key in ("selector", "manualSelector"):
        spec.pop(key, None)
    labels = (spec["template"].get("metadata") or {}).get("labels") or {}
    for key in [key for key in labels if key.endswith(("controller-uid", "job-name"))]:
        del labels[key]
    # One name for each Job, so that a call that is repeated runs nothing twice.
    again = f"{name[:56]}-rerun"
    made = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": again, "annotations": {"operator-sre/rerun-of": name}},
        "spec": spec,
    }
    request = Request("POST", RESOURCES["job"].path(namespace), made)
    return Plan(item, (request,), f"The Job {again} runs.", f"A Job {again} like {name} is made.")


async def set_memory_limit(call: ClusterCall) -> Plan:
    """Refused above four times of what it is, and below what the container requests."""
    kind, namespace, name = call.place("deployment", "statefulset", "daemonset")
    item = await call.read(kind, namespace, name)
    containers = json.loads(json.dumps(item["spec"]["template"]["spec"]["containers"]))
    wanted = call.text("container")
    found = next((each for each in containers if each["name"] == wanted), None)
    if found is None:
        names = ", ".join(each["name"] for each in containers)
        raise RefusedCall(
            f"{name} has no container {wanted[:60]!r}; it has {names}.", FailureCategory.NOT_FOUND
        )
    limits = (found.get("resources") or {}).get("limits") or {}
    before, after = limits.get("memory"), call.text("memory")
    old, new = parse_quantity(before), parse_quantity(after)
    if not old or not new:
        raise RefusedCall(
            f"{after[:40]!r} is not an amount of memory, or {wanted} has no limit.",
            FailureCategory.SYNTAX,
        )
    if new > MEMORY_FACTOR_MAX * old:
        raise RefusedCall(f"{after} is more than four times of {before}; a person decides.")
    requested = parse_quantity((found["resources"].get("requests") or {}).get("memory", "0"))
    if new < (requested or 0.0):
        raise RefusedCall(f"{wanted} requests more than {after}.")
    limits["memory"] = after
    fields: Fields = {("spec", "template", "spec", "containers"): containers}
    undo = call.undone_by("set_memory_limit", container=wanted, memory=str(before))
    sentence = f"{wanted} of {name} has a memory limit of {after} instead of {before}."
    return call.change(item, fields, sentence, undo=undo)


async def set_quota(call: ClusterCall) -> Plan:
    """Refused above twice of what it is, and below what is used."""
    kind, namespace, name = call.place("resourcequota")
    item = await call.read(kind, namespace, name)
    resource, after = call.text("resource"), call.text("amount")
    before = (item["spec"].get("hard") or {}).get(resource)
    old, new = parse_quantity(before), parse_quantity(after)
    if not old or not new:
        raise RefusedCall(
            f"{name} has no limit of {resource[:60]!r}, or {after[:40]!r} is not an amount.",
            FailureCategory.NOT_FOUND,
        )
    if new > QUOTA_FACTOR_MAX * old:
        raise RefusedCall(f"{after} is more than twice of {before}; a person decides.")
    used = parse_quantity(((item.get("status") or {}).get("used") or {}).get(resource, "0"))
    if new < (used or 0.0):
        raise RefusedCall(f"More than {after} of {resource} is used.")
    undo = call.undone_by("set_quota", resource=resource, amount=str(before))
    sentence = f"{name} allows {after} of {resource} instead of {before}."
    return call.change(item, {("spec", "hard", resource): after}, sentence, undo=undo)
