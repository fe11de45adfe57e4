"""Which causes rightly explain a fault of the lab, and where.

`@hit` is the target that it was done to, `@any` any target. What explains a fault is a matter of
the world and not of how well anybody finds it: edit this only when a cause is renamed.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["TRUTHS"]

TRUTHS: Mapping[str, tuple[str, ...]] = {
    "node_kill": ("process_dead@hit",),
    "stores_kill": ("process_dead@hit",),
    "node_pause": ("process_paused@hit",),
    "latency": ("store_slow@hit",),
    "network_partition": ("cut_from_pd@hit",),
    "network_isolation": ("cut_off@hit",),
    "peers_cut": ("cut_from_peers@hit",),
    "disk_pressure": ("disk_full@hit",),
    "file_descriptors": ("files_used_up@hit", "process_hung@hit"),
    "port_taken": ("port_occupied@hit", "process_dead@hit"),
    "log_flood": ("log_long@hit",),
    "pd_leader_kill": ("process_dead@hit",),
    "pd_leader_pause": ("process_paused@hit",),
    "pd_member_kill": ("process_dead@hit",),
    "pd_quorum_lost": ("majority_gone@any",),
    "scheduler_left": ("eviction_left@hit",),
    "leader_imbalance": ("balance_paused@any",),
    "split_ignored": ("operator_stuck@any",),
}
