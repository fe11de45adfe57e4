"""Who looks after an object, so that it is not changed behind their back. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from operator_sre.subjects.kubernetes.edits import owners_of_path

__all__ = ["find_field_owner", "find_owner"]

Object = Mapping[str, Any]

# Labels and annotations of tools that put an object back into the state of their source.
_SOURCES = (
    ("argocd.argoproj.io/tracking-id", "Argo CD"),
    ("argocd.argoproj.io/instance", "Argo CD"),
    ("kustomize.toolkit.fluxcd.io/name", "Flux"),
    ("helm.toolkit.fluxcd.io/name", "Flux"),
    ("meta.helm.sh/release-name", "Helm"),
    ("fleet.cattle.io/bundle-id", "Fleet"),
    ("config.k8s.io/owning-inventory", "an inventory of manifests"),
)
_MANAGED_BY = "app.kubernetes.io/managed-by"
# Kinds of Kubernetes itself that control others; anything else that does is an operator.
_CONTROLLERS = frozenset({"CronJob", "DaemonSet", "Deployment", "Job", "ReplicaSet", "StatefulSet"})
_GROUPS = re.compile(r"^(?:v1|apps/v1|batch/v1)$")
# Programs of people who change a field by hand and do not come back to change it again.
_BY_HAND = re.compile(r"^(?:kubectl(?:-[a-z-]+)?|operator-sre|operator-lab|Mozilla.*|dashboard)$")
# Controllers of Kubernetes that write a specification for its user: a restart, a scaling.
_BUILT_IN = frozenset({"kube-controller-manager", "kube-scheduler"})


def find_owner(item: Object) -> str:
    """The GitOps tool, package manager or operator that looks after an object, or ""."""
    metadata = item["metadata"]
    for owner in metadata.get("ownerReferences") or ():
        if not owner.get("controller"):
            continue
        kind, version = str(owner.get("kind")), str(owner.get("apiVersion"))
        if kind not in _CONTROLLERS or not _GROUPS.match(version):
            return f"{kind} {owner.get('name')} ({version})"
    notes = {**(metadata.get("labels") or {}), **(metadata.get("annotations") or {})}
    for name, tool in _SOURCES:
        if notes.get(name):
            return f"{tool} ({notes[name]})"
    by = str(notes.get(_MANAGED_BY) or "")
    return "" if by in ("", "kubectl", "operator-lab") else by


def find_field_owner(item: Object, paths: Iterable[Sequence[str]]) -> str:
    """Who applied one of these fields, or changes it by a program, and would do so again, or ""."""
    for path in paths:
        for manager, operation in owners_of_path(item, path):
            if operation == "Apply" and manager != "operator-sre":
                return f"{manager} applied {'.'.join(path)}"
            if not _BY_HAND.match(manager) and manager not in _BUILT_IN:
                return f"{manager} sets {'.'.join(path)}"
    return ""
