"""What lies beside a member on this machine: its settings, its disk, its log."""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from operator_protocols.domain.observation import Value
from operator_protocols.domain.target import Target
from operator_protocols.kit.machine import disk_room, log_bytes

__all__ = [
    "CONFIG_FILE",
    "SHARED",
    "Differing",
    "config_file",
    "data_dir",
    "differing",
    "line_of",
    "local_readings",
    "reading_of",
    "setting",
    "shared_in",
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
# A member with another heartbeat calls elections against a leader that is well; one with another
# quota or another compaction refuses what the others take, or keeps what they forget.
SHARED = (
    "auto-compaction-mode",
    "auto-compaction-retention",
    "election-timeout",
    "heartbeat-interval",
    "max-request-bytes",
    "quota-backend-bytes",
    "snapshot-count",
)
Differing = dict[str, tuple[str, str | None]]


def config_file(target: Target) -> Path | None:
    """The file with its settings, where it lies on this machine in or beside its data."""
    if not target.data_dir or target.runs_at:
        return None
    place = Path(target.data_dir)
    found = (folder / CONFIG_FILE for folder in (place, place.parent))
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
    """Where its data lies below the place that is known for it; None where that is unknown.

    Its settings may name the same place by another path, because it may live in a box.
    """
    file = config_file(target)
    if file is None:
        return None
    with file.open(encoding="utf-8") as lines:
        name = Path(setting(lines.read(CONFIG_BYTES_MAX), "data-dir")).name
    return Path(target.data_dir) / name if name else None


def local_readings(target: Target, *, down: bool) -> dict[str, Value]:
    """Room on its disk, size of its log and what its file sets; of a stopped member, also whether
    the end of its log says that it cannot use its data.

    Nothing is read where it does not run on this machine. Never raises.
    """
    readings: dict[str, Value] = {}
    if target.runs_at:
        return readings
    with contextlib.suppress(OSError, ValueError):
        if (place := data_dir(target)) is not None:
            # Without its log of writes a member forgets what it has promised to the others.
            logs = (place / "member" / "wal").glob("*.wal")
            readings["data_present"] = any(log.stat().st_size for log in logs)
    with contextlib.suppress(OSError, ValueError):
        if (file := config_file(target)) is not None:
            with file.open(encoding="utf-8") as lines:
                text = lines.read(CONFIG_BYTES_MAX)
            readings |= {reading_of(name): setting(text, name) for name in SHARED}
    if target.data_dir and (room := disk_room(Path(target.data_dir))) is not None:
        readings["disk_free_bytes"] = room[0]
        readings["disk_ratio"] = round(1 - room[0] / max(1, room[1]), 4)
    if (size := log_bytes(target)) is not None:
        readings["log_bytes"] = size
        with contextlib.suppress(OSError, ValueError):
            if down:
                with Path(target.log).open("rb") as content:
                    content.seek(max(0, size - TAIL_BYTES))
                    words = content.read(TAIL_BYTES).decode("utf-8", "replace").lower()
                readings["data_damaged"] = any(sentence in words for sentence in DAMAGE)
    return readings


def reading_of(setting: str) -> str:
    """The name of the reading that tells a setting."""
    return f"setting_{setting.replace('-', '_')}"


def shared_in(readings: Mapping[str, Value]) -> dict[str, str]:
    """What a member has of them, by its readings; what it says itself counts more than its file."""
    found = {name: str(readings[key]) for name in SHARED if (key := reading_of(name)) in readings}
    if quota := readings.get("quota_bytes"):
        found["quota-backend-bytes"] = str(quota)
    return found


def differing(settings: Mapping[str, Mapping[str, str]]) -> dict[str, Differing]:
    """For each member what it has of a setting, and what most others have, where that is not it.

    Where no value has a majority, none is known to be right, and all members differ.
    """
    found: dict[str, Differing] = {name: {} for name in settings}
    for setting in SHARED:
        known = {name: own[setting] for name, own in settings.items() if setting in own}
        if len(known) < 2:
            continue
        value, count = Counter(known.values()).most_common(1)[0]
        most = value if count * 2 > len(known) else None
        for name, own in known.items():
            if own != most:
                found[name][setting] = (own, most)
    return found
