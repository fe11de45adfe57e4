"""Rollouts: back to a revision that is known to have worked, and the same revision once more."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from operator_protocols.domain.category import FailureCategory
from operator_protocols.kit.tool import RefusedCall
from operator_sre.subjects.kubernetes.edits import Fields
from operator_sre.subjects.kubernetes.facts import condition_of
from operator_sre.subjects.kubernetes.plans import ClusterCall, Plan

__all__ = ["TEMPLATE", "restart_dns", "restart_rollout", "undo_rollout"]

Object = dict[str, Any]

REVISION = "deployment.kubernetes.io/revision"
RESTARTED = "kubectl.kubernetes.io/restartedAt"
# Why a rollout makes no more progress: all pods have the new template.
COMPLETE = "NewReplicaSetAvailable"
HASH_LABEL = "pod-template-hash"
DNS_NAMES = ("coredns", "kube-dns")
TEMPLATE = ("spec", "template")


async def undo_rollout(call: ClusterCall) -> Plan:
    """Refused without an earlier revision that is known to have worked, where the present one has
    worked itself, and where the two keep their data in different places.
    """
    kind, namespace, name = call.place("deployment")
    item = await call.read(kind, namespace, name)
    if item["spec"].get("paused"):
        raise RefusedCall(f"The rollouts of {name} are paused; a person resumes them.")
    uid = item["metadata"]["uid"]
    sets = [
        each
        for each in await call.list("replicaset", namespace)
        if any(owner.get("uid") == uid for owner in each["metadata"].get("ownerReferences") or ())
    ]
    now = _revision_of(item)
    wanted = call.integer("revision")
    earlier = sorted((each for each in sets if _revision_of(each) != now), key=_revision_of)
    if wanted:
        chosen = next((each for each in earlier if _revision_of(each) == wanted), None)
    else:
        chosen = _find_good(earlier, sets, call.good_after_s)
    if chosen is None:
        known = ", ".join(str(_revision_of(each)) for each in earlier) or "none"
        missing = (
            f"revision {wanted}" if wanted else "earlier revision that is known to have worked"
        )
        raise RefusedCall(
            f"{name} has no {missing}; earlier revisions: {known}.", FailureCategory.NOT_FOUND
        )
    rollout = condition_of(item, "Progressing")
    complete_at = str(rollout.get("lastUpdateTime") or "")
    if not wanted and rollout.get("reason") == COMPLETE and complete_at:
        worked_s = (call.now - datetime.fromisoformat(complete_at)).total_seconds()
        if worked_s >= call.good_after_s:
            raise RefusedCall(
                f"Revision {now} of {name} was rolled out completely {worked_s:.0f} s ago, so that "
                "something else has changed since; an earlier revision would not repair that."
            )
    claims, before = (_claims_of(each["spec"]["template"]) for each in (item, chosen))
    if claims != before:
        raise RefusedCall(
            f"Revision {_revision_of(chosen)} of {name} keeps its data in "
            f"{', '.join(before) or 'no claim'}, and revision {now} in "
            f"{', '.join(claims) or 'no claim'}; a person decides which data is right."
        )
    template = json.loads(json.dumps(chosen["spec"]["template"]))
    (template["metadata"].get("labels") or {}).pop(HASH_LABEL, None)
    back = _revision_of(chosen)
    return call.change(
        item,
        {TEMPLATE: template},
        f"{name} has the pod template of revision {back} again.",
        undo=call.undone_by("undo_rollout", revision=now),
    )


def _claims_of(template: Object) -> list[str]:
    """The claims with the data of a pod."""
    sources = [
        each.get("persistentVolumeClaim") or {}
        for each in (template.get("spec") or {}).get("volumes") or ()
    ]
    return sorted({str(each["claimName"]) for each in sources if "claimName" in each})


def _revision_of(item: Object) -> int:
    text = (item["metadata"].get("annotations") or {}).get(REVISION, "")
    return int(text) if text.isdecimal() else 0


def _find_good(
    earlier: Sequence[Object], sets: Sequence[Object], good_after_s: float
) -> Object | None:
    """The newest earlier revision whose pods are ready, or that was current for long enough."""
    began = sorted((_creation_of(each), _revision_of(each)) for each in sets)
    for each in reversed(earlier):
        if (each.get("status") or {}).get("readyReplicas"):
            return each
        later = [at for at, revision in began if revision > _revision_of(each)]
        if later and (min(later) - _creation_of(each)).total_seconds() >= good_after_s:
            return each
    return None


def _creation_of(item: Object) -> datetime:
    return datetime.fromisoformat(item["metadata"]["creationTimestamp"])


async def restart_rollout(call: ClusterCall) -> Plan:
    """Its pods are replaced as its own strategy says."""
    kind, namespace, name = call.place("deployment", "statefulset", "daemonset")
    return await _restart(call, kind, namespace, name)


async def restart_dns(call: ClusterCall) -> Plan:
    """Only the DNS of the cluster."""
    kind, namespace, name = call.place("deployment", system=True)
    if namespace != "kube-system" or name not in DNS_NAMES:
        raise RefusedCall(f"{name} is not the DNS of the cluster.", FailureCategory.NOT_FOUND)
    return await _restart(call, kind, namespace, name)


async def _restart(call: ClusterCall, kind: str, namespace: str, name: str) -> Plan:
    item = await call.read(kind, namespace, name)
    if not item["spec"].get("replicas", 1):
        raise RefusedCall(f"{name} has no replicas; nothing would be started.")
    if item["spec"].get("paused"):
        raise RefusedCall(f"The rollouts of {name} are paused; a person resumes them.")
    # Bound to the state of the object, so that a call that is repeated restarts nothing twice.
    mark = item["metadata"]["resourceVersion"]
    fields: Fields = {(*TEMPLATE, "metadata", "annotations", RESTARTED): f"at-version-{mark}"}
    # An annotation of a restart is none of the fields that a source has.
    return call.change(item, fields, f"The pods of {name} are being replaced.", declared=False)
