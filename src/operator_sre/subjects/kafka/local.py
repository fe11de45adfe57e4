"""What lies beside a broker or a client on this machine: its disk, its log, its data."""

from __future__ import annotations

import contextlib
import re
import tomllib
from pathlib import Path

from operator_protocols.domain.observation import Value
from operator_protocols.domain.target import Target
from operator_protocols.kit.datafiles import DataFiles
from operator_protocols.kit.machine import data_dir_of, disk_room, is_paused, is_running, log_bytes

__all__ = ["IDENTITY", "broker_readings", "identity_of", "process_readings"]

IDENTITY = "meta.properties"
TAIL_BYTES = 32 * 1024
# The directory of a target may be its log directory, or the place of several.
_FILES = DataFiles(("*/*.log", "*/*/*.log"), (IDENTITY, f"*/{IDENTITY}"))
_WORDS = {
    name: re.compile("|".join(table["words"]))
    for name, table in tomllib.loads(
        Path(__file__).with_name("logs.toml").read_text(encoding="utf-8")
    ).items()
}


def identity_of(place: Path) -> Path | None:
    """The file without which a broker does not know which one it is."""
    return next(
        (file for file in (place / IDENTITY, *place.glob(f"*/{IDENTITY}")) if file.is_file()), None
    )


def broker_readings(target: Target, *, down: bool) -> dict[str, Value]:
    """Disk, log and data; of a stopped broker also what its log says of its data. Never raises."""
    readings: dict[str, Value] = {}
    if target.runs_at:
        return readings
    if target.data_dir:
        with contextlib.suppress(OSError, ValueError):
            place = data_dir_of(target)
            present = identity_of(place) is not None
            readings["data_present"] = present
            intact = _FILES.compare(target.data_dir, place, works=not down)
            readings["data_intact"] = present if intact is None else present and intact
            if (room := disk_room(place)) is not None:
                readings["disk_free_bytes"] = room[0]
                readings["disk_ratio"] = round(1 - room[0] / max(1, room[1]), 4)
    if (size := log_bytes(target)) is not None:
        readings["log_bytes"] = size
        if down:
            readings |= _read_last_words(Path(target.log), size)
    return readings | process_readings(target)


def process_readings(target: Target) -> dict[str, Value]:
    """Whether its process runs, where that is on this machine."""
    if target.process is None or target.runs_at:
        return {}
    return {"running": is_running(target.process), "paused": is_paused(target.process)}


def _read_last_words(log: Path, size: int) -> dict[str, Value]:
    with contextlib.suppress(OSError, ValueError):
        with log.open("rb") as content:
            content.seek(max(0, size - TAIL_BYTES))
            words = content.read(TAIL_BYTES).decode("utf-8", "replace").lower()
        return {
            f"log_{name}": pattern.search(words) is not None for name, pattern in _WORDS.items()
        }
    return {}
