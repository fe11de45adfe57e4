"""Ways to hurt a TiKV cluster, each with how to mend it and who can tell that it is over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from operator_protocols.faults import (
    cut_off,
    filled,
    flooded,
    killed,
    limited,
    occupied,
    paused,
    slowed,
)
from operator_protocols.ports import Fault, RightEnd, Scene
from operator_sre.subjects.tikv.faults_planned import (
    LEADER_IMBALANCE,
    SCHEDULER_LEFT,
    SPLIT_IGNORED,
)
from operator_sre.subjects.tikv.kinds import PD, STORE
from operator_sre.subjects.tikv.witness import witness

__all__ = ["FAULTS"]

# There and back it is more than the rig allows a request to take.
SLOW_S = 1.2
# Fewer than it has open already, so that it can open no more.
FILES_MAX = 4
# What a cluster is without while a store is away; PD may just have asked it for something.
AWAY = (
    "store_down",
    "store_disconnected",
    "store_unreachable",
    "peers_unreachable",
    "regions_without_leader",
    "under_replicated",
    "operator_stuck",
)


def _leading(fault: Fault, *, leads: bool, sentence: str) -> Fault:
    """The same fault at a member of PD that leads, or does not, whoever led before."""

    async def inject(scene: Scene) -> Mapping[str, str]:
        async with witness(scene) as sees:
            leader = await sees.leader()
            if leads:
                await sees.lead(scene.target)
            elif leader is not None and leader.name == scene.target.name:
                others = [one for one in scene.of_kind(PD) if one.name != leader.name]
                await sees.lead(others[0])
        return await fault.inject(scene)

    return replace(fault, inject=inject, sentence=sentence)


PD_FAULTS: tuple[Fault, ...] = (
    _leading(
        killed("pd_leader_kill", PD, breaks=("pd_member_down", "pd_no_leader")),
        leads=True,
        sentence="The member of PD that leads is killed.",
    ),
    _leading(
        paused("pd_leader_pause", PD, breaks=("pd_member_down", "pd_no_leader")),
        leads=True,
        sentence="The member of PD that leads is frozen.",
    ),
    _leading(
        killed("pd_member_kill", PD, breaks=("pd_member_down",)),
        leads=False,
        sentence="A member of PD that does not lead is killed.",
    ),
    # Members that are lost may have to be replaced by force, which is for people to decide.
    replace(
        killed("pd_quorum_lost", PD, breaks=("pd_no_leader", "pd_member_down"), count=2),
        end=RightEnd.ESCALATED,
        sentence="Two members of PD are killed, and the one that is left cannot lead.",
    ),
)

FAULTS: tuple[Fault, ...] = (
    killed("node_kill", STORE, breaks=AWAY),
    killed("stores_kill", STORE, breaks=AWAY, count=2),
    paused("node_pause", STORE, breaks=AWAY),
    slowed("latency", STORE, breaks=("high_latency",), delay_s=SLOW_S, others=(STORE,)),
    cut_off(
        "network_partition",
        STORE,
        breaks=("store_disconnected", "store_down", *AWAY[2:]),
        others=(PD,),
    ),
    cut_off("network_isolation", STORE, breaks=AWAY),
    cut_off(
        "peers_cut",
        STORE,
        breaks=("peers_unreachable", "high_latency", *AWAY[4:], "leader_imbalance"),
        others=(STORE,),
    ),
    replace(filled("disk_pressure", STORE, breaks=("low_disk_space",)), end=RightEnd.ESCALATED),
    limited("file_descriptors", STORE, breaks=AWAY, files=FILES_MAX),
    # Whose process holds the port, and whether it may go, is known to people only.
    replace(occupied("port_taken", STORE, breaks=AWAY), end=RightEnd.ESCALATED),
    flooded("log_flood", STORE, breaks=("log_oversized",)),
    *PD_FAULTS,
    SCHEDULER_LEFT,
    LEADER_IMBALANCE,
    SPLIT_IGNORED,
)
