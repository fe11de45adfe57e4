"""What a server would be after a start: its role, and how far its data reaches."""

from __future__ import annotations

import contextlib
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from operator_protocols.domain.observation import Seen, Value
from operator_protocols.domain.target import Target
from operator_protocols.kit.machine import data_dir_of

__all__ = ["compare_starts", "start_readings"]

CONTROL = Path("global") / "pg_control"
MARKS = ("standby.signal", "recovery.signal")
ENTRIES_MAX = 200
PAGE_BYTES = 8192
# The system identifier, and the position and the timeline of the last checkpoint, as every version
# since 11 writes them.
_CONTROL = struct.Struct("=Q24xQQI")
_PAGE = struct.Struct("=HHIQ")
# How far a server reaches, by the best reading that there is of it.
_ENDS = ("wal_position_bytes", "received_bytes", "replayed_bytes", "start_wal_bytes")
_SEGMENT = re.compile(r"[0-9A-F]{24}")


def start_readings(target: Target) -> dict[str, Value]:
    """What lies in the data directory of a server on this machine; no reading where unknown."""
    if not target.data_dir or target.runs_at:
        return {}
    try:
        # The data directory at this place or one level below it.
        place = data_dir_of(target)
        folders = [
            place,
            *(entry for entry in sorted(place.iterdir())[:ENTRIES_MAX] if entry.is_dir()),
        ]
        home = next((folder for folder in folders if (folder / CONTROL).is_file()), None)
        if home is None:
            return {"data_present": False}
        readings: dict[str, Value] = {
            "data_present": True,
            "starts_as": "replica" if any((home / mark).exists() for mark in MARKS) else "primary",
        }
        system, _, _, timeline = _CONTROL.unpack((home / CONTROL).read_bytes()[: _CONTROL.size])
    except (OSError, ValueError, struct.error):
        return {}
    readings |= {"start_system": f"{system}", "start_timeline": timeline}
    with contextlib.suppress(OSError, ValueError, struct.error):
        readings["start_wal_bytes"] = _end_of_wal(home / "pg_wal")
    return readings


def _end_of_wal(folder: Path) -> int:
    """The position behind the last written page; segments that wait for their use do not count."""
    names = sorted(
        (name for entry in folder.iterdir() if _SEGMENT.fullmatch(name := entry.name)), reverse=True
    )
    for name in names:
        size = (folder / name).stat().st_size
        start = (int(name[8:16], 16) << 32) + int(name[16:], 16) * size
        with (folder / name).open("rb") as segment:
            low, high = -1, size // PAGE_BYTES
            while high - low > 1:  # its written pages come first
                middle = max(0, (low + high) // 2)
                segment.seek(middle * PAGE_BYTES)
                address = _PAGE.unpack(segment.read(_PAGE.size))[3]
                written = address == start + middle * PAGE_BYTES
                low, high = (middle, high) if written else (low, middle)
        if low >= 0:
            return start + high * PAGE_BYTES
    raise ValueError(f"there is no WAL in {folder}")


def compare_starts(seen: Sequence[Seen], reached: Mapping[str, int] | None = None) -> list[Seen]:
    """The same, and of each server whether its start would harm another.

    `start_second_writer` is True when it would come up as a primary beside another, and
    `start_data_older` when it would come up as a primary with other data, or with less than a
    replica of it has or than it had itself (`reached`). Both are missing where another server does
    not tell enough.
    """
    compared, before = [], reached or {}
    for each in seen:
        role = each.readings.get("starts_as")
        if role == "replica" or (role is not None and role == each.readings.get("role")):
            more: dict[str, Value] = {"start_second_writer": False, "start_data_older": False}
        elif role == "primary":
            others = [
                other.readings
                for other in seen
                if other is not each and other.readings.get("kind") == each.readings.get("kind")
            ]
            roles = [other.get("role", other.get("starts_as")) for other in others]
            writes = any(other.get("role") == "primary" for other in others)
            unsure = None in roles or "primary" in roles
            more = {} if unsure and not writes else {"start_second_writer": writes}
            own = each.readings.get("start_wal_bytes")
            ends = [
                next((other[name] for name in _ENDS if other.get(name) is not None), None)
                for other in others
            ]
            known = [end for end in ends if isinstance(end, int)]
            # A replica asks for WAL from the beginning of a page on.
            behind = isinstance(own, int) and any(
                end > own for end in (*known, before.get(each.target, 0))
            )
            if behind or any(_differs(each.readings, other) for other in others):
                more["start_data_older"] = True
            elif isinstance(own, int) and len(known) == len(ends):
                more["start_data_older"] = False
        else:
            more = {}
        compared.append(replace(each, readings={**each.readings, **more}) if more else each)
    return compared


def _differs(own: Mapping[str, Value], other: Mapping[str, Value]) -> bool:
    """Whether its data is that of another cluster, or of an earlier timeline."""
    systems = own.get("start_system"), other.get("start_system")
    mine, theirs = own.get("start_timeline"), other.get("start_timeline")
    earlier = isinstance(mine, int) and isinstance(theirs, int) and mine < theirs
    return earlier or (None not in systems and systems[0] != systems[1])
