"""What lies beside a part of the cluster on this machine: its disk and its log."""

from __future__ import annotations

import os
from pathlib import Path

from operator_protocols.domain.observation import Value
from operator_protocols.domain.target import Target
from operator_sre.subjects.tikv.logs import LogTail

__all__ = ["local_readings"]


def local_readings(target: Target, tail: LogTail) -> dict[str, Value]:
    """Room on its disk, and what its log tells since the last look.

    Nothing is read where it does not run on this machine. Never raises.
    """
    readings: dict[str, Value] = {}
    if target.runs_at:
        return readings
    try:
        if target.data_dir:
            disk = os.statvfs(target.data_dir)
            readings["disk_free_bytes"] = disk.f_bavail * disk.f_frsize
            readings["disk_ratio"] = round(1 - disk.f_bavail / max(1, disk.f_blocks), 4)
        if target.log:
            readings["log_bytes"] = Path(target.log).stat().st_size
    except (OSError, ValueError):
        pass
    return readings | tail.readings(target.log) if target.log else readings
