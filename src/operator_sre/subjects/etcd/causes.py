"""What can be wrong with an etcd cluster: what it shows, and what ends it. Data, not code."""

from __future__ import annotations

from collections.abc import Mapping

from operator_protocols.domain.cause import Cause, Remedy
from operator_protocols.domain.verdict import Risk
from operator_sre.subjects.etcd.members import KIND

__all__ = ["CAUSES"]

# What a look from outside shows of a member that runs, and of one that ended.
_RUNS: Mapping[str, Mapping[str, float]] = {
    "process": {"alive": 0.97, "dead": 0.01, "stopped": 0.01, "unknown": 0.01},
    "port": {"answers": 0.96, "silent": 0.01, "refused": 0.01, "closed": 0.01, "unknown": 0.01},
    "log": {"quiet": 0.45, "errors": 0.45, "ended": 0.05, "unknown": 0.05},
}
_ENDED: Mapping[str, Mapping[str, float]] = {
    "process": {"dead": 0.96, "alive": 0.01, "stopped": 0.01, "unknown": 0.02},
    "port": {"refused": 0.95, "answers": 0.02, "silent": 0.01, "closed": 0.01, "unknown": 0.01},
    "log": {"errors": 0.6, "ended": 0.3, "quiet": 0.05, "unknown": 0.05},
}
_ANYHOW: Mapping[str, Mapping[str, float]] = {
    "process": {"alive": 0.32, "dead": 0.32, "stopped": 0.32, "unknown": 0.04},
    "port": {"answers": 0.3, "silent": 0.3, "refused": 0.3, "closed": 0.05, "unknown": 0.05},
    "log": {"quiet": 0.3, "errors": 0.4, "ended": 0.2, "unknown": 0.1},
}

_REPLACE = Remedy(
    tool="replace_member",
    sentence="let it join anew with the data of the others",
    trade_off="what only it holds is lost, and one more loss meanwhile would cost the quorum",
    risk=Risk.HIGH,
    reversible=False,
)
_FREE = Remedy(
    tool="free_space",
    sentence="forget history, give the space back and take the alarm back",
    trade_off="older values cannot be read any more, and each member pauses for a moment",
    risk=Risk.MEDIUM,
    reversible=False,
    arguments={"keep": 100},
)
_COMPACT = Remedy(
    tool="compact",
    sentence="forget all history but for the last revisions",
    trade_off="older values cannot be read any more, and watches that are older end",
    risk=Risk.MEDIUM,
    reversible=False,
    arguments={"keep": 100},
)
_DEFRAGMENT = Remedy(
    tool="defragment",
    sentence="give the space that holds nothing back",
    trade_off="it answers nobody while it does",
    risk=Risk.MEDIUM,
    reversible=False,
)
_DISARM = Remedy(
    tool="disarm_alarm",
    sentence="take the alarm back, because its reason is gone",
    trade_off="it comes back when there is no room after all",
    risk=Risk.LOW,
    reversible=False,
)
_MOVE = Remedy(
    tool="move_leader",
    sentence="let a member lead that is near to the others",
    trade_off="requests wait for a moment",
    risk=Risk.LOW,
    reversible=True,
    arguments={"to": "{successor}"},
)


def _cause(
    name: str,
    sentence: str,
    prior: float,
    predicts: Mapping[str, Mapping[str, float]],
    *,
    breaks: tuple[str, ...],
    shows: Mapping[str, bool | int | float | str],
    remedies: tuple[Remedy, ...] = (),
) -> Cause:
    return Cause(
        name,
        sentence,
        prior,
        predicts=predicts,
        remedies=remedies,
        kinds=(KIND,),
        breaks=breaks,
        shows=shows,
    )


CAUSES: tuple[Cause, ...] = (
    # Nothing that a machine may do alone ends it: whoever is gone may hold what was agreed on.
    _cause(
        "majority_gone",
        "so many members are gone that the rest cannot decide anything",
        0.6,
        _ANYHOW,
        breaks=("quorum_lost", "member_down", "no_leader"),
        shows={"quorum": False},
    ),
    _cause(
        "data_unusable",
        "it cannot use the data on its own disk",
        0.3,
        _ENDED,
        breaks=("member_down",),
        shows={"quorum": True, "data_damaged": True},
        remedies=(_REPLACE,),
    ),
    _cause(
        "data_differs",
        "it holds other data than the majority",
        0.5,
        _RUNS,
        breaks=("members_agree",),
        shows={"agrees": False},
        remedies=(_REPLACE,),
    ),
    _cause(
        "quota_used_up",
        "history has used its quota up",
        0.5,
        _RUNS,
        breaks=("alarm_raised", "database_near_quota", "slow_write", "compaction_lag"),
        shows={"mostly_history": True, "near_quota": True},
        remedies=(_FREE,),
    ),
    _cause(
        "history_kept",
        "nobody forgets the history of its keys",
        0.4,
        _RUNS,
        breaks=("compaction_lag",),
        shows={"mostly_history": True, "near_quota": False, "alarms": ""},
        remedies=(_COMPACT, _FREE),
    ),
    _cause(
        "space_not_returned",
        "its file holds mostly nothing, and its size counts",
        0.3,
        _RUNS,
        breaks=("database_near_quota", "alarm_raised"),
        shows={"mostly_free": True, "near_quota": True},
        remedies=(_DEFRAGMENT, _FREE),
    ),
    _cause(
        "alarm_left",
        "an alarm is raised although there is room again",
        0.3,
        _RUNS,
        breaks=("alarm_raised", "slow_write"),
        shows={"alarms": "NOSPACE", "near_quota": False},
        remedies=(_DISARM,),
    ),
    _cause(
        "data_grown",
        "what people keep in it has outgrown its quota",
        0.2,
        _RUNS,
        breaks=("database_near_quota", "alarm_raised", "slow_write"),
        shows={"mostly_history": False, "mostly_free": False, "near_quota": True},
    ),
    _cause(
        "leader_distant",
        "it leads, and its messages to the others take long",
        0.4,
        _RUNS,
        breaks=("slow_write", "slow_read"),
        shows={"is_leader": True, "write_slow": True},
        remedies=(_MOVE,),
    ),
    _cause(
        "member_distant",
        "messages to and from it take long",
        0.3,
        _RUNS,
        breaks=("slow_read", "raft_lag"),
        shows={"is_leader": False, "read_slow": True},
    ),
    _cause(
        "cut_off",
        "it runs, and nothing passes between it and the others",
        0.4,
        _RUNS,
        breaks=("peer_unreachable", "no_leader", "raft_lag"),
        shows={"reachable": True, "quorum": True, "has_leader": False},
    ),
    _cause(
        "disk_full",
        "the disk under its data has no room left",
        0.4,
        _ANYHOW,
        breaks=("disk_full", "member_down"),
        shows={"disk_is_full": True},
    ),
)
