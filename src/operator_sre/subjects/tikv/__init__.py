"""A TiKV cluster: stores that keep regions in copies, and PDs that say who keeps which."""

from __future__ import annotations

from operator_protocols.ports import Plugin
from operator_sre.subjects.tikv.causes import CAUSES
from operator_sre.subjects.tikv.faults import FAULTS
from operator_sre.subjects.tikv.notes import NOTES
from operator_sre.subjects.tikv.rig import rig
from operator_sre.subjects.tikv.stack import stack
from operator_sre.subjects.tikv.subject import TikvCluster
from operator_sre.subjects.tikv.tools import tikv_tools
from operator_sre.subjects.tikv.truths import TRUTHS

__all__ = ["plugin"]

plugin = Plugin(
    name="tikv",
    sentence="TiKV clusters: stores, PD, regions, leaders, copies, schedulers, space.",
    subject=TikvCluster,
    causes=CAUSES,
    rig=rig,
    faults=FAULTS,
    truths=TRUTHS,
    notes=NOTES,
    tools=tikv_tools,
    stack=stack,
)
