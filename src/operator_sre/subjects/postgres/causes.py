"""What can be wrong with PostgreSQL, as symptoms in the world, and what ends it. Data."""

from __future__ import annotations

from collections.abc import Mapping

from operator_protocols.domain.action import Argument
from operator_protocols.domain.cause import Cause, Remedy
from operator_protocols.domain.verdict import Risk

__all__ = ["CAUSES"]

_SERVER = ("server",)
# What is seen of a server that answers and has something wrong inside. Whoever knocks at its port
# without speaking its language is shown out without a word.
_ALIVE: Mapping[str, Mapping[str, float]] = {
    "process": {"alive": 0.97, "dead": 0.01, "stopped": 0.01, "unknown": 0.01},
    "port": {"closed": 0.9, "answers": 0.07, "silent": 0.01, "refused": 0.01, "unknown": 0.01},
    "log": {"quiet": 0.55, "errors": 0.35, "ended": 0.05, "unknown": 0.05},
}
# One that serves nobody does not even do that.
_HUNG: Mapping[str, Mapping[str, float]] = {
    "process": {"alive": 0.97, "dead": 0.01, "stopped": 0.01, "unknown": 0.01},
    "port": {"silent": 0.8, "refused": 0.16, "closed": 0.01, "answers": 0.02, "unknown": 0.01},
    "log": {"quiet": 0.45, "errors": 0.45, "ended": 0.05, "unknown": 0.05},
}
# What reaches it would be taken in, only that nothing does.
_UNREACHED: Mapping[str, Mapping[str, float]] = {
    **_HUNG,
    "sockets": {"listening": 0.9, "waiting": 0.07, "deaf": 0.01, "unknown": 0.02},
}
_DEAD: Mapping[str, Mapping[str, float]] = {
    "process": {"dead": 0.96, "alive": 0.01, "stopped": 0.01, "unknown": 0.02},
    "port": {"refused": 0.95, "answers": 0.01, "silent": 0.02, "closed": 0.01, "unknown": 0.01},
    "sockets": {"deaf": 0.94, "listening": 0.01, "waiting": 0.01, "unknown": 0.04},
    "limits": {"unknown": 0.97, "room": 0.01, "files": 0.01, "memory": 0.01},
    "log": {"quiet": 0.35, "errors": 0.35, "ended": 0.25, "unknown": 0.05},
}
_STOPPED: Mapping[str, Mapping[str, float]] = {
    "process": {"stopped": 0.97, "alive": 0.01, "dead": 0.01, "unknown": 0.01},
    "port": {"silent": 0.95, "refused": 0.02, "answers": 0.01, "closed": 0.01, "unknown": 0.01},
    "log": {"quiet": 0.6, "errors": 0.3, "ended": 0.05, "unknown": 0.05},
}
# It ended, and somebody else answers in its place.
_REPLACED: Mapping[str, Mapping[str, float]] = {
    "process": {"dead": 0.96, "alive": 0.01, "stopped": 0.01, "unknown": 0.02},
    "port": {"answers": 0.45, "silent": 0.25, "closed": 0.25, "refused": 0.04, "unknown": 0.01},
    "sockets": {"deaf": 0.94, "listening": 0.01, "waiting": 0.01, "unknown": 0.04},
    "limits": {"unknown": 0.97, "room": 0.01, "files": 0.01, "memory": 0.01},
    "log": {"errors": 0.4, "ended": 0.35, "quiet": 0.2, "unknown": 0.05},
}


def _terminate(reading: str, whose: str) -> Remedy:
    return Remedy(
        tool="terminate_backend",
        sentence=f"end the session {whose}",
        trade_off="what it has not committed is lost, and its client sees an error",
        risk=Risk.MEDIUM,
        reversible=False,
        arguments={"pid": f"{{{reading}}}"},
    )


def _cause(
    name: str,
    sentence: str,
    prior: float,
    breaks: tuple[str, ...],
    *remedies: Remedy,
    shows: Mapping[str, bool | int | float | str] | None = None,
) -> Cause:
    return Cause(
        name=name,
        sentence=sentence,
        prior=prior,
        predicts=_ALIVE,
        remedies=remedies,
        kinds=_SERVER,
        breaks=breaks,
        shows=shows or {},
    )


