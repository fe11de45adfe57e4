"""A TiKV cluster: stores that keep regions in copies, and PDs that say who keeps which."""

from __future__ import annotations

from operator_protocols.ports import Plugin
from operator_sre.subjects.tikv.faults import FAULTS
from operator_sre.subjects.tikv.knowledge import KNOWLEDGE
from operator_sre.subjects.tikv.rig import rig, stack
from operator_sre.subjects.tikv.subject import TikvCluster
from operator_sre.subjects.tikv.tools import tikv_tools

__all__ = ["plugin"]

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
)
