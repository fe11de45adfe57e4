"""Traffic on the nodes of a rig, and what came of it second by second.

Run by the rig's supervisor as `python -m operator_lab.load --config FILE`. It is open-loop: a
request starts when its time has come, whether or not earlier ones were answered.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import math
import signal
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from operator_lab.load_clients import Asked, HttpNode, Reply, RoutedRequests
from operator_protocols.domain.rig import LoadShape
from operator_protocols.errors import OperatorError, RigError
from operator_sre.processes.files import write_atomically

__all__ = [
    "STATS_FILE",
    "Histogram",
    "Latency",
    "Load",
    "LoadStats",
    "Sample",
    "due_s",
    "main",
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


REPORT_S = 1.0
SAMPLES_MAX = 30
IN_FLIGHT_MAX = 1_000
BEHIND_S_MAX = 1.0
HANG_UP_S_MAX = 0.2
BURST_EVERY_S = 10.0
BURST_TIMES = 10.0
RAMP_S = 60.0


def due_s(shape: LoadShape, rate_per_s: float, turn: int) -> float:
    """When the request of this turn (from 0) is due, in seconds from the start."""
    match shape:
        case LoadShape.STEADY:
            return turn / rate_per_s
        case LoadShape.BURST:
            each = rate_per_s * BURST_EVERY_S
            calm_s = BURST_EVERY_S - 1.0
            calm_per_s = each / (calm_s + BURST_TIMES)
            rounds, left = divmod(turn, each)
            if left < calm_per_s * calm_s:
                return rounds * BURST_EVERY_S + left / calm_per_s
            burst = (left - calm_per_s * calm_s) / (calm_per_s * BURST_TIMES)
            return rounds * BURST_EVERY_S + calm_s + burst
        case LoadShape.RAMP:
            rising = rate_per_s * RAMP_S / 2
            if turn < rising:
                return math.sqrt(2 * RAMP_S * turn / rate_per_s)
            return RAMP_S + (turn - rising) / rate_per_s


class Load:
    """Asks every node in turn and writes down once a second what came of it."""

    def __init__(
        self,
        stats: Path,
        *,
        host: str,
        ports: Sequence[int],
        path: str,
        body: Mapping[str, str],
        rate_per_s: float,
        shape: str = LoadShape.STEADY,
        statement: str = "",
        dsn: str = "",
        client: str = "",
    ) -> None:
        self._nodes: list[Asked] = (
            [RoutedRequests(client, host, ports)]
            if client
            else _nodes(host, ports, path, body, statement, dsn)
        )
        self._stats = stats
        self._rate_per_s, self._shape = rate_per_s, LoadShape(shape)
        self._ok = self._failed = 0
        self._second, self._ever = Histogram(), Histogram()
        self._samples: deque[Sample] = deque(maxlen=SAMPLES_MAX)
        self._in_flight: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Until cancelled."""
        self._write(ops_per_s=0.0)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._drive())
                group.create_task(self._report())
        finally:
            for node in self._nodes:
                await node.close()
            if self._in_flight:
                await asyncio.wait(self._in_flight, timeout=HANG_UP_S_MAX)
            for task in self._in_flight:
                task.cancel()
            await asyncio.gather(*self._in_flight, return_exceptions=True)
            for node in self._nodes:  # what came back in the meantime
                await node.close()

    async def _drive(self) -> None:
        loop = asyncio.get_running_loop()
        started = loop.time()
        turn = 0
        while True:
            # After a pause of our own the missed requests are not made up for in a burst.
            started = max(started, loop.time() - BEHIND_S_MAX - self._due_s(turn))
            await asyncio.sleep(max(0.0, started + self._due_s(turn) - loop.time()))
            if len(self._in_flight) < IN_FLIGHT_MAX:
                task = asyncio.create_task(self._count(turn))
                self._in_flight.add(task)
                task.add_done_callback(self._in_flight.discard)
            else:
                self._failed += 1
            turn += 1

    def _due_s(self, turn: int) -> float:
        return due_s(self._shape, self._rate_per_s, turn)

    async def _count(self, turn: int) -> None:
        started = time.monotonic()
        reply = await self._nodes[turn % len(self._nodes)].ask(turn)
        if reply.timed:
            self._second.add(time.monotonic() - started)
        if reply is Reply.GOOD:
            self._ok += 1
        else:
            self._failed += 1

    async def _report(self) -> None:
        then, ok, failed = time.monotonic(), 0, 0
        while True:
            await asyncio.sleep(REPORT_S)
            now = time.monotonic()
            latency = self._second.latency()
            self._ever.take(self._second)
            sample = Sample(time.time(), self._ok - ok, self._failed - failed, latency)
            self._samples.append(sample)
            with contextlib.suppress(OSError):  # a full disk must not end the load
                self._write(ops_per_s=sample.ok / (now - then))
            then, ok, failed = now, self._ok, self._failed

    def _write(self, *, ops_per_s: float) -> None:
        last = self._samples[-1] if self._samples else Sample(0.0, 0, 0)
        stats = LoadStats(
            at=time.time(),
            total=self._ok + self._failed,
            ok=self._ok,
            failed=self._failed,
            ops_per_s=round(ops_per_s, 1),
            samples=tuple(self._samples),
            shape=self._shape.value,
            success_rate=_rate(last.ok, last.failed),
            success_rate_total=_rate(self._ok, self._failed),
            latency=last.latency,
            latency_total=self._ever.latency(),
        )
        write_load(self._stats, stats)


def _nodes(
    host: str,
    ports: Sequence[int],
    path: str,
    body: Mapping[str, str],
    statement: str,
    dsn: str,
) -> list[Asked]:
    if not statement:
        return [HttpNode(host, port, path=path, body=body) for port in ports]
    from operator_lab.load_clients import SqlNode  # its driver is loaded only where it is needed

    return [SqlNode(port, dsn=dsn, statement=statement) for port in ports]


def _rate(ok: int, failed: int) -> float | None:
    return round(ok / (ok + failed), 4) if ok + failed else None


async def _serve(stats: Path, options: Mapping[str, Any]) -> None:
    """Run the load until SIGTERM."""
    load = Load(stats, **options)
    task = asyncio.current_task()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, lambda: task.cancel() if task is not None else False)
    await load.run()


def main() -> int:
    """Read the configuration and put load on its nodes."""
    parser = argparse.ArgumentParser(prog="load", description=__doc__)
    parser.add_argument("--config", type=Path, required=True)
    config = parser.parse_args().config
    options = json.loads(config.read_text(encoding="utf-8"))
    try:
        asyncio.run(_serve(config.parent / STATS_FILE, options))
    except asyncio.CancelledError:
        return 0
    except OperatorError as problem:
        sys.stderr.write(f"{problem}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