def _remedy(
    tool: str,
    sentence: str,
    trade_off: str,
    risk: Risk,
    arguments: Mapping[str, Argument] | None = None,
) -> Remedy:
    return Remedy(tool, sentence, trade_off, risk, reversible=False, arguments=arguments or {})


_RESTART = _remedy(
    "restart_node",
    "start it again",
    "its sessions are lost, and it is away for a moment",
    Risk.MEDIUM,
)

_RESUME = Remedy(
    tool="resume_node",
    sentence="let it go on where it was stopped",
    trade_off="it goes on with whatever it was doing, and its clients may have given up",
    risk=Risk.LOW,
    reversible=True,
)
# What is away when a server is; a client that is away is nothing but that.
_AWAY = ("server_down", "no_primary", "replica_detached", "replication_lag")

CAUSES: tuple[Cause, ...] = (
    Cause(
        name="process_dead",
        sentence="its process is gone",
        prior=0.5,
        predicts=_DEAD,
        remedies=(_RESTART,),
        breaks=(*_AWAY, "client_down"),
        shows={"up": False},
    ),
    Cause(
        name="process_paused",
        sentence="its process is stopped and gets no processor time",
        prior=0.15,
        predicts=_STOPPED,
        remedies=(_RESUME, _RESTART),
        breaks=_AWAY,
        shows={"up": False},
    ),
    Cause(
        name="process_hung",
        sentence="its process runs but serves nobody",
        prior=0.1,
        predicts=_HUNG,
        remedies=(_RESTART,),
        breaks=_AWAY,
        shows={"up": False, "heard": True},
    ),
    # It may as well be the wire: what runs and is heard by nobody is not ours to restart.
    Cause(
        name="cut_off",
        sentence="it runs, and nobody reaches it, neither we nor the other servers",
        prior=0.1,
        predicts=_UNREACHED,
        kinds=_SERVER,
        breaks=_AWAY,
        shows={"up": False, "heard": False},
    ),
    # Whose process that is, and whether it may go, is not known here.
    Cause(
        name="port_occupied",
        sentence="another process listens where it should, so that it cannot start",
        prior=0.1,
        predicts=_REPLACED,
        kinds=_SERVER,
        breaks=_AWAY,
        shows={"up": False},
    ),
    _cause(
        "memory_used_up",
        "it lives and has no memory left to serve anybody with",
        0.2,
        _AWAY,
        _RESTART,
        shows={"up": False, "memory_short": True},
    ),
    _cause(
        "lock_held",
        "a session holds a lock that others wait for",
        0.3,
        ("locks_waiting", "long_transaction", "idle_in_transaction"),
        _terminate("blocking_pid", "that holds the lock"),
        shows={"locks_block": True},
    ),
    _cause(
        "transaction_forgotten",
        "a session began a transaction and does nothing in it",
        0.3,
        ("idle_in_transaction", "dead_tuples"),
        _terminate("idle_transaction_pid", "that is idle in its transaction"),
        shows={"transaction_idles": True},
    ),
    _cause(
        "transaction_long",
        "a statement has been running for very long",
        0.2,
        ("long_transaction", "dead_tuples"),
        _remedy(
            "cancel_query",
            "cancel the statement",
            "its transaction is taken back, and its client sees an error",
            Risk.LOW,
            {"pid": "{transaction_pid}"},
        ),
        shows={"transaction_lasts": True, "locks_block": False},
    ),
    _cause(
        "connections_hoarded",
        "one application holds connections that it does not use",
        0.3,
        ("connections_near_limit",),
        _remedy(
            "terminate_idle",
            "end the idle sessions of the application that has most",
            "its pool has to connect again",
            Risk.MEDIUM,
            {"application": "{hoarder}"},
        ),
        _remedy(
            "restart_node",
            "start the application anew",
            "it is away for a moment",
            Risk.MEDIUM,
            {"target": "{hoarder}"},
        ),
        shows={"connections_hoarded": True},
    ),
    _cause(
        "slot_forgotten",
        "a replication slot that nobody uses keeps WAL from being removed",
        0.3,
        ("slot_retains_wal", "disk_space"),
        _remedy(
            "drop_slot",
            "drop the slot",
            "whoever used it has to be made anew when it comes back",
            Risk.HIGH,
            {"name": "{slot_name}"},
        ),
        shows={"slot_unused": True},
    ),
    _cause(
        "replay_paused",
        "somebody has paused the replay",
        0.2,
        ("replication_lag",),
        _remedy("resume_replay", "let it replay", "what was kept back appears", Risk.LOW),
        shows={"role": "replica", "replay_paused": True},
    ),
    _cause(
        "replay_blocked",
        "a session on the replica holds what the replay has to change",
        0.2,
        ("replication_lag", "long_transaction", "idle_in_transaction"),
        _terminate("replay_blocked_by", "that the replay waits for"),
        shows={"role": "replica", "replay_blocked": True},
    ),
    _cause(
        "upstream_unreachable",
        "it cannot reach its primary, or is not let in there",
        0.2,
        ("replica_detached", "replication_lag"),
        shows={"role": "replica", "attached": False},
    ),
    _cause(
        "primary_lost",
        "the primary is gone and does not come back",
        0.03,
        ("no_primary", "replica_detached"),
        _remedy(
            "promote",
            "make this replica the primary",
            "what it had not received is lost, and the old primary must not return as one",
            Risk.HIGH,
        ),
        shows={"role": "replica", "attached": False},
    ),
    _cause(
        "two_writers",
        "two servers take writes, each for itself",
        0.3,
        ("two_primaries",),
        shows={"another_writes": True},
    ),
    _cause(
        "settings_edited",
        "its files of settings were changed and not loaded",
        0.3,
        ("settings_not_loaded",),
        _remedy(
            "reload",
            "load the files, which have no error",
            "what was written into them takes effect",
            Risk.MEDIUM,
        ),
        shows={"files_differ": True, "files_wrong": False},
    ),
    _cause(
        "settings_wrong",
        "its files of settings have an error, so that nothing of them is loaded",
        0.3,
        ("bad_configuration",),
        _remedy(
            "disable_setting",
            "take the line out that makes no sense, and load the rest",
            "what else was written into the files takes effect",
            Risk.MEDIUM,
            {"name": "{configuration_error_name}"},
        ),
        shows={"files_wrong": True},
    ),
    _cause(
        "restart_needed",
        "a setting was changed that only a restart brings into effect",
        0.3,
        ("settings_pending_restart",),
        _RESTART,
        shows={"restart_awaited": True},
    ),
    _cause(
        "index_missing",
        "a large table has no index for what is asked",
        0.3,
        ("missing_index",),
        _remedy(
            "create_index",
            "create an index on the column that tells its rows apart",
            "writes to the table cost a little more, and its disk is busy for a while",
            Risk.HIGH,
            {"table": "{scanned_table}"},
        ),
        shows={"rows_scanned": True},
    ),
    _cause(
        "vacuum_behind",
        "dead rows are not cleaned up",
        0.2,
        ("dead_tuples",),
        _remedy(
            "vacuum_table",
            "switch its cleaning on again and clean it now",
            "its disk is busy for a while",
            Risk.MEDIUM,
            {"table": "{dead_tuples_table}"},
        ),
        shows={"rows_dead": True, "transaction_idles": False, "transaction_lasts": False},
    ),
    _cause(
        "disk_full",
        "its disk is nearly full",
        0.2,
        ("disk_space", "server_down"),
        shows={"disk_short": True},
    ),
    _cause(
        "way_slow",
        "messages to it take long on their way",
        0.2,
        ("high_latency",),
        shows={"answers_late": True},
    ),
    _cause(
        "log_long",
        "something writes a lot into its log",
        0.2,
        ("log_size",),
        _remedy(
            "rotate_log",
            "keep a compressed copy of its log and begin it anew",
            "what is written in that moment is lost, and it grows again while its reason stays",
            Risk.MEDIUM,
        ),
        shows={"log_grown": True},
    ),
)
