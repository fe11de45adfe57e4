"""A TiKV cluster: stores that keep regions in copies, and PDs that say who keeps which."""

from __future__ import annotations

from operator_protocols.ports import Plugin
from operator_sre.subjects.tikv.faults import FAULTS
from operator_sre.subjects.tikv.knowledge import KNOWLEDGE
from operator_sre.subjects.tikv.rig import rig, stack
from operator_sre.subjects.tikv.subject import TikvCluster
from operator_sre.subjects.tikv.tools import tikv_tools

__all__ = ["plugin"]

STORY = {
    "cluster": (
        "Three stores hold every region in three replicas, one of which leads it. Three PD members"
        " know which store leads which region. Each request looks a region up at PD and reads its"
        " state at the leader."
    ),
    "watch": ("It asks PD for stores, regions and schedulers, and every store for its metrics."),
    "fault": (
        "The regions that a killed store led have no leader until the other two stores elect one."
    ),
    "detection": (
        "The store does not answer, PD calls it Disconnected, and regions lack a replica: one"
        " incident."
    ),
    "remedy": (
        "A store that would come back with less data than it left is not restarted. The agent"
        " observes, proposes, acts through the gate, and observes again."
    ),
    "proof": "PD must report the store as Up, with all of its replicas.",
}

plugin = Plugin(
    name="tikv",
    sentence="TiKV clusters: stores, PD, regions, leaders, copies, schedulers, space.",
    subject=TikvCluster,
    causes=KNOWLEDGE.causes,
    rig=rig,
    faults=FAULTS,
    truths=KNOWLEDGE.truths,
    notes=KNOWLEDGE.notes,
    tools=tikv_tools,
    requires=KNOWLEDGE.requires,
    stack=stack,
    story=STORY,
)
