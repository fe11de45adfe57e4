"""What can be wrong with an etcd cluster: what it shows, and what ends it. Data, not code."""

from __future__ import annotations

from collections.abc import Mapping

from operator_protocols.domain.cause import Cause, Remedy
from operator_protocols.domain.verdict import Risk
from operator_sre.subjects.etcd.members import CLUSTER, KIND

__all__ = ["CAUSES"]

# What a look from outside shows of a member that runs, and of one that ended.
_RUNS: Mapping[str, Mapping[str, float]] = {
    "process": {"alive": 0.97, "dead": 0.01, "stopped": 0.01, "unknown": 0.01},
    "port": {"answers": 0.96, "silent": 0.01, "refused": 0.01, "closed": 0.01, "unknown": 0.01},
    "log": {"quiet": 0.45, "errors": 0.45, "ended": 0.05, "unknown": 0.05},
}
_ENDED: Mapping[str, Mapping[str, float]] = {
    "process": {"dead": 0.96, "alive": 0.01, "stopped": 0.01, "unknown": 0.02},
    "port": {"refused": 0.95, "answers": 0.01, "silent": 0.02, "closed": 0.01, "unknown": 0.01},
    "sockets": {"deaf": 0.94, "listening": 0.01, "waiting": 0.01, "unknown": 0.04},
    "limits": {"unknown": 0.97, "room": 0.01, "files": 0.01, "memory": 0.01},
    "log": {"errors": 0.6, "ended": 0.2, "quiet": 0.15, "unknown": 0.05},
}
# What ended without a word of its own, as if somebody had pulled a plug.
_GONE: Mapping[str, Mapping[str, float]] = {
    **_ENDED,
    "log": {
        "quiet": 0.4,
        "errors": 0.27,
        "ended": 0.23,
        "unknown": 0.05,
        "dependency": 0.03,
        "memory": 0.01,
        "credential": 0.007,
        **dict.fromkeys(("files", "no_space", "address"), 0.001),
    },
}
# It ended, and somebody else answers in its place.
_REPLACED: Mapping[str, Mapping[str, float]] = {
    **_ENDED,
    "port": {"answers": 0.45, "silent": 0.25, "closed": 0.25, "refused": 0.04, "unknown": 0.01},
}
_DEAF: Mapping[str, Mapping[str, float]] = {
    "process": {"alive": 0.97, "dead": 0.01, "stopped": 0.01, "unknown": 0.01},
    "port": {"silent": 0.7, "refused": 0.15, "closed": 0.1, "answers": 0.04, "unknown": 0.01},
    "log": {"quiet": 0.45, "errors": 0.45, "ended": 0.05, "unknown": 0.05},
}
# What reaches it is taken in, only that nothing does; or it waits for ever.
_UNREACHED: Mapping[str, Mapping[str, float]] = {
    **_DEAF,
    "sockets": {"listening": 0.94, "waiting": 0.03, "deaf": 0.01, "unknown": 0.02},
}
_HUNG: Mapping[str, Mapping[str, float]] = {
    **_DEAF,
    "sockets": {"waiting": 0.85, "listening": 0.1, "deaf": 0.03, "unknown": 0.02},
}
_STOPPED: Mapping[str, Mapping[str, float]] = {
    "process": {"stopped": 0.97, "alive": 0.01, "dead": 0.01, "unknown": 0.01},
    "port": {"silent": 0.95, "refused": 0.02, "answers": 0.01, "closed": 0.01, "unknown": 0.01},
    "log": {"quiet": 0.45, "errors": 0.45, "ended": 0.05, "unknown": 0.05},
}
_ANYHOW: Mapping[str, Mapping[str, float]] = {
    "process": {"alive": 0.32, "dead": 0.32, "stopped": 0.32, "unknown": 0.04},
    "port": {"answers": 0.3, "silent": 0.3, "refused": 0.3, "closed": 0.05, "unknown": 0.05},
    "log": {"quiet": 0.3, "errors": 0.4, "ended": 0.2, "unknown": 0.1},
}
# It lets nobody in any more, and ends when it has to open a file of its own.
_NO_FILES: Mapping[str, Mapping[str, float]] = {
    "process": {"alive": 0.72, "dead": 0.25, "stopped": 0.01, "unknown": 0.02},
    "port": {"silent": 0.5, "refused": 0.3, "closed": 0.1, "answers": 0.09, "unknown": 0.01},
    "sockets": {"waiting": 0.6, "listening": 0.15, "deaf": 0.23, "unknown": 0.02},
    "limits": {"files": 0.73, "room": 0.02, "memory": 0.005, "unknown": 0.245},
    "log": {"files": 0.6, "errors": 0.12, "quiet": 0.2, "ended": 0.03, "unknown": 0.05},
}
# It goes on until it has to write, and then it ends.
_NO_ROOM: Mapping[str, Mapping[str, float]] = {
    "process": {"dead": 0.55, "alive": 0.42, "stopped": 0.01, "unknown": 0.02},
    "port": {"refused": 0.5, "answers": 0.43, "silent": 0.04, "closed": 0.02, "unknown": 0.01},
    "log": {"no_space": 0.55, "errors": 0.2, "quiet": 0.15, "ended": 0.05, "unknown": 0.05},
    "sockets": {"deaf": 0.54, "listening": 0.4, "waiting": 0.04, "unknown": 0.02},
    "limits": {"unknown": 0.56, "room": 0.42, "files": 0.01, "memory": 0.01},
    "disk": {"full": 0.95, "room": 0.02, "unknown": 0.03},
}

