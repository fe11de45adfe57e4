"""What lies beside a member on this machine: its settings, its disk, its log."""

from __future__ import annotations

import os
import re
from pathlib import Path

from operator_protocols.domain.observation import Value
from operator_protocols.domain.target import Target
from operator_sre.subjects.etcd.settings import SHARED, reading_of

__all__ = [
    "CONFIG_FILE",
    "config_file",
    "data_dir",
    "line_of",
    "local_readings",
    "setting",
    "with_line",
    "with_setting",
]

CONFIG_FILE = "etcd.yml"
CONFIG_BYTES_MAX = 64 * 1024
TAIL_BYTES = 32 * 1024
# What etcd and its storage say before they end because they cannot use what lies on their disk.
DAMAGE = (
    "crc mismatch",
    "checksum error",
    "invalid database",
    "version mismatch",
    "file size too small",
    "failed to read wal",
    "wal: file not found",
    "wal: slice bounds out of range",
    "failed to recover v3 backend from snapshot",
    "failed to load snapshot",
    "failed to open database",
    "page already freed",
    "invalid page type",
    "unexpected fault address",
    "failed to repair",
    "proto: illegal",
    "proto: wrong",
    "is out of range [lastindex",
)


def config_file(target: Target) -> Path | None:
    """The file with its settings, where it lies on this machine in or beside its data."""
    if not target.data_dir or target.runs_at:
        return None
    place = Path(target.data_dir)
    found = (one / CONFIG_FILE for one in (place, place.parent))
    return next((file for file in found if file.is_file()), None)


def setting(text: str, name: str) -> str:
    """One setting on the top level of the file; "" when it is not there."""
    match = re.search(rf"^{re.escape(name)}:[ ]*(.*?)[ ]*$", text, re.MULTILINE)
    return match[1].strip("'\"") if match is not None else ""


def line_of(text: str, name: str) -> str:
    """The whole line of one setting on the top level of the file; "" when it is not there."""
    match = re.search(rf"^{re.escape(name)}:.*$", text, re.MULTILINE)
    return match[0].rstrip() if match is not None else ""


def with_setting(text: str, name: str, value: str) -> str:
    """The same text with another value of one setting, which is added where it was not there."""
    return with_line(text, name, f"{name}: {value}")


def with_line(text: str, name: str, line: str) -> str:
    """The same text with another line for one setting; with "" it is not set any more."""
    if not line:
        return re.sub(rf"^{re.escape(name)}:.*\n?", "", text, flags=re.MULTILINE)
    pattern = re.compile(rf"^{re.escape(name)}:.*$", re.MULTILINE)
    if pattern.search(text):
        return pattern.sub(lambda match: line, text, count=1)
    return f"{text.rstrip()}\n{line}\n"


def data_dir(target: Target) -> Path | None:
    """Where its data lies below the place that is known for it; None where nobody can tell.

    Its settings may name the same place by another path, because it may live in a box.
    """
    file = config_file(target)
    if file is None:
        return None
    with file.open(encoding="utf-8") as lines:
        name = Path(setting(lines.read(CONFIG_BYTES_MAX), "data-dir")).name
    return Path(target.data_dir) / name if name else None


def local_readings(target: Target, *, down: bool) -> dict[str, Value]:
    """Room on its disk, size of its log and what its file sets; of one that is down, also whether
    its data is damaged.

    Nothing is read where it does not run on this machine. Never raises.
    """
    readings: dict[str, Value] = {}
    if target.runs_at:
        return readings
    try:
        if (file := config_file(target)) is not None:
            with file.open(encoding="utf-8") as lines:
                text = lines.read(CONFIG_BYTES_MAX)
            readings |= {reading_of(name): setting(text, name) for name in SHARED}
    except (OSError, ValueError):
        pass
    try:
        if target.data_dir:
            disk = os.statvfs(target.data_dir)
            readings["disk_free_bytes"] = disk.f_bavail * disk.f_frsize
            readings["disk_ratio"] = round(1 - disk.f_bavail / max(1, disk.f_blocks), 4)
    except (OSError, ValueError):
        pass
    try:
        if target.log:
            readings["log_bytes"] = Path(target.log).stat().st_size
            if down:
                readings["data_damaged"] = _speaks_of_damage(Path(target.log))
    except (OSError, ValueError):
        pass
    return readings


def _speaks_of_damage(log: Path) -> bool:
    """Whether its last words are that it cannot use its data."""
    with log.open("rb") as content:
        content.seek(max(0, log.stat().st_size - TAIL_BYTES))
        words = content.read(TAIL_BYTES).decode("utf-8", "replace").lower()
    return any(sentence in words for sentence in DAMAGE)
