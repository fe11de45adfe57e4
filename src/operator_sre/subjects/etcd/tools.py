"""What can be done to an etcd cluster through its own API."""

from __future__ import annotations

from collections.abc import Sequence

from operator_protocols.domain.action import Action
from operator_protocols.domain.category import FailureCategory
from operator_protocols.domain.tool import Parameter, ParameterType, ToolSource, ToolSpec
from operator_protocols.domain.verdict import Risk
from operator_protocols.ports import SubjectSettings, Tool
from operator_sre.subjects.etcd.align import ALIGN_SETTINGS, align_settings
from operator_sre.subjects.etcd.cluster import Cluster, agreement
from operator_sre.subjects.etcd.deed import Deed, Done, EtcdTool, Refusal
from operator_sre.subjects.etcd.glimpse import Glimpse
from operator_sre.subjects.etcd.members import alarms_from
from operator_sre.subjects.etcd.probes import hashes_of
from operator_sre.subjects.etcd.replace import REPLACE_MEMBER, replace_member
from operator_sre.subjects.etcd.rotate import ROTATE_LOG, rotate_log

__all__ = [
    "COMPACT",
    "DEFRAGMENT",
    "DISARM_ALARM",
    "FREE_SPACE",
    "MOVE_LEADER",
    "etcd_tools",
]

KEEP = 100
MB = 1 << 20
_KEEP = Parameter(
    "keep",
    "how many of the last revisions stay readable",
    ParameterType.INTEGER,
    required=False,
    default=KEEP,
    minimum=0,
)

DEFRAGMENT = ToolSpec(
    name="defragment",
    sentence="Give the space in one member's file that holds nothing back to its disk.",
    parameters=(Parameter("target", "the member", infers="target"),),
    source=ToolSource.SUBJECT,
    risk=Risk.MEDIUM,
    changes=True,
    idempotent=True,
    expected="That its file is as small as what is in use; it answers nobody meanwhile.",
    verify="Its db_bytes are close to its db_in_use_bytes.",
    timeout_s=120.0,
    ends=("space_not_returned",),
)

COMPACT = ToolSpec(
    name="compact",
    sentence="Forget the history of all keys but for the last revisions.",
    parameters=(_KEEP,),
    source=ToolSource.SUBJECT,
    risk=Risk.MEDIUM,
    changes=True,
    idempotent=True,
    expected="That older values cannot be read any more, and watches that are older end.",
    verify="compact_revision went up, and db_in_use_bytes went down.",
    timeout_s=120.0,
    ends=("history_kept",),
)

DISARM_ALARM = ToolSpec(
    name="disarm_alarm",
    sentence="Take back the alarms of one member, or of all, when their reason is gone.",
    parameters=(
        Parameter("member", "the member; all when it is not named", required=False, default=""),
    ),
    source=ToolSource.SUBJECT,
    risk=Risk.LOW,
    changes=True,
    idempotent=True,
    expected="That writes are taken again.",
    verify="alarms is empty everywhere.",
    timeout_s=60.0,
    ends=("alarm_left",),
)

MOVE_LEADER = ToolSpec(
    name="move_leader",
    sentence="Let another member lead.",
    parameters=(
        Parameter(
            "to", "the member; the best one when it is not named", required=False, default=""
        ),
    ),
    source=ToolSource.SUBJECT,
    risk=Risk.LOW,
    changes=True,
    reversible=True,
    idempotent=True,
    undo="move_leader",
    expected="That requests wait for a moment and go on.",
    verify="is_leader holds at that member.",
    timeout_s=60.0,
    ends=("leader_distant",),
)

FREE_SPACE = ToolSpec(
    name="free_space",
    sentence="Compact, defragment one member after the other, and take the alarm back.",
    parameters=(_KEEP,),
    source=ToolSource.SUBJECT,
    risk=Risk.MEDIUM,
    changes=True,
    idempotent=True,
    expected="That history is gone, files are small, and writes are taken again.",
    verify="quota_ratio is below its limit and alarms is empty.",
    timeout_s=300.0,
    ends=("quota_used_up", "history_kept", "space_not_returned", "alarm_left"),
)


def etcd_tools(settings: SubjectSettings) -> Sequence[Tool]:
    """All of them, for one cluster."""
    return (
        EtcdTool(DEFRAGMENT, settings, defragment),
        EtcdTool(COMPACT, settings, compact),
        EtcdTool(DISARM_ALARM, settings, disarm_alarm),
        EtcdTool(MOVE_LEADER, settings, move_leader),
        EtcdTool(FREE_SPACE, settings, free_space),
        EtcdTool(ALIGN_SETTINGS, settings, align_settings),
        EtcdTool(REPLACE_MEMBER, settings, replace_member),
        EtcdTool(ROTATE_LOG, settings, rotate_log),
    )


async def defragment(deed: Deed) -> Done:
    """One member only: it answers nobody while it does."""
    one = deed.up(deed.text("target"))
    await deed.need_quorum()
    if not deed.survives_without(one.target.name):
        raise Refusal(
            f"The cluster would have no quorum while {one.target.name} answers nobody.",
            FailureCategory.RESOURCE,
        )
    before = one.number("dbSize")
    await deed.ask(one, "maintenance/defragment", {})
    after = _size(await deed.again(), one)
    sentence = f"The file of {one.target.name} went from {_mb(before)} to {_mb(after)}."
    return Done(sentence, {"before_bytes": before, "after_bytes": after})


