"""Which causes rightly explain a fault of the lab, and where.

`@hit` is the target that it was done to, `@any` any target. What explains a fault is a matter of
the world and not of how well anybody finds it: edit this only when a cause is renamed.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["TRUTHS"]

TRUTHS: Mapping[str, tuple[str, ...]] = {
    "node_kill": ("process_dead@hit",),
    "node_pause": ("process_paused@hit",),
    "store_kill": ("process_dead@hit",),
    "store_pause": ("process_paused@hit",),
    "replica_kill": ("process_dead@hit",),
    "replica_pause": ("process_paused@hit",),
    "sentinel_kill": ("process_dead@hit",),
    "latency": ("way_to_store_slow@hit", "way_slow@hit"),
    "node_slow": ("way_to_store_slow@hit", "way_slow@hit"),
    "network_partition": ("way_to_store_cut@hit", "cut_off@hit"),
    "node_cut": ("cut_off@hit",),
    "replica_cut": ("way_to_primary_cut@hit", "cut_off@hit"),
    "disk_pressure": ("store_disk_unwritable@hit", "disk_full@hit"),
    "file_limit": ("files_used_up@hit", "process_hung@hit"),
    "memory_limit": ("memory_used_up@hit", "process_dead@hit"),
    "port_taken": ("port_occupied@hit", "process_dead@hit"),
    "log_flood": ("log_long@hit",),
    "nodes_kill": ("process_dead@any",),
    "node_limits": ("node_configured_differently@hit",),
    "node_config": ("node_configured_differently@hit",),
    "ghost_allowing": ("node_counts_elsewhere@hit",),
    "wrong_password": ("store_refuses_credential@hit", "credential_refused@hit"),
    "limit_drift": ("limit_changed_behind_us@hit",),
    "hot_key": ("one_caller_floods@hit",),
    "store_out_of_memory": ("store_out_of_memory@hit",),
    "store_read_only": ("store_wants_replicas@hit",),
    "store_blocked": ("writes_paused@hit",),
    "replica_promoted": ("second_primary@hit",),
    "counter_drift": ("counter_drifted@hit",),
    "keys_without_ttl": ("windows_never_expire@hit",),
}
