"""What can be wrong with a TiKV cluster: what it shows, and what ends it. Data, not code.

Nothing here removes a store, a copy or a member by force: what cannot be mended by starting a part
again, or by asking PD to move something, is for a person, with the diagnosis.
"""

from __future__ import annotations

from collections.abc import Mapping

from operator_protocols.domain.cause import Cause, Remedy
from operator_sre.subjects.tikv.kinds import CLUSTER, PD, PROMETHEUS, STORE
from operator_sre.subjects.tikv.remedies import (
    ADD_SCHEDULER,
    CANCEL,
    DRAIN,
    MOVE_HOT,
    REMOVE_SCHEDULER,
    RESTART_PD,
    RESTART_STORE,
    RESUME,
    RESUME_SCHEDULER,
    ROTATE,
    SPLIT_HOT,
    UNDRAIN,
)
from operator_sre.subjects.tikv.symptoms import (
    ANYHOW,
    CLOSED_IN,
    DEAD,
    FULL,
    HUNG,
    NO_FILES,
    NO_MEMORY,
    REPLACED,
    RUNS,
    STOPPED,
    UNREACHED,
    Predicts,
)

__all__ = ["CAUSES"]

Shows = Mapping[str, bool | int | float | str]
# What the whole cluster suffers when one store is away, drained or slow.
_SUFFERS = ("under_replicated", "regions_without_leader", "leader_imbalance", "operator_stuck")
_AWAY = ("store_down", "store_disconnected", "store_unreachable", "prometheus_target_missing")
_STORE_AWAY = (*_AWAY, *_SUFFERS)
_PD_AWAY = ("pd_member_down", "pd_no_leader")


def _of_store(
    name: str,
    sentence: str,
    prior: float,
    predicts: Predicts,
    *remedies: Remedy,
    breaks: tuple[str, ...],
    shows: Shows,
) -> Cause:
    return Cause(name, sentence, prior, predicts, remedies, (STORE,), breaks, shows)


def _of_pd(
    name: str,
    sentence: str,
    prior: float,
    predicts: Predicts,
    *remedies: Remedy,
    breaks: tuple[str, ...] = _PD_AWAY,
    shows: Shows,
) -> Cause:
    return Cause(name, sentence, prior, predicts, remedies, (PD,), breaks, shows)


def _of_all(
    name: str,
    sentence: str,
    prior: float,
    *remedies: Remedy,
    breaks: tuple[str, ...],
    shows: Shows,
) -> Cause:
    """A cause that befalls the cluster as a whole, which has no process to be asked."""
    return Cause(name, sentence, prior, {}, remedies, (CLUSTER,), breaks, shows)


