"""Which causes rightly explain a fault of the lab, and where.

`@hit` is the target that it was done to, `@any` any target. What explains a fault is a matter of
the world and not of how well anybody finds it: edit this only when a cause is renamed.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["TRUTHS"]

TRUTHS: Mapping[str, tuple[str, ...]] = {
    "node_kill": ("process_dead@hit",),
    "leader_down": ("process_dead@hit",),
    "node_pause": ("process_paused@hit",),
    "quorum_lost": ("majority_gone@any",),
    "latency": ("member_distant@hit", "leader_distant@hit"),
    "leader_far": ("leader_distant@hit", "member_distant@hit"),
    "network_partition": ("cut_from_peers@hit",),
    "network_isolation": ("cut_off@hit",),
    "disk_pressure": ("disk_full@hit",),
    "memory_limit": ("memory_used_up@hit", "process_dead@hit"),
    "file_descriptors": ("files_used_up@hit", "process_hung@hit"),
    "port_taken": ("port_occupied@hit", "process_dead@hit"),
    "log_flood": ("log_long@hit",),
    "quota_reached": ("quota_used_up@any", "history_kept@any"),
    "compaction_lag": ("history_kept@any",),
    "data_damaged": ("data_unusable@hit",),
    "member_diverged": ("data_differs@hit",),
    "configuration_drift": ("settings_differ@hit",),
    "wrong_credential": ("credential_refused@any",),
}
