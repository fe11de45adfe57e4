"""Steady traffic on the nodes of a rig, and what came of it second by second.

Run by the rig's supervisor as `python -m operator_sre.lab.load --config FILE`. It is open-loop: a
request starts when its time has come, whether or not earlier ones were answered.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from operator_protocols.errors import RigError
from operator_sre.processes.files import write_atomically

__all__ = ["STATS_FILE", "Load", "LoadStats", "Sample", "main", "read_load"]

STATS_FILE = "stats.json"
LOAD_FOLDER = "load"
REQUEST_S_MAX = 1.0
REPORT_S = 1.0
SAMPLES_MAX = 30
NUMBERS = 100
IN_FLIGHT_MAX = 1_000
IDLE_MAX = 32
BEHIND_S_MAX = 1.0
HEAD_BYTES_MAX = 1 << 16
BODY_BYTES_MAX = 1 << 16

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(frozen=True, slots=True)
class Sample:
    """One second: how many requests were answered below 500, and how many were not."""

    at: float
    ok: int
    failed: int


@dataclass(frozen=True, slots=True)
class LoadStats:
    """All since the start, and the last seconds one by one, newest last."""

    at: float
    total: int
    ok: int
    failed: int
    ops_per_s: float
    samples: tuple[Sample, ...]


def read_load(directory: Path) -> LoadStats | None:
    """What the load of a rig directory has counted; None when it has no load yet."""
    try:
        record = json.loads((directory / LOAD_FOLDER / STATS_FILE).read_text(encoding="utf-8"))
        samples = tuple(Sample(**sample) for sample in record["samples"])
        return LoadStats(**{**record, "samples": samples})
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, TypeError, KeyError) as problem:
        raise RigError(f"The figures of the load cannot be read: {problem}.") from problem


class _Node:
    """One server, with the connections to it that wait for the next request."""

    def __init__(self, host: str, port: int, *, path: str, body: Mapping[str, str]) -> None:
        self._host, self._port = host, port
        self._idle: list[Connection] = []
        numbers = range(NUMBERS if any("{n}" in value for value in body.values()) else 1)
        self._requests = [_request(f"{host}:{port}", path, body, number) for number in numbers]

    async def ask(self, turn: int) -> bool:
        """Send one request; True when it is answered in time and below 500."""
        try:
            async with asyncio.timeout(REQUEST_S_MAX):
                return await self._exchange(self._requests[turn % len(self._requests)]) < 500
        except (OSError, TimeoutError, ValueError, EOFError, asyncio.LimitOverrunError):
            return False

    def close(self) -> None:
        """Hang up."""
        for _, writer in self._idle:
            writer.close()

    async def _exchange(self, request: bytes) -> int:
        reader, writer = await self._connection()
        reusable = False
        try:
            writer.write(request)
            status, reusable = await _answer(reader)
        finally:
            if reusable and len(self._idle) < IDLE_MAX:
                self._idle.append((reader, writer))
            else:
                writer.close()
        return status

    async def _connection(self) -> Connection:
        while self._idle:
            reader, writer = self._idle.pop()
            if not reader.at_eof() and not writer.is_closing():
                return reader, writer
            writer.close()
        return await asyncio.open_connection(self._host, self._port, limit=HEAD_BYTES_MAX)


def _request(host: str, path: str, body: Mapping[str, str], number: int) -> bytes:
    filled = {name: value.replace("{n}", str(number)) for name, value in body.items()}
    content = json.dumps(filled).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {host}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
    )
    return head.encode() + content


async def _answer(reader: asyncio.StreamReader) -> tuple[int, bool]:
    """Read one answer: its status, and whether its connection can be used again."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    first, *lines = head.split("\r\n")
    version, status = first.split(" ")[:2]
    fields = {name.strip(): value.strip() for name, _, value in (s.partition(":") for s in lines)}
    length = int(fields.get("content-length", "-1"))
    whole = 0 <= length <= BODY_BYTES_MAX
    if whole:
        await reader.readexactly(length)
    return int(status), whole and version == "http/1.1" and fields.get("connection") != "close"


class Load:
    """Asks every node in turn at a steady rate and writes down once a second what came of it."""

    def __init__(
        self,
        stats: Path,
        *,
        host: str,
        ports: Sequence[int],
        path: str,
        body: Mapping[str, str],
        rate_per_s: float,
    ) -> None:
        self._nodes = [_Node(host, port, path=path, body=body) for port in ports]
        self._stats = stats
        self._interval_s = 1.0 / rate_per_s
        self._ok = self._failed = 0
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
            for task in self._in_flight:
                task.cancel()
            await asyncio.gather(*self._in_flight, return_exceptions=True)
            for node in self._nodes:
                node.close()

    async def _drive(self) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        turn = 0
        while True:
            # After a pause of our own the missed requests are not made up for in a burst.
            due = max(due, loop.time() - BEHIND_S_MAX)
            if len(self._in_flight) < IN_FLIGHT_MAX:
                task = asyncio.create_task(self._count(turn))
                self._in_flight.add(task)
                task.add_done_callback(self._in_flight.discard)
            else:
                self._failed += 1
            turn += 1
            due += self._interval_s
            await asyncio.sleep(max(0.0, due - loop.time()))

    async def _count(self, turn: int) -> None:
        if await self._nodes[turn % len(self._nodes)].ask(turn):
            self._ok += 1
        else:
            self._failed += 1

    async def _report(self) -> None:
        then, ok, failed = time.monotonic(), 0, 0
        while True:
            await asyncio.sleep(REPORT_S)
            now = time.monotonic()
            sample = Sample(time.time(), self._ok - ok, self._failed - failed)
            self._samples.append(sample)
            self._write(ops_per_s=sample.ok / (now - then))
            then, ok, failed = now, self._ok, self._failed

    def _write(self, *, ops_per_s: float) -> None:
        stats = LoadStats(
            at=time.time(),
            total=self._ok + self._failed,
            ok=self._ok,
            failed=self._failed,
            ops_per_s=round(ops_per_s, 1),
            samples=tuple(self._samples),
        )
        write_atomically(self._stats, json.dumps(asdict(stats)))


async def _serve(load: Load) -> None:
    """Run the load until SIGTERM."""
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
        asyncio.run(_serve(Load(config.parent / STATS_FILE, **options)))
    except asyncio.CancelledError:
        return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
