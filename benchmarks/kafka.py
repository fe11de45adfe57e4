"""What one check of a large Kafka cluster costs: 50 brokers, 20,000 partitions with three replicas.

    .venv/bin/python benchmarks/kafka.py [--brokers 50] [--topics 400] [--partitions 50]

The subject is the product's. The brokers are servers of another process, each on a port of its own,
and answer in the protocol of Kafka (`tests/subjects/kafka/fake_broker.py`). Half of the checks read
all settings, as one in `settings_every_s` does. Promises: the longest check takes under 2 s, and
nothing in the cluster is broken or unknown.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import resource
import statistics
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from operator_protocols.domain.health import Health
from operator_protocols.domain.target import Target
from operator_protocols.ports import SubjectSettings
from operator_sre.clock import SystemClock
from operator_sre.subjects.kafka.subject import KafkaCluster
from tests.subjects.kafka.fake_broker import World, serve, spread

TIMEOUT_S = 60.0
SECONDS_MAX = 2.0


def main() -> int:
    """Measure, print, and return 1 where a promise is broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--brokers", type=int, default=50)
    parser.add_argument("--topics", type=int, default=400)
    parser.add_argument("--partitions", type=int, default=50)
    parser.add_argument("--checks", type=int, default=20)
    given = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    shape = (given.brokers, given.topics, given.partitions)
    server = context.Process(target=_serve, args=(theirs, *shape))
    server.start()
    try:
        ports: dict[str, int] = ours.recv()
        return asyncio.run(_measure(ports, given.checks))
    finally:
        server.kill()
        server.join()


async def _measure(ports: dict[str, int], checks: int) -> int:
    targets = [Target(name, "broker", port=port) for name, port in ports.items()]
    found: dict[str, list[tuple[float, float]]] = {}
    unwell: set[str] = set()
    for every_s, kind in ((0.0, "with all settings"), (3600.0, "without")):
        options = {"settings_every_s": every_s}
        subject = KafkaCluster(
            SubjectSettings("kafka", lambda: targets, SystemClock(), TIMEOUT_S, options)
        )
        for number in range(checks // 2 + 1):
            wall, own = time.perf_counter(), time.process_time()
            seen = await subject.observe()
            took = time.perf_counter() - wall, time.process_time() - own
            if number:  # the first one imports and reads settings in any case
                found.setdefault(kind, []).append(took)
        unwell |= {
            each.invariant
            for invariant in subject.invariants
            for each in invariant.check(seen)
            if each.health is not Health.HEALTHY
        }
    partitions = seen.of("cluster").readings["partitions"]
    memory_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    lines = [f"{len(ports)} brokers, {partitions} partitions, load {os.getloadavg()[0]:.0f}"]
    for kind, times in found.items():
        walls, owns = zip(*times, strict=True)
        lines.append(
            f"{kind}: median {statistics.median(walls):.2f} s, longest {max(walls):.2f} s; "
            f"of our own CPU: median {statistics.median(owns):.2f} s"
        )
    lines.append(f"{memory_mb:.0f} MB; not healthy: {', '.join(sorted(unwell)) or 'nothing'}")
    sys.stdout.write("\n".join(lines) + "\n")
    longest = max(wall for times in found.values() for wall, _ in times)
    return 0 if longest < SECONDS_MAX and not unwell else 1


def _serve(pipe: Connection, brokers: int, topics: int, partitions: int) -> None:
    async def run() -> None:
        nodes = tuple(range(1, brokers + 1))
        async with serve(World(spread(topics, partitions, nodes)), nodes) as targets:
            pipe.send({target.name: target.port for target in targets})
            await asyncio.Event().wait()

    asyncio.run(run())


if __name__ == "__main__":
    sys.exit(main())
