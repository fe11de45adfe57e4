"""The disks, the memory and the units of a host, where the target runs."""

from __future__ import annotations

import re
from dataclasses import dataclass

from operator_protocols.domain.excerpt import keep_last_line
from operator_sre.subjects.declarative.document import Table
from operator_sre.subjects.declarative.probes.place import Blind, Place, down, up
from operator_sre.subjects.declarative.probes.there import run_there
from operator_sre.subjects.declarative.values import Readings

__all__ = [
    "DISK_KEYS",
    "MEMORY_KEYS",
    "SYSTEMD_KEYS",
    "DiskProbe",
    "read_disk",
    "read_memory",
    "read_systemd",
]

DISK_KEYS = ("path",)
MEMORY_KEYS: tuple[str, ...] = ()
SYSTEMD_KEYS = ("unit",)
_UNIT = re.compile(r"[A-Za-z0-9@._:\\-]{1,200}")
_KB = 1024


async def _read_lines(place: Place, *argv: str) -> list[str]:
    """What a command printed; Blind where it failed."""
    result = await run_there(place, *argv)
    if result.exit_code:
        raise Blind(f"{argv[0]} failed: {keep_last_line(result.stderr, 120)}")
    return result.stdout.splitlines()


@dataclass(frozen=True, slots=True)
class DiskProbe:
    """The usage of the file system of a path, in bytes and in inodes."""

    path: str = "/"

    @property
    def fields(self) -> frozenset[str]:
        """The values that it can give."""
        own = {"up", "ok", "error", "used_percent", "free_bytes", "size_bytes", "mounted_at"}
        return frozenset(own | {"inodes_percent"})

    async def observe(self, place: Place) -> Readings:
        """Run df, whose output is the same everywhere."""
        readings: Readings = {}
        for option in ("-Pk", "-Pi"):
            lines = await _read_lines(place, "df", option, "--", self.path)
            words = lines[-1].split(None, 5) if len(lines) > 1 else []
            if len(words) != 6 or not words[1].isdigit():
                raise Blind("df did not print a file system")
            # Some file systems count no inodes.
            percent = float(words[4].rstrip("%")) if words[4][:1].isdigit() else 0.0
            if option == "-Pi":
                readings["inodes_percent"] = percent
                continue
            readings |= {
                "used_percent": percent,
                "free_bytes": int(words[3]) * _KB,
                "size_bytes": int(words[1]) * _KB,
                "mounted_at": words[5],
            }
        return up(readings, "")


@dataclass(frozen=True, slots=True)
class MemoryProbe:
    """Memory, load and processes that the kernel killed, from /proc."""

    @property
    def fields(self) -> frozenset[str]:
        """The values that it can give."""
        own = {"up", "ok", "error", "used_percent", "available_bytes", "total_bytes", "oom_kills"}
        return frozenset(own | {"swap_percent", "load", "load_per_core", "cores", "uptime_s"})

    async def observe(self, place: Place) -> Readings:
        """One command; a killed process shows as `oom_kills` when the counter grew."""
        files = ("/proc/meminfo", "/proc/vmstat", "/proc/stat", "/proc/loadavg", "/proc/uptime")
        lines = await _read_lines(place, "cat", *files)
        kept: dict[str, float] = {}
        for line in lines:
            words = line.replace(":", " ").split()
            if len(words) > 1 and re.fullmatch(r"[0-9]+", words[1]):
                kept.setdefault(words[0], float(words[1]))
        total, available = kept.get("MemTotal"), kept.get("MemAvailable")
        if not total or available is None or len(lines) < 2:
            raise Blind("its machine does not show its memory under /proc")
        cores = sum(re.match(r"cpu[0-9]", line) is not None for line in lines) or 1
        load, uptime_s = float(lines[-2].split()[0]), float(lines[-1].split()[0])
        swap = kept.get("SwapTotal", 0.0)
        readings: Readings = {
            "used_percent": round(100 * (1 - available / total), 2),
            "available_bytes": int(available) * _KB,
            "total_bytes": int(total) * _KB,
            "swap_percent": round(100 * (1 - kept.get("SwapFree", 0.0) / swap), 2) if swap else 0.0,
            "load": load,
            "load_per_core": round(load / cores, 3),
            "cores": cores,
            "uptime_s": uptime_s,
        }
        rate = place.rate("oom", kept.get("oom_kill", 0.0))
        if rate is not None:
            readings["oom_kills"] = rate
        return up(readings, "")


@dataclass(frozen=True, slots=True)
class SystemdProbe:
    """One unit, or how many units have failed."""

    unit: str = ""

    @property
    def fields(self) -> frozenset[str]:
        """The values that it can give."""
        own = {"up", "ok", "error", "state", "sub_state", "result", "restarts", "failed", "units"}
        return frozenset(own | {"enabled"})

    async def observe(self, place: Place) -> Readings:
        """Run systemctl, which only reads here."""
        if not self.unit:
            words = ("list-units", "--failed", "--plain", "--no-legend", "--no-pager")
            lines = await _read_lines(place, "systemctl", *words)
            names = [line.split()[0] for line in lines if line.strip()]
            readings: Readings = {"failed": len(names), "units": ", ".join(names)[:200]}
            return up(readings, f"failed units: {readings['units']}" if names else "")
        names = ["ActiveState", "SubState", "Result", "NRestarts", "LoadState", "UnitFileState"]
        lines = await _read_lines(
            place, "systemctl", "show", f"--property={','.join(names)}", "--", self.unit
        )
        shown = dict(line.split("=", 1) for line in lines if "=" in line)
        if shown.get("LoadState") == "not-found":
            return down(f"there is no unit {self.unit}", state="not-found")
        state, result = shown.get("ActiveState", ""), shown.get("Result", "")
        readings = {
            "state": state,
            "sub_state": shown.get("SubState", ""),
            "result": result,
            "enabled": shown.get("UnitFileState", "") in ("enabled", "enabled-runtime", "static"),
        }
        if (count := shown.get("NRestarts", "")).isdigit():
            readings["restarts"] = int(count)
        why = "" if state == "active" else f"{self.unit} is {state} ({result})"
        return up(readings, why)


def read_disk(table: Table) -> DiskProbe:
    """Parse the probe of a description."""
    path = table.text("path", "/")
    if not path.startswith("/"):
        raise table.wrong("'path' must start with '/'.", "path")
    return DiskProbe(path)


def read_memory(table: Table) -> MemoryProbe:
    """Parse the probe of a description; it has nothing to set."""
    return MemoryProbe()


def read_systemd(table: Table) -> SystemdProbe:
    """Parse the probe of a description."""
    unit = table.text("unit")
    if unit and (not _UNIT.fullmatch(unit) or unit.startswith("-")):
        raise table.wrong(f"{unit[:60]!r} is not a valid name of a unit.", "unit")
    return SystemdProbe(unit)
