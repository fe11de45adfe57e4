"""The log and the disk of a part on this machine, and what its log tells since the last check.

PD and TiKV write their logs in one format:

    [2026/01/02 03:04:05.678 +00:00] [INFO] [server.go:1776] ["PD leader is ready"] [name=pd-1]

Whatever holds a blank, a bracket, a quote or an equals sign is quoted as in JSON.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from operator_protocols.domain.observation import Value
from operator_protocols.domain.target import Target
from operator_protocols.kit.client import LogReader

__all__ = ["LogLine", "LogTail", "line_from", "local_readings"]

LINE_MAX = 8_192
DETAIL_MAX = 200
_HEAD = re.compile(
    r"\[(\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{3}) ([+-]\d\d:\d\d)\] \[([A-Z]{1,8})\]"
    r" \[([^\]]{0,200})\]"
)
# A quoted text or a bare one, each to its end: nothing is tried twice.
_PART = r'(?:"(?:[^"\\]|\\.)*"|[^\[\]"=\s]+)'
_FIELD = re.compile(rf" \[({_PART})(?:=({_PART}|))?\]")
_ERRORS = ("ERROR", "FATAL", "CRITICAL", "PANIC")
# The messages of TiKV and PD on the topics that people search a log for.
_WORDS: Mapping[str, tuple[str, ...]] = {
    "log_elections": (
        "became leader",
        "starting a new election",
        "pd leader is ready",
        "campaign pd leader ok",
        "campaign leader ok",
        "raft.node: elected leader",
        "received a message with higher term",
        "is starting a new election",
    ),
    "log_snapshots": ("snapshot",),
    "log_slow": ("slow", "took too long", "spend too long", "took longer"),
}


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line: when, how bad, where in the source, what, and its fields."""

    at: datetime
    level: str
    source: str
    message: str
    fields: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_error(self) -> bool:
        """It is about something that went wrong."""
        return self.level in _ERRORS

    def tells_of(self, topic: str) -> bool:
        """Whether it speaks of elections, snapshots or what is slow, by the name of a reading."""
        message = self.message.lower()
        return any(words in message for words in _WORDS[topic])


def line_from(text: str) -> LogLine | None:
    """One line of a log; None for what is not in that format."""
    text = text[:LINE_MAX]
    head = _HEAD.match(text)
    if head is None:
        return None
    at = datetime.strptime(f"{head[1]} {head[2]}", "%Y/%m/%d %H:%M:%S.%f %z")
    place, message, fields = head.end(), "", {}
    first = True
    while found := _FIELD.match(text, place):
        place = found.end()
        key = _plain(found[1])
        if first and found[2] is None:
            message = key
        else:
            fields[key] = _plain(found[2] or "")
        first = False
    return LogLine(at.astimezone(UTC), head[3], head[4], message, fields)


class LogTail:
    """What was added to logs on this machine between two checks, counted."""

    def __init__(self) -> None:
        self._reader = LogReader()

    def readings(self, path: str) -> dict[str, Value]:
        """Counts of what its new lines tell; the first check begins at its end. Never raises."""
        texts = self._reader.read_added(path)
        if texts is None:
            return {}
        lines = [line for text in texts if (line := line_from(text)) is not None]
        errors = [line for line in lines if line.is_error]
        return {
            **{topic: sum(line.tells_of(topic) for line in lines) for topic in _WORDS},
            "log_errors": len(errors),
            "log_warnings": sum(line.level == "WARN" for line in lines),
            "log_last_error": errors[-1].message[:DETAIL_MAX] if errors else "",
        }


def local_readings(target: Target, tail: LogTail) -> dict[str, Value]:
    """Room on its disk, and what its log tells since the last check.

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


def _plain(text: str) -> str:
    if not text.startswith('"'):
        return text
    try:
        value = json.loads(text)
    except ValueError:
        return text[1:-1]
    return value if isinstance(value, str) else text
