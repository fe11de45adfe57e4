"""An etcd cluster: members that agree on every write by majority."""

from __future__ import annotations

from operator_protocols.ports import Plugin
from operator_sre.subjects.etcd.faults import FAULTS
from operator_sre.subjects.etcd.rig import EtcdDepot, rig
from operator_sre.subjects.etcd.subject import EtcdCluster
from operator_sre.subjects.etcd.tools import KNOWLEDGE, etcd_tools

__all__ = ["plugin"]

plugin = Plugin(
    name="etcd",
    sentence="etcd clusters: members, leader, quorum, space, agreement.",
    subject=EtcdCluster,
    causes=KNOWLEDGE.causes,
    rig=rig,
    faults=FAULTS,
    truths=KNOWLEDGE.truths,
    notes=KNOWLEDGE.notes,
    tools=etcd_tools,
    requires=KNOWLEDGE.requires,
    depot=EtcdDepot,
)
