"""Which resources of a cluster are watched, and where the API serves them. Secrets are not among
them.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CLUSTER_WIDE", "WATCHED", "WORKLOAD_KINDS", "Resource"]

WORKLOAD_KINDS = ("deployment", "statefulset", "daemonset", "job", "cronjob")


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource of the API. `kind` is its name in lower case, `group` empty for the core group.

    Without the right to read an `optional` one, or where the cluster does not serve it, the rest
    is observed without it. `selector` limits what the server sends.
    """

    kind: str
    plural: str
    group: str = ""
    version: str = "v1"
    namespaced: bool = True
    optional: bool = False
    selector: str = ""
    namespace: str = ""

    def path(self, namespace: str = "") -> str:
        """The path of all its objects, or of those in one namespace."""
        base = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        within = self.namespace or (namespace if self.namespaced else "")
        return f"{base}/namespaces/{within}/{self.plural}" if within else f"{base}/{self.plural}"


WATCHED = (
    Resource("node", "nodes", namespaced=False, optional=True),
    Resource("namespace", "namespaces", namespaced=False, optional=True),
    Resource("pod", "pods"),
    Resource("service", "services"),
    Resource("event", "events", selector="type=Warning", optional=True),
    Resource("configmap", "configmaps", optional=True),
    Resource("serviceaccount", "serviceaccounts", optional=True),
    Resource("resourcequota", "resourcequotas", optional=True),
    Resource("persistentvolumeclaim", "persistentvolumeclaims", optional=True),
    Resource("persistentvolume", "persistentvolumes", namespaced=False, optional=True),
    Resource("endpointslice", "endpointslices", "discovery.k8s.io", optional=True),
    Resource("deployment", "deployments", "apps"),
    Resource("replicaset", "replicasets", "apps"),
    Resource("statefulset", "statefulsets", "apps", optional=True),
    Resource("daemonset", "daemonsets", "apps", optional=True),
    Resource("job", "jobs", "batch", optional=True),
    Resource("cronjob", "cronjobs", "batch", optional=True),
    Resource(
        "horizontalpodautoscaler", "horizontalpodautoscalers", "autoscaling", "v2", optional=True
    ),
    Resource("poddisruptionbudget", "poddisruptionbudgets", "policy", optional=True),
    Resource("ingress", "ingresses", "networking.k8s.io", optional=True),
    Resource("networkpolicy", "networkpolicies", "networking.k8s.io", optional=True),
    Resource("storageclass", "storageclasses", "storage.k8s.io", namespaced=False, optional=True),
    # Only the leases of the control plane: every kubelet renews one as well.
    Resource("lease", "leases", "coordination.k8s.io", optional=True, namespace="kube-system"),
)
CLUSTER_WIDE = frozenset(each.kind for each in WATCHED if not each.namespaced)
