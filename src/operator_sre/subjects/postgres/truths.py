"""Which causes rightly explain a fault of the lab, and where.

`@hit` is the target that it was done to, `@any` any target. What explains a fault is a matter of
the world and not of how well anybody finds it: edit this only when a cause is renamed.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["TRUTHS"]

TRUTHS: Mapping[str, tuple[str, ...]] = {
    "node_kill": ("process_dead@hit",),
    "primary_kill": ("process_dead@hit",),
    "replica_kill": ("process_dead@hit",),
    "node_pause": ("process_paused@hit",),
    "latency": ("way_slow@hit",),
    "network_partition": ("upstream_unreachable@any", "cut_off@hit"),
    "network_isolation": ("cut_off@hit",),
    "disk_pressure": ("disk_full@hit",),
    "memory_limit": ("memory_used_up@hit", "process_hung@hit", "process_dead@hit"),
    "files_limit": ("files_used_up@hit", "process_hung@hit", "process_dead@hit"),
    "port_taken": ("port_occupied@hit", "process_dead@hit"),
    "log_flood": ("log_long@hit",),
    "client_kill": ("process_dead@hit",),
    "wrong_credential": ("upstream_unreachable@any", "credential_refused@any"),
    "replay_pause": ("replay_paused@hit",),
    "replay_conflict": ("replay_blocked@hit",),
    "slot_left": ("slot_forgotten@hit",),
    "lock_contention": ("lock_held@hit",),
    "idle_in_transaction": ("transaction_forgotten@hit",),
    "connections_exhausted": ("connections_hoarded@hit",),
    "bad_configuration": ("settings_wrong@hit",),
    "configuration_drift": ("settings_edited@hit",),
    "restart_pending": ("restart_needed@hit",),
    "missing_index": ("index_missing@hit",),
    "vacuum_off": ("vacuum_behind@hit",),
    "wrong_promotion": ("two_writers@any",),
}
