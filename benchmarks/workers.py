"""What an engine costs: tickets in a second with a mind that thinks of nothing, and its import.

    .venv/bin/python benchmarks/workers.py [--tickets 200] [--workers 2]

Every ticket goes through the whole pipeline: claimed, looked at, judged, repaired by a tool that
writes one line, proven, resolved; about twenty entries of the ledger, each durable. The store is
a PostgreSQL of its own. No goal: the engine must not be what people wait for.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.contract.postgres import Server
from tests.engines.floor import Floor
from tests.engines.worker import WorkerProcess

POLL_S = 0.1
LIVE = "SELECT count(*) FROM tickets WHERE state IN ('open', 'claimed')"
IMPORTS = {
    "operator_sre.engine": "import operator_sre.engine",
    "dbos": "import dbos",
}


async def throughput(
    server: Server, engine: str, *, workers: int, tickets: int
) -> tuple[float, float]:
    """Tickets in a second, and milliseconds of a worker's processor for each.

    From the first that ends to the last: starting up does not count.
    """
    where = server.database()
    with tempfile.TemporaryDirectory() as name:
        floor = Floor(where, Path(name))
        await floor.open_tickets(tickets)
        staff = [WorkerProcess(where, Path(name), engine) for _ in range(workers)]
        try:
            first = await _down_to(floor, tickets - 1)
            begun, busy_s = time.monotonic(), sum(map(_busy_s, staff))
            await _down_to(floor, 0)
            took_s, busy_s = time.monotonic() - begun, sum(map(_busy_s, staff)) - busy_s
            return first / took_s, busy_s * 1000 / first
        finally:
            for worker in staff:
                worker.end(signal.SIGKILL)
            floor.close()
            server.drop(where)


async def _down_to(floor: Floor, count: int) -> int:
    """Wait until no more tickets than these are left; returns how many are."""
    left = count + 1
    while left > count:
        await asyncio.sleep(POLL_S)
        left = int(floor.store.reader.rows(LIVE)[0][0])
    return left


def _busy_s(worker: WorkerProcess) -> float:
    fields = Path(f"/proc/{worker.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def import_ms(statement: str, rounds: int = 5) -> float:
    """Processor time that it adds to a start of Python; the median."""
    return statistics.median(_started(statement) for _ in range(rounds)) - statistics.median(
        _started("pass") for _ in range(rounds)
    )


def _started(statement: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", statement], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000


def say(line: str) -> None:
    """One line, at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    """Measure and tell."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tickets", type=int, default=200)
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    for name, statement in IMPORTS.items():
        say(f"import {name}: {import_ms(statement):.0f} ms of processor")
    server = Server()
    try:
        for workers in sorted({1, given.workers}):
            for engine in ("local", "dbos"):
                rate, busy_ms = asyncio.run(
                    throughput(server, engine, workers=workers, tickets=given.tickets)
                )
                told = f"{rate:.1f} tickets/s, {busy_ms:.0f} ms of processor each"
                say(f"{engine}, {workers} worker(s): {told}")
    finally:
        server.end()


if __name__ == "__main__":
    main()
