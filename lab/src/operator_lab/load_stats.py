"""What came of a load: counts, success rate and latency, second by second and since the start."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field
from pathlib import Path

from operator_protocols.errors import RigError
from operator_sre.processes.files import write_atomically

__all__ = [
    "STATS_FILE",
    "Histogram",
    "Latency",
    "LoadStats",
    "Sample",
    "read_load",
    "write_load",
]

STATS_FILE = "stats.json"
LOAD_FOLDER = "load"
FIRST_MS = 0.01
GROWTH = 1.05  # each bucket ends 5 % later than the one before, so that no figure is further off
LAST_MS = 60_000.0
BUCKETS = math.ceil(math.log(LAST_MS / FIRST_MS, GROWTH)) + 1


@dataclass(frozen=True, slots=True)
class Latency:
    """How long half, 95 % and 99 % of the answers took at most; None where nothing answered."""

    p50_ms: float | None = None
    p95_ms: float | None = None
    p99_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """One second: how many requests went well, how many did not, how long answers took."""

    at: float
    ok: int
    failed: int
    latency: Latency = field(default_factory=Latency)


@dataclass(frozen=True, slots=True)
class LoadStats:
    """All since the start, and the last seconds one by one, newest last.

    `ops_per_s`, `success_rate` and `latency` are of the last second; a rate is None when no
    request ended. Latency is that of whatever was answered or waited for in vain; what was refused
    at once says nothing about it.
    """

    at: float
    total: int
    ok: int
    failed: int
    ops_per_s: float
    samples: tuple[Sample, ...]
    shape: str = "steady"
    success_rate: float | None = None
    success_rate_total: float | None = None
    latency: Latency = field(default_factory=Latency)
    latency_total: Latency = field(default_factory=Latency)


class Histogram:
    """How often which latency was seen, in a fixed number of buckets."""

    def __init__(self) -> None:
        self._counts = [0] * BUCKETS
        self._total = 0

    def add(self, seconds: float) -> None:
        """Count one."""
        factor = max(1.0, seconds * 1000.0 / FIRST_MS)
        self._counts[min(BUCKETS - 1, math.ceil(math.log(factor, GROWTH)))] += 1
        self._total += 1

    def take(self, other: Histogram) -> None:
        """Add the counts of another, and reset that one."""
        for index, count in enumerate(other._counts):
            self._counts[index] += count
        self._total += other._total
        other._counts, other._total = [0] * BUCKETS, 0

    def latency(self) -> Latency:
        """The usual three, at most 5 % too long."""
        return Latency(self._quantile(0.50), self._quantile(0.95), self._quantile(0.99))

    def _quantile(self, share: float) -> float | None:
        """The end of the bucket in which this share of all is reached."""
        wanted, seen = max(1, math.ceil(self._total * share)), 0
        for index, count in enumerate(self._counts):
            seen += count
            if seen >= wanted:
                return round(FIRST_MS * GROWTH**index, 2)
        return None


def write_load(path: Path, stats: LoadStats) -> None:
    """Write the figures down, in one step."""
    write_atomically(path, json.dumps(asdict(stats)))


def read_load(directory: Path) -> LoadStats | None:
    """What the load of a rig directory has counted; None when it has no load yet."""
    try:
        record = json.loads((directory / LOAD_FOLDER / STATS_FILE).read_text(encoding="utf-8"))
        parts = {
            "samples": tuple(
                Sample(**{**each, "latency": Latency(**each["latency"])})
                for each in record["samples"]
            ),
            "latency": Latency(**record["latency"]),
            "latency_total": Latency(**record["latency_total"]),
        }
        return LoadStats(**{**record, **parts})
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, TypeError, KeyError) as problem:
        raise RigError(f"The figures of the load cannot be read: {problem}.") from problem