_STORES: tuple[Cause, ...] = (
    _of_store(
        "process_dead",
        "its process is gone",
        0.5,
        DEAD,
        RESTART_STORE,
        breaks=_STORE_AWAY,
        shows={"reachable": False},
    ),
    _of_store(
        "process_paused",
        "its process is stopped and gets no processor time",
        0.2,
        STOPPED,
        RESUME,
        RESTART_STORE,
        breaks=_STORE_AWAY,
        shows={"reachable": False},
    ),
    _of_store(
        "process_hung",
        "it runs and serves nobody",
        0.2,
        HUNG,
        RESTART_STORE,
        breaks=_STORE_AWAY,
        shows={"reachable": False},
    ),
    # It may as well be the wire: what runs and is heard by nobody is not ours to restart.
    _of_store(
        "cut_off",
        "it runs, and nobody reaches it, neither we nor PD",
        0.2,
        UNREACHED,
        breaks=_STORE_AWAY,
        shows={"reachable": False, "heard": False},
    ),
    _of_store(
        "cut_from_pd",
        "it runs and answers us, and PD does not hear it",
        0.3,
        CLOSED_IN,
        breaks=("store_disconnected", "store_down", *_SUFFERS),
        shows={"reachable": True, "heard": False},
    ),
    _of_store(
        "cut_from_peers",
        "PD hears it, and nothing passes between it and the other stores",
        0.4,
        CLOSED_IN,
        breaks=("peers_unreachable", "high_latency", "apply_lag", *_SUFFERS),
        shows={"reachable": True, "heard": True, "cut_from_peers": True},
    ),
    _of_store(
        "files_used_up",
        "it has as many files and connections open as it may, so it can open no more",
        0.15,
        NO_FILES,
        RESTART_STORE,
        breaks=_STORE_AWAY,
        shows={"reachable": False},
    ),
    _of_store(
        "memory_used_up",
        "it has used up the memory that it may have",
        0.1,
        NO_MEMORY,
        RESTART_STORE,
        breaks=_STORE_AWAY,
        shows={"reachable": False},
    ),
    # Whose process that is, and whether it may go, is not known here.
    _of_store(
        "port_occupied",
        "another process listens where it should, so that it cannot start",
        0.1,
        REPLACED,
        breaks=_STORE_AWAY,
        shows={"reachable": False},
    ),
    # What may be thrown away is known to people only; so is whether a disk can be added.
    _of_store(
        "disk_full",
        "its disk has hardly any room left",
        0.5,
        FULL,
        breaks=("low_disk_space", *_STORE_AWAY, "high_latency", "apply_lag"),
        shows={"disk_is_full": True},
    ),
    _of_store(
        "disk_slow",
        "its disk takes long to write, and everybody waits whose region it leads",
        0.4,
        RUNS,
        DRAIN,
        breaks=("high_latency", "apply_lag"),
        shows={"disk_slow": True, "evicting": False},
    ),
    # Its way to the others, its clients or its processors: draining it would only move the load.
    _of_store(
        "store_slow",
        "it takes long to answer, and its disk is not why",
        0.3,
        RUNS,
        breaks=("high_latency", "apply_lag"),
        shows={"late": True, "disk_slow": False, "evicting": False},
    ),
    _of_store(
        "eviction_left",
        "somebody had its leaders driven away and never took that back",
        0.5,
        RUNS,
        UNDRAIN,
        breaks=("scheduler_left", "leader_imbalance"),
        shows={"heard": True, "evicting": True, "eviction_left": True},
    ),
    _of_store(
        "scrape_missing",
        "it answers, and Prometheus does not see it",
        0.3,
        RUNS,
        breaks=("prometheus_target_missing",),
        shows={"reachable": True, "prometheus_up": False},
    ),
)

_PDS: tuple[Cause, ...] = (
    _of_pd(
        "process_dead",
        "its process is gone",
        0.5,
        DEAD,
        RESTART_PD,
        shows={"reachable": False, "quorum": True},
    ),
    _of_pd(
        "process_paused",
        "its process is stopped and gets no processor time",
        0.2,
        STOPPED,
        RESUME,
        RESTART_PD,
        shows={"reachable": False, "quorum": True},
    ),
    _of_pd(
        "process_hung",
        "it runs and serves nobody",
        0.2,
        HUNG,
        RESTART_PD,
        shows={"reachable": False, "quorum": True},
    ),
    _of_pd(
        "cut_off",
        "it runs, and nobody reaches it",
        0.2,
        UNREACHED,
        shows={"reachable": False, "quorum": True},
    ),
    # It answers of its own memory, and knows of no leader, while the others have one.
    _of_pd(
        "cut_from_peers",
        "it runs and answers us, and does not hear the other members",
        0.3,
        CLOSED_IN,
        shows={"reachable": True, "quorum": True},
    ),
    _of_pd(
        "files_used_up",
        "it has as many files and connections open as it may, so it can open no more",
        0.15,
        NO_FILES,
        RESTART_PD,
        shows={"reachable": False, "quorum": True},
    ),
    _of_pd(
        "memory_used_up",
        "it has used up the memory that it may have",
        0.1,
        NO_MEMORY,
        RESTART_PD,
        shows={"reachable": False, "quorum": True},
    ),
    _of_pd(
        "port_occupied",
        "another process listens where it should, so that it cannot start",
        0.1,
        REPLACED,
        shows={"reachable": False, "quorum": True},
    ),
    _of_pd(
        "disk_full",
        "its disk has hardly any room left",
        0.5,
        FULL,
        breaks=("low_disk_space", *_PD_AWAY),
        shows={"disk_is_full": True},
    ),
)

