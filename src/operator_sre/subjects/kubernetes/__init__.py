"""Kubernetes: watches and diagnoses live clusters, and diagnoses recorded ones."""

from operator_protocols.domain.target import Target
from operator_protocols.ports import Plugin
from operator_sre.subjects.kubernetes.attached import attach
from operator_sre.subjects.kubernetes.faults import CONTROLS, FAULTS, TRUTHS
from operator_sre.subjects.kubernetes.invariants import CLUSTER, shown_causes
from operator_sre.subjects.kubernetes.reader import RecordReader
from operator_sre.subjects.kubernetes.rig import rig
from operator_sre.subjects.kubernetes.shop import KubernetesDepot
from operator_sre.subjects.kubernetes.subject import KubernetesCluster
from operator_sre.subjects.kubernetes.tools import KNOWLEDGE, kubernetes_tools

__all__ = ["plugin", "reader"]

reader = RecordReader()
plugin = Plugin(
    name="kubernetes",
    sentence="Kubernetes clusters: workloads, services, volumes, nodes, control plane.",
    subject=KubernetesCluster,
    causes=shown_causes({each.name: each.remedies for each in KNOWLEDGE.causes}),
    rig=rig,
    attach=attach,
    faults=FAULTS,
    controls=CONTROLS,
    truths=TRUTHS,
    depot=KubernetesDepot,
    notes=KNOWLEDGE.notes,
    tools=kubernetes_tools,
    targets=lambda _: (Target(CLUSTER, CLUSTER),),
)
