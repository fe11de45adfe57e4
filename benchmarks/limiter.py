"""How many checks a second three nodes decide, and how long each caller waits.

    .venv/bin/python benchmarks/limiter.py [--seconds 8] [--rate 1100] [--callers 24]

Promises: at least 1,000 checks a second on two cores that also run the store and the load, 99 of
100 answered within 50 ms, and no key is ever allowed more than its limit. Real HTTP over
connections that stay open. `--rate 0` asks as fast as the answers come.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from operator_lab.ports import reserve_ports
from operator_sre.subjects.ratelimiter.rig import server_path

NODES, KEYS, LIMIT, WINDOW_S = 3, 200, 20, 600
GOAL_PER_S, GOAL_P99_MS = 1_000.0, 50.0
READY_S_MAX = 20.0


@contextmanager
def running() -> Iterator[list[int]]:
    """A store and its nodes; the ports of the nodes."""
    names = ["store", *(f"node-{at}" for at in range(NODES))]
    with tempfile.TemporaryDirectory() as folder, reserve_ports(names) as reserved:
        store, *ports = reserved.ports.values()
        commands = [
            (
                *(server_path(), "--port", str(store), "--bind", "127.0.0.1", "--save", ""),
                *("--dir", folder, "--loglevel", "warning"),
            ),
            *(
                (
                    *(sys.executable, "-m", "operator_ratelimiter", "--name", f"node-{at}"),
                    *("--port", str(port), "--store", f"valkey://127.0.0.1:{store}/0"),
                    *("--default-limit", str(LIMIT), "--window-s", str(WINDOW_S)),
                )
                for at, port in enumerate(ports)
            ),
        ]
        with Path(folder, "log").open("ab") as log:
            started = [subprocess.Popen(command, stdout=log, stderr=log) for command in commands]
        try:
            yield ports
        finally:
            for process in started:
                process.kill()
                process.wait()


async def ready(port: int) -> None:
    """Wait until a node answers."""
    ends = time.monotonic() + READY_S_MAX
    while time.monotonic() < ends:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.05)
        else:
            writer.close()
            return
    raise SystemExit(f"The node on port {port} did not start.")


class Load:
    """Callers that share one pace; each keeps one connection to one node."""

    def __init__(self, *, rate_per_s: float, seconds: float) -> None:
        self.waits_s: list[float] = []
        self.statuses: Counter[int] = Counter()
        self.allowed: Counter[str] = Counter()
        self._rate = rate_per_s
        self._begun = time.perf_counter()
        self._ends = self._begun + seconds
        self._asked = 0

    async def call(self, port: int) -> None:
        """One caller: asks at its moments until the time is over."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while (now := time.perf_counter()) < self._ends:
            number, self._asked = self._asked, self._asked + 1
            due = self._begun + number / self._rate if self._rate else now
            if due >= self._ends:
                break
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            await self._ask(reader, writer, f"key-{number % KEYS}")
        writer.close()

    async def _ask(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, key: str
    ) -> None:
        body = json.dumps({"key": key}).encode()
        head = f"POST /check HTTP/1.1\r\nHost: node\r\nContent-Length: {len(body)}\r\n"
        asked_s = time.perf_counter()
        writer.write(f"{head}Content-Type: application/json\r\n\r\n".encode() + body)
        answer = (await reader.readuntil(b"\r\n\r\n")).lower()
        await reader.readexactly(int(answer.split(b"content-length: ", 1)[1].split(b"\r\n")[0]))
        self.waits_s.append(time.perf_counter() - asked_s)
        status = int(answer[9:12])
        self.statuses[status] += 1
        self.allowed[key] += status == 200

    @property
    def per_s(self) -> float:
        """How many were answered a second."""
        return len(self.waits_s) / (time.perf_counter() - self._begun)

    def wait_ms(self, share: float) -> float:
        """How long that share of the callers waited at most."""
        ordered = sorted(self.waits_s)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] * 1000


async def measure(*, seconds: float, rate_per_s: float, callers: int) -> Load:
    """Warm up, then one run."""
    with running() as ports:
        await asyncio.gather(*map(ready, ports))
        for load in (
            Load(rate_per_s=rate_per_s / 2, seconds=1.0),
            Load(rate_per_s=rate_per_s, seconds=seconds),
        ):
            await asyncio.gather(*(load.call(ports[at % NODES]) for at in range(callers)))
            per_s = load.per_s
        print_table(load, per_s)
        return load


def print_table(load: Load, per_s: float) -> None:
    """What was measured beside what was promised."""
    most = max(load.allowed.values())
    rows = (
        ("checks a second", f"{per_s:.0f}", f">= {GOAL_PER_S:.0f}", per_s >= GOAL_PER_S),
        ("half within ms", f"{load.wait_ms(0.5):.1f}", "", True),
        ("99 % within ms", f"{load.wait_ms(0.99):.1f}", f"< {GOAL_P99_MS:.0f}",
         load.wait_ms(0.99) < GOAL_P99_MS),
        ("allowed to one key", str(most), f"<= {LIMIT}", most <= LIMIT),
    )  # fmt: skip
    sys.stdout.write(f"{'':20}{'measured':>10}{'goal':>10}\n")
    for name, value, goal, kept in rows:
        sys.stdout.write(f"{name:20}{value:>10}{goal:>10}  {'' if kept else 'MISSED'}\n")
    sys.stdout.write(f"answers by status: {dict(load.statuses)}\n")


def main() -> None:
    """Measure and tell."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--rate", type=float, default=1_100.0, help="checks a second, 0: all")
    parser.add_argument("--callers", type=int, default=24)
    told = parser.parse_args()
    asyncio.run(measure(seconds=told.seconds, rate_per_s=told.rate, callers=told.callers))


if __name__ == "__main__":
    main()
