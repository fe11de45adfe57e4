"""The log of PD and TiKV in their unified format, and what it tells since the last look.

    [2026/01/02 03:04:05.678 +00:00] [INFO] [server.go:1776] ["PD leader is ready"] [name=pd-1]

Whatever holds a blank, a bracket, a quote or an equals sign is quoted as in JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from operator_protocols.domain.observation import Value

__all__ = ["LogLine", "LogTail", "line_from"]

LINE_MAX = 8_192
READ_BYTES_MAX = 256 << 10
DETAIL_MAX = 200
_HEAD = re.compile(
    r"\[(\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{3}) ([+-]\d\d:\d\d)\] \[([A-Z]{1,8})\]"
    r" \[([^\]]{0,200})\]"
)
# A quoted text or a bare one, each to its end: nothing is tried twice.
_PART = r'(?:"(?:[^"\\]|\\.)*"|[^\[\]"=\s]+)'
_FIELD = re.compile(rf" \[({_PART})(?:=({_PART}|))?\]")
_ERRORS = ("ERROR", "FATAL", "CRITICAL", "PANIC")
# What TiKV and PD say about what people look for in a log.
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

    def tells_of(self, what: str) -> bool:
        """Whether it speaks of elections, snapshots or what is slow, by the name of a reading."""
        said = self.message.lower()
        return any(words in said for words in _WORDS[what])


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
    """What was added to logs on this machine between two looks, counted."""

    def __init__(self) -> None:
        self._ends: dict[str, tuple[int, int]] = {}

    def readings(self, path: str) -> dict[str, Value]:
        """Counts of what its new lines tell; the first look begins at its end. Never raises."""
        try:
            return self._counted(Path(path))
        except (OSError, ValueError):
            return {}

    def _counted(self, log: Path) -> dict[str, Value]:
        state = log.stat()
        inode, begins = self._ends.get(str(log), (state.st_ino, state.st_size))
        if inode != state.st_ino or begins > state.st_size:
            begins = 0  # it was begun anew
        # A line that is still being written is left for the next look.
        begins = max(begins, state.st_size - READ_BYTES_MAX)
        with log.open("rb") as content:
            content.seek(begins)
            added = content.read(READ_BYTES_MAX)
        whole = added[: added.rfind(b"\n") + 1]
        self._ends[str(log)] = (state.st_ino, begins + len(whole))
        lines = list(_lines(whole))
        errors = [one for one in lines if one.is_error]
        found: dict[str, Value] = {
            what: sum(one.tells_of(what) for one in lines) for what in _WORDS
        }
        return {
            **found,
            "log_errors": len(errors),
            "log_warnings": sum(one.level == "WARN" for one in lines),
            "log_last_error": errors[-1].message[:DETAIL_MAX] if errors else "",
        }


def _lines(content: bytes) -> Iterator[LogLine]:
    for text in content.decode("utf-8", "replace").splitlines():
        found = line_from(text)
        if found is not None:
            yield found


def _plain(text: str) -> str:
    if not text.startswith('"'):
        return text
    try:
        value = json.loads(text)
    except ValueError:
        return text[1:-1]
    return value if isinstance(value, str) else text
