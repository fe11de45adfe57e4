"""The ways to hurt a rate limiter: those that any rig has, and its own."""

from __future__ import annotations

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
from operator_protocols.ports import Fault, RightEnd
from operator_sre.subjects.ratelimiter.faults_node import NODE_FAULTS
from operator_sre.subjects.ratelimiter.faults_store import STORE_FAULTS, with_work

__all__ = ["FAULTS"]

# A check takes two of these, and more than 100 ms is too slow; opening a connection takes eight,
# and must not take longer than a node waits for its store.
DELAY_S = 0.06
# A node holds more than that already, so it can accept nobody new.
FILES = 8
# Room for some seconds of writes; with none at all it could not be told who took the last of it.
LEFT_BYTES = 16 << 10
# Less than a store that holds anything has.
MEMORY_BYTES = 16 << 20

_BEHIND_A_NODE = ("store", "replica", "sentinel")
_latency = slowed(
    "latency", "node", breaks=("high_latency",), delay_s=DELAY_S, others=("store", "replica")
)
_memory_limit = limited(
    *("memory_limit", "replica"),
    breaks=("redis_disconnected", "replication"),
    memory_bytes=MEMORY_BYTES,
)
# Whether a process that may have no more memory notices is up to what it is asked to do.
_memory_limit = replace(_memory_limit, inject=with_work(_memory_limit.inject))

FAULTS: tuple[Fault, ...] = (
    killed("node_kill", "node", breaks=("node_down",)),
    paused("node_pause", "node", breaks=("node_down", "high_latency")),
    killed("store_kill", "store", breaks=("redis_disconnected", "replication")),
    paused("store_pause", "store", breaks=("redis_disconnected", "high_latency", "replication")),
    killed("replica_kill", "replica", breaks=("redis_disconnected", "replication")),
    paused("replica_pause", "replica", breaks=("redis_disconnected", "replication")),
    killed("sentinel_kill", "sentinel", breaks=("sentinel_down",)),
    _latency,
    replace(_latency, name="node_slow"),
    cut_off(
        *("network_partition", "node"),
        breaks=("redis_disconnected", "high_latency"),
        others=_BEHIND_A_NODE,
    ),
    cut_off("node_cut", "node", breaks=("node_down",)),
    cut_off("replica_cut", "replica", breaks=("replication",), others=("store",)),
    # What lies on the disk, and whether it may go, is known to people only.
    replace(
        filled("disk_pressure", "store", breaks=("store_refuses_writes",), left_bytes=LEFT_BYTES),
        end=RightEnd.ESCALATED,
    ),
    limited("file_limit", "node", breaks=("node_down",), files=FILES),
    _memory_limit,
    # The same goes for whose process holds the port.
    replace(occupied("port_taken", "node", breaks=("node_down",)), end=RightEnd.ESCALATED),
    flooded("log_flood", "node", breaks=("log_size",)),
    *NODE_FAULTS,
    *STORE_FAULTS,
)
