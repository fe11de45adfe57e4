"""One form for every way to ask kubectl the same question, so that a record answers it. Pure."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["KUBECTL", "normal_form"]

KUBECTL = "kubectl"
# The short and singular names of what people ask for, and the plural that names it.
_PLURALS = {
    "po": "pods",
    "pod": "pods",
    "svc": "services",
    "service": "services",
    "deploy": "deployments",
    "deployment": "deployments",
    "sts": "statefulsets",
    "statefulset": "statefulsets",
    "ds": "daemonsets",
    "daemonset": "daemonsets",
    "rs": "replicasets",
    "replicaset": "replicasets",
    "cm": "configmaps",
    "configmap": "configmaps",
    "secret": "secrets",
    "pvc": "persistentvolumeclaims",
    "persistentvolumeclaim": "persistentvolumeclaims",
    "pv": "persistentvolumes",
    "persistentvolume": "persistentvolumes",
    "sc": "storageclasses",
    "storageclass": "storageclasses",
    "ing": "ingresses",
    "ingress": "ingresses",
    "netpol": "networkpolicies",
    "networkpolicy": "networkpolicies",
    "sa": "serviceaccounts",
    "serviceaccount": "serviceaccounts",
    "ep": "endpoints",
    "no": "nodes",
    "node": "nodes",
    "ns": "namespaces",
    "namespace": "namespaces",
    "ev": "events",
    "event": "events",
    "job": "jobs",
    "cronjob": "cronjobs",
    "cj": "cronjobs",
    "quota": "resourcequotas",
    "resourcequota": "resourcequotas",
    "limits": "limitranges",
    "limitrange": "limitranges",
    "hpa": "horizontalpodautoscalers",
    "rolebinding": "rolebindings",
}
# What is not in a namespace is the same in every one.
_CLUSTERWIDE = frozenset({"nodes", "persistentvolumes", "storageclasses", "namespaces"})
_VALUES = {
    "-n": "--namespace",
    "-o": "--output",
    "-l": "--selector",
    "-c": "--container",
}
_TAKES_VALUE = frozenset(
    {*_VALUES.values(), "--sort-by", "--field-selector", "--tail", "--since", "--context"}
)
_NAMED = frozenset({"get", "describe"})


def normal_form(words: Sequence[str]) -> tuple[str, ...]:
    """The words of a call of kubectl in one order, with the long names of everything."""
    plain: list[str] = []
    options: dict[str, str] = {}
    rest = list(words[1:])
    while rest:
        word = rest.pop(0)
        if not word.startswith("-") or word == "-":
            plain.append(word)
            continue
        if not word.startswith("--") and len(word) > 2 and word[:2] in _VALUES:
            options[_VALUES[word[:2]]] = word[2:].removeprefix("=")
            continue
        name, equals, value = word.partition("=")
        name = {"-A": "--all-namespaces", "-p": "--previous"}.get(name, _VALUES.get(name, name))
        if not equals and name in _TAKES_VALUE and rest:
            value = rest.pop(0)
        options[name] = value
    if plain and plain[0] in _NAMED and len(plain) > 1:
        kinds, slash, name = plain[1].partition("/")
        listed = ",".join(_PLURALS.get(kind, kind) for kind in kinds.lower().split(","))
        plain[1:2] = [listed, name] if slash and name else [listed]
        if set(listed.split(",")) <= _CLUSTERWIDE:
            options.pop("--namespace", None)
    if options.get("--show-labels") == "true":
        options["--show-labels"] = ""
    named = (f"{name}={value}" if value else name for name, value in sorted(options.items()))
    return (KUBECTL, *plain, *named)