_RESTART = Remedy(
    tool="restart_node",
    sentence="start it again",
    trade_off="it is away for a moment",
    risk=Risk.MEDIUM,
    reversible=False,
)
_RESUME = Remedy(
    tool="resume_node",
    sentence="let it go on where it was stopped",
    trade_off="it goes on with whatever it was doing, and its clients may have given up",
    risk=Risk.LOW,
    reversible=True,
)
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
    arguments={"target": "{fullest}"},
)
_DISARM = Remedy(
    tool="disarm_alarm",
    sentence="take the alarm back, because its reason is gone",
    trade_off="it comes back when there is no room after all",
    risk=Risk.LOW,
    reversible=False,
)
_ALIGN = Remedy(
    tool="align_settings",
    sentence="give it the settings of the others and restart it",
    trade_off="it is away for a moment",
    risk=Risk.MEDIUM,
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
_ROTATE = Remedy(
    tool="rotate_log",
    sentence="keep a compressed copy of its log and begin it anew",
    trade_off="what is written in that moment is lost, and it grows again while its reason stays",
    risk=Risk.LOW,
    reversible=False,
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
    kinds: tuple[str, ...] = (KIND,),
) -> Cause:
    return Cause(
        name,
        sentence,
        prior,
        predicts=predicts,
        remedies=remedies,
        kinds=kinds,
        breaks=breaks,
        shows=shows,
    )


def _of_all(
    name: str,
    sentence: str,
    prior: float,
    *,
    breaks: tuple[str, ...],
    shows: Mapping[str, bool | int | float | str],
    remedies: tuple[Remedy, ...] = (),
) -> Cause:
    """A cause that befalls all members at once, so that it is blamed on the cluster."""
    return _cause(
        name, sentence, prior, {}, breaks=breaks, shows=shows, remedies=remedies, kinds=(CLUSTER,)
    )


CAUSES: tuple[Cause, ...] = (
    # Nothing that a machine may do alone ends it: whoever is gone may hold what was agreed on.
    _cause(
        "majority_gone",
        "so many members are gone that the rest cannot decide anything",
        0.6,
        _ANYHOW,
        breaks=("quorum_lost", "member_down"),
        shows={"quorum": False},
        kinds=(CLUSTER, KIND),
    ),
    _cause(
        "process_dead",
        "its process is gone",
        0.5,
        _GONE,
        breaks=("member_down",),
        shows={"quorum": True, "data_damaged": False},
        remedies=(_RESTART,),
    ),
    # Who is to be let in, and by which password, is for people to say.
    _of_all(
        "credential_refused",
        "it answers, and does not take who we and its clients say that they are",
        0.5,
        breaks=("not_let_in",),
        shows={"quorum": True, "let_in": False},
    ),
    _of_all(
        "quota_used_up",
        "history has used its quota up",
        0.5,
        breaks=("alarm_raised", "database_near_quota", "slow_write", "compaction_lag"),
        shows={"mostly_history": True, "near_quota": True},
        remedies=(_FREE,),
    ),
    _of_all(
        "history_kept",
        "nobody forgets the history of its keys",
        0.4,
        breaks=("compaction_lag",),
        shows={"history_weighs": True, "near_quota": False},
        remedies=(_COMPACT, _FREE),
    ),
    _of_all(
        "space_not_returned",
        "its file holds mostly nothing, and its size counts",
        0.3,
        breaks=("database_near_quota", "alarm_raised", "slow_write"),
        shows={"mostly_free": True, "near_quota": True},
        remedies=(_DEFRAGMENT, _FREE),
    ),
    _of_all(
        "alarm_left",
        "an alarm is raised although there is room again",
        0.3,
        breaks=("alarm_raised", "slow_write"),
        shows={"alarms": "NOSPACE", "near_quota": False},
        remedies=(_DISARM,),
    ),
    _of_all(
        "data_grown",
        "what people keep in it has outgrown its quota",
        0.2,
        breaks=("database_near_quota", "alarm_raised", "slow_write"),
        shows={"mostly_history": False, "mostly_free": False, "near_quota": True},
    ),
    _cause(
        "process_paused",
        "its process is stopped and gets no processor time",
        0.2,
        _STOPPED,
        breaks=("member_down",),
        shows={"reachable": False, "quorum": True},
        remedies=(_RESUME, _RESTART),
    ),
    _cause(
        "data_unusable",
        "it cannot use the data on its own disk",
        0.3,
        _ENDED,
        breaks=("member_down",),
        shows={"reachable": False, "data_damaged": True},
        remedies=(_REPLACE,),
    ),
    # Whose process that is, and whether it may go, is not known here.
    _cause(
        "port_occupied",
        "another process listens where it should, so that it cannot start",
        0.2,
        _REPLACED,
        breaks=("member_down",),
        shows={"reachable": False, "data_damaged": False},
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
        "settings_differ",
        "it runs with another setting than the others have",
        0.4,
        _RUNS,
        breaks=("settings_agree",),
        shows={"settings_differ": True},
        remedies=(_ALIGN,),
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
        "cut_from_peers",
        "it runs, and nothing passes between it and the others",
        0.4,
        _RUNS,
        breaks=("peer_unreachable", "no_leader", "raft_lag"),
        shows={"reachable": True, "quorum": True, "has_leader": False},
    ),
    # It may as well be the wire: what runs and is heard by nobody is not ours to restart.
    _cause(
        "cut_off",
        "it runs, and nobody reaches it, neither we nor the others",
        0.2,
        _UNREACHED,
        breaks=("member_down",),
        shows={"reachable": False, "heard": False},
    ),
    _cause(
        "process_hung",
        "it runs and takes part, and serves nobody",
        0.2,
        _HUNG,
        breaks=("member_down",),
        shows={"reachable": False, "heard": True},
        remedies=(_RESTART,),
    ),
    _cause(
        "files_used_up",
        "it has as many files and connections open as it may, so it can open no more",
        0.15,
        _NO_FILES,
        breaks=("member_down",),
        shows={"reachable": False, "data_damaged": False},
        remedies=(_RESTART,),
    ),
    _cause(
        "disk_full",
        "the disk under its data has no room left",
        0.4,
        _NO_ROOM,
        breaks=("disk_full", "member_down"),
        shows={"disk_is_full": True},
    ),
    _cause(
        "log_long",
        "something writes a lot into its log",
        0.3,
        _RUNS,
        breaks=("log_oversized",),
        shows={"log_grown": True},
        remedies=(_ROTATE,),
    ),
)
