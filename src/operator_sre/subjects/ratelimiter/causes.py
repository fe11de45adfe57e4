"""What can be wrong with a rate limiter: what it shows, and what ends it. Data, not code."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from operator_protocols.domain.action import Argument
from operator_protocols.domain.cause import Cause, Remedy
from operator_protocols.domain.verdict import Risk
from operator_sre.subjects.ratelimiter import restore_limit

__all__ = ["CAUSES"]

# What a look from outside shows of a part that runs and answers, as all of these do.
_RUNS: Mapping[str, Mapping[str, float]] = {
    "process": {"alive": 0.97, "dead": 0.01, "stopped": 0.01, "unknown": 0.01},
    "port": {"answers": 0.96, "silent": 0.01, "refused": 0.01, "closed": 0.01, "unknown": 0.01},
    "log": {"quiet": 0.45, "errors": 0.45, "ended": 0.05, "unknown": 0.05},
}
# One that cannot write has mostly no room, and now and then a disk that is broken.
_UNWRITABLE = {**_RUNS, "disk": {"full": 0.85, "room": 0.12, "unknown": 0.03}}
_STORES = ("store", "replica")
_NODES = ("node",)
_RESTORE_LIMIT = Path(restore_limit.__file__)


def _remedy(
    tool: str,
    sentence: str,
    trade_off: str,
    risk: Risk,
    *,
    reversible: bool,
    **arguments: Argument,
) -> Remedy:
    return Remedy(tool, sentence, trade_off, risk, reversible, arguments)


def _cause(
    name: str,
    sentence: str,
    prior: float,
    *remedies: Remedy,
    kinds: tuple[str, ...],
    breaks: tuple[str, ...],
    shows: Mapping[str, bool | int | float | str],
    predicts: Mapping[str, Mapping[str, float]] = _RUNS,
) -> Cause:
    return Cause(name, sentence, prior, predicts, remedies, kinds, breaks, shows)


def _setting(setting: str, value: str, sentence: str) -> Remedy:
    return _remedy(
        "set_store_setting",
        sentence,
        "the value may have been changed for a reason that nobody wrote down",
        Risk.MEDIUM,
        reversible=True,
        target="{target}",
        setting=setting,
        value=value,
    )


_ALIGN = _remedy(
    "align_node",
    "configure it like the other nodes",
    "if the others are the wrong ones, all of them are then",
    Risk.MEDIUM,
    reversible=True,
)
CAUSES: tuple[Cause, ...] = (
    _cause(
        "store_out_of_memory",
        "it holds more than it may and is told to forget nothing",
        0.3,
        _setting("maxmemory", "{common_maxmemory}", "let it have as much memory as its replica"),
        kinds=_STORES,
        breaks=("store_refuses_writes", "store_memory", "configuration_drift"),
        shows={"refuses_kind": "memory"},
    ),
    _cause(
        "store_wants_replicas",
        "it waits for more replicas than it has before it writes",
        0.2,
        _setting(
            "min-replicas-to-write",
            "{common_min_replicas_to_write}",
            "let it write with as many replicas as the other store would",
        ),
        kinds=_STORES,
        breaks=("store_refuses_writes", "configuration_drift"),
        shows={"refuses_kind": "replicas"},
    ),
    _cause(
        "writes_paused",
        "a client paused all writes at it",
        0.2,
        _remedy(
            "resume_writes",
            "end the pause",
            "whoever paused it may not be done yet",
            Risk.LOW,
            reversible=False,
        ),
        kinds=_STORES,
        breaks=("store_refuses_writes", "high_latency", "redis_disconnected"),
        shows={"refuses_kind": "paused"},
    ),
    # What may be thrown away is known to people only; a fail-over would hide it and not end it.
    _cause(
        "store_disk_unwritable",
        "it cannot write to its disk, so it takes no writes",
        0.2,
        kinds=_STORES,
        breaks=("store_refuses_writes",),
        shows={"refuses_kind": "disk"},
        predicts=_UNWRITABLE,
    ),
    _cause(
        "store_configured_differently",
        "one of its settings is not that of the other store",
        0.1,
        _setting("{differs_setting}", "{common_value}", "give it the value of the other store"),
        kinds=_STORES,
        breaks=("configuration_drift",),
        shows={"settings_differ": True},
    ),
    _cause(
        "second_primary",
        "it was made a primary beside the one that nodes use",
        0.3,
        _remedy(
            "follow_primary",
            "make it a replica of the primary that nodes use",
            "what was written to it alone is lost",
            Risk.HIGH,
            reversible=False,
        ),
        kinds=_STORES,
        breaks=("primary_count", "replication", "sentinel_view"),
        shows={"role": "primary", "in_use": False},
    ),
    _cause(
        "way_to_primary_cut",
        "nothing passes between it and the primary that it follows, and both run",
        0.2,
        kinds=_STORES,
        breaks=("replication", "sentinel_view"),
        shows={"role": "replica", "replica_link": "down"},
    ),
    _cause(
        "counter_drifted",
        "a window in it holds what no node allowed, or lacks what one did",
        0.3,
        _remedy(
            "reset_counter",
            "let the key count from zero",
            "its callers may make as many requests again within this window",
            Risk.MEDIUM,
            reversible=False,
            key="{drift_key}",
        ),
        kinds=_STORES,
        breaks=("counter_drift", "over_limit"),
        shows={"drifted": True},
    ),
    _cause(
        "windows_never_expire",
        "somebody wrote windows into it without an expiry",
        0.3,
        _remedy(
            "expire_counters",
            "let them end after one window",
            "nothing that still counts is lost",
            Risk.LOW,
            reversible=False,
        ),
        kinds=_STORES,
        breaks=("keys_without_ttl",),
        shows={"has_endless": True},
    ),
    _cause(
        "limit_changed_behind_us",
        "a limit in it is not the one that a manager set",
        0.3,
        _remedy(
            "execute_script",
            "let a script in the sandbox ask every node and set again what a manager had set",
            "who wrote the other one may have had a reason",
            Risk.MEDIUM,
            reversible=True,
            language="python",
            text=_RESTORE_LIMIT.read_text(encoding="utf-8"),
            inputs={
                "key": "{limit_strange_key}",
                "limit": "{limit_declared}",
                "nodes": "{limit_nodes}",
            },
        ),
        _remedy(
            "update_limit",
            "set the limit again that a manager had set",
            "who wrote the other one may have had a reason",
            Risk.MEDIUM,
            reversible=True,
            key="{limit_strange_key}",
            limit="{limit_declared}",
        ),
        kinds=_STORES,
        breaks=("configuration_drift",),
        shows={"limits_odd": True},
    ),
    _cause(
        "one_caller_floods",
        "one caller asks for its key more often than all others together",
        0.3,
        _remedy(
            "block_key",
            "refuse the key until its caller calms down",
            "its callers are refused altogether",
            Risk.MEDIUM,
            reversible=True,
            key="{hot_key}",
        ),
        kinds=_STORES,
        breaks=("hot_key",),
        shows={},
    ),
    _cause(
        "node_configured_differently",
        "its configuration is not that of the other nodes",
        0.3,
        _ALIGN,
        kinds=_NODES,
        breaks=("limits_differ", "configuration_drift"),
        shows={"differs": True, "differs_key_prefix": False},
    ),
    _cause(
        "node_counts_elsewhere",
        "it counts under another name than the other nodes, so its requests come on top",
        0.3,
        _ALIGN,
        kinds=_NODES,
        breaks=("ghost_allowing", "configuration_drift", "counter_drift"),
        shows={"differs_key_prefix": True},
    ),
    _cause(
        "store_refuses_credential",
        "its store does not take the password that it has",
        0.2,
        kinds=_NODES,
        breaks=("redis_disconnected",),
        shows={"store_problem": "authentication"},
    ),
    _cause(
        "way_to_store_cut",
        "nothing passes between it and its store, which is well and answers others",
        0.1,
        kinds=_NODES,
        breaks=("redis_disconnected",),
        shows={"store_problem": "silence", "alone_without_store": True},
    ),
    _cause(
        "way_to_store_slow",
        "its messages to the store take long, while those of others do not",
        0.1,
        kinds=_NODES,
        breaks=("high_latency",),
        shows={"store_connected": True, "degraded": False},
    ),
    _cause(
        "drained_and_forgotten",
        "somebody drained it and did not take that back",
        0.5,
        _remedy(
            "undrain_node",
            "let it take checks again",
            "whatever it was drained for may not be over",
            Risk.LOW,
            reversible=True,
        ),
        kinds=_NODES,
        breaks=("node_draining",),
        shows={"status": "draining"},
    ),
    _cause(
        "log_long",
        "something writes a lot into its log",
        0.3,
        _remedy(
            "rotate_log",
            "keep a compressed copy of its log and begin it anew",
            "what is written in that moment is lost, and it grows again while its reason stays",
            Risk.LOW,
            reversible=False,
        ),
        kinds=(*_NODES, *_STORES),
        breaks=("log_size",),
        shows={"log_grown": True},
    ),
)