_BOTH: tuple[Cause, ...] = tuple(
    Cause(name, sentence, prior, RUNS, remedies, (STORE, PD), breaks, shows)
    for name, sentence, prior, remedies, breaks, shows in (
        # Time is kept by the machine, and a jump of it is a risk of its own.
        (
            "clock_skewed",
            "the clock of its machine is wrong",
            0.5,
            (),
            ("clock_skew",),
            {"clock_skewed": True},
        ),
        # Half an upgrade is ended or taken back by whoever began it.
        (
            "version_differs",
            "it runs another version than the others",
            0.5,
            (),
            ("versions_differ",),
            {"version_differs": True},
        ),
        (
            "log_long",
            "something writes a lot into its log",
            0.3,
            (ROTATE,),
            ("log_oversized",),
            {"log_grown": True},
        ),
    )
)

_CLUSTER: tuple[Cause, ...] = (
    # Nothing that a machine may do alone ends it: whoever is gone may hold what was agreed on.
    Cause(
        "majority_gone",
        "so many members of PD are gone that the rest cannot decide anything",
        0.8,
        ANYHOW,
        (),
        (CLUSTER, PD),
        ("pd_no_leader", "pd_member_down"),
        {"quorum": False},
    ),
    _of_all(
        "pd_unled",
        "a majority of PD is there and has no leader",
        0.4,
        breaks=("pd_no_leader",),
        shows={"quorum": True, "has_leader": False},
    ),
    _of_all(
        "balance_paused",
        "somebody has paused a scheduler that keeps stores in balance",
        0.5,
        RESUME_SCHEDULER,
        breaks=("leader_imbalance", "schedulers_idle"),
        shows={"has_leader": True, "balance_is_paused": True},
    ),
    _of_all(
        "balance_missing",
        "somebody has removed a scheduler that keeps stores in balance",
        0.5,
        ADD_SCHEDULER,
        breaks=("leader_imbalance", "schedulers_idle"),
        shows={"has_leader": True, "balance_is_missing": True},
    ),
    _of_all(
        "scheduler_stray",
        "a scheduler that somebody added works against the balance",
        0.4,
        REMOVE_SCHEDULER,
        breaks=("leader_imbalance", "scheduler_left", "schedulers_idle"),
        shows={"has_leader": True, "scheduler_is_stray": True},
    ),
    # By weights, labels or rules of somebody: what PD does not even out is wanted, or a riddle.
    _of_all(
        "leaders_uneven",
        "leaders are uneven although PD balances them",
        0.2,
        breaks=("leader_imbalance",),
        shows={"leaders_uneven": True, "balance_is_paused": False, "balance_is_missing": False},
    ),
    _of_all(
        "operator_stuck",
        "PD waits for a region that does not do what it was told",
        0.8,
        CANCEL,
        breaks=("operator_stuck",),
        shows={"has_leader": True, "operator_is_stuck": True},
    ),
    _of_all(
        "region_hot",
        "one region takes most of the traffic",
        0.5,
        MOVE_HOT,
        SPLIT_HOT,
        breaks=("hot_region",),
        shows={"has_leader": True, "hot": True},
    ),
    # With every store up nobody may make up a majority that is not there: no unsafe recovery.
    _of_all(
        "copies_lost",
        "regions have too few copies, and no store is away that could bring them back",
        0.2,
        breaks=("under_replicated", "regions_without_leader"),
        shows={"settled": True, "stores_silent": ""},
    ),
)

_BESIDE = Cause(
    "prometheus_gone",
    "it does not answer, so that nobody keeps what the cluster shows",
    0.6,
    kinds=(PROMETHEUS,),
    breaks=("prometheus_down", "prometheus_target_missing"),
    shows={"reachable": False},
)

CAUSES: tuple[Cause, ...] = (*_CLUSTER, *_STORES, *_PDS, *_BOTH, _BESIDE)