async def compact(deed: Deed) -> Done:
    """Everything older than the last revisions, in the files of all members."""
    await deed.need_quorum()
    before = _compacted(deed.cluster)
    revision = deed.speaker.revision - deed.integer("keep")
    if revision <= max(before, 1):
        told = f"Nothing is older than that: everything before {before} is forgotten already."
        return Done(told, {"changed": False, "compact_revision": before})
    # Physical: it is answered when the pages are free, not when it is agreed on.
    await deed.ask(deed.speaker, "kv/compaction", {"revision": str(revision), "physical": True})
    told = f"Everything before revision {revision} is forgotten, it was {before}."
    return Done(told, {"changed": True, "compact_revision": revision})


async def disarm_alarm(deed: Deed) -> Done:
    """Only where the reason is gone; else the next write would raise it again."""
    await deed.need_quorum()
    only = deed.glimpse(deed.text("member")).id if deed.text("member") else 0
    alarms = {
        (id_, kind)
        for one in deed.cluster.up
        for id_, kind in alarms_from(one.status.body.get("errors"))
        if not only or id_ == only
    }
    for kind in sorted({kind for _, kind in alarms}):
        await _need_reason_gone(deed, kind)
    for id_, kind in sorted(alarms):
        body = {"action": "DEACTIVATE", "memberID": str(id_), "alarm": kind}
        await deed.ask(deed.speaker, "maintenance/alarm", body)
    names = ", ".join(f"{kind} of {deed.cluster.name_of(id_)}" for id_, kind in sorted(alarms))
    told = f"Taken back: {names}." if names else "There was no alarm to take back."
    return Done(told, {"changed": bool(alarms), "alarms": len(alarms)})


async def move_leader(deed: Deed) -> Done:
    """To a voter that answers and keeps up; the best of them when none is named."""
    await deed.need_quorum()
    leader = deed.cluster.leader
    if leader is None:
        raise Refusal("The leader itself cannot be asked, and only it can hand over.")
    heir = deed.up(deed.text("to")) if deed.text("to") else deed.cluster.successor
    if heir is None:
        raise Refusal("There is no other voter that answers and follows the leader.")
    was = leader.target.name
    if heir is leader:
        return Done(f"{was} leads already.", {"changed": False, "leader": was})
    lag = leader.number("raftIndex") - heir.number("raftAppliedIndex")
    if heir.status.body.get("isLearner") or lag > deed.options.lag_max:
        raise Refusal(f"{heir.target.name} cannot lead: it is {lag} entries behind, or a learner.")
    await deed.ask(leader, "maintenance/transfer-leadership", {"targetID": str(heir.id)})

    async def leads(cluster: Cluster) -> bool:
        return cluster.leader is not None and cluster.leader.id == heir.id

    await deed.until(leads)
    undo = Action("move_leader", {"to": was}, target=was, reasoning="take the move back")
    told = f"{heir.target.name} leads now, {was} did."
    return Done(told, {"changed": True, "leader": heir.target.name}, undo)


async def free_space(deed: Deed) -> Done:
    """The whole way out of a full database: forget, give back, and take the alarm back."""
    compacted = await compact(deed)
    order = sorted(deed.cluster.up, key=lambda one: one.leads)  # the leader last
    for one in order:
        await deed.ask(one, "maintenance/defragment", {})
    fresh = Deed(deed.settings, deed.options, deed.etcd, await deed.again(), {}, deed.timeout_s)
    disarmed = await disarm_alarm(fresh)
    sizes = [one.number("dbSize") for one in fresh.cluster.up]
    told = f"{compacted.sentence} The largest file has {_mb(max(sizes))}. {disarmed.sentence}"
    return Done(told, {**compacted.data, **disarmed.data, "after_bytes": max(sizes)})


async def _need_reason_gone(deed: Deed, kind: str) -> None:
    if kind == "NOSPACE":
        for one in deed.cluster.up:
            quota = one.metrics.numbers.get("quota_bytes", deed.options.quota_bytes)
            if quota and one.number("dbSize") > quota * deed.options.quota_ratio_max:
                raise Refusal(
                    f"The file of {one.target.name} still has {_mb(one.number('dbSize'))} of"
                    f" {_mb(quota)}, so the alarm would come back. Compact and defragment first."
                )
    if kind == "CORRUPT":
        agrees = agreement(await hashes_of(deed.etcd, deed.cluster))
        if len(agrees) < deed.cluster.voters or not all(agrees.values()):
            raise Refusal("The members do not hold the same keys. Replace who differs first.")


def _size(cluster: Cluster, before: Glimpse) -> int:
    sizes = [one.number("dbSize") for one in cluster.up if one.id == before.id]
    return sizes[0] if sizes else before.number("dbSize")


def _compacted(cluster: Cluster) -> int:
    return max((one.metrics.numbers.get("compact_revision", 0) for one in cluster.up), default=0)


def _mb(size: int) -> str:
    return f"{size / MB:.1f} MB"
