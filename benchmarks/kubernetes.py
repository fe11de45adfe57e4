"""What it costs to watch a large cluster.

    .venv/bin/python benchmarks/kubernetes.py [--nodes 500] [--pods 10000] [--events 50]

A stand-in in a process of its own serves lists and watches over HTTP: nodes, namespaces of ten
Deployments, their pods of about 4 kB each, services and endpoints, and so many changes of pods each
second. One Deployment in a hundred crashes. The subject observes every `--interval` seconds.

Promises for 500 nodes and 10,000 pods in steady state: under 300 MB of memory, under half a core.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import multiprocessing
import random
import resource
import sys
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import httpx2

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from operator_protocols.domain.health import Health
from operator_protocols.domain.target import Target
from operator_protocols.ports import SubjectSettings
from operator_sre.clock import SystemClock
from operator_sre.monitor import findings_of
from operator_sre.subjects.kubernetes.connection import Api, HttpApi
from operator_sre.subjects.kubernetes.subject import KubernetesCluster
from tests.subjects.kubernetes.api_server import ApiServer, fill
from tests.subjects.kubernetes.live_objects import node, pod_spec, waiting, workload

PODS_EACH, WORKLOADS_EACH = 10, 10
PADDING = 1800
MEMORY_MB_MAX, CORE_MAX = 300, 0.5


def objects(nodes: int, pods: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """A cluster of this size."""
    for index in range(nodes):
        yield "node", node(f"node-{index:04d}")
    for index in range(pods // PODS_EACH):
        namespace, app = f"team-{index // WORKLOADS_EACH:04d}", f"app-{index % WORKLOADS_EACH}"
        # Real pods have as many variables, mounts and annotations.
        spec = pod_spec(app, env=[{"name": "SETTINGS", "value": "x" * PADDING}])
        broken = index % 100 == 7
        status = {"availableReplicas": 0 if broken else PODS_EACH, "updatedReplicas": PODS_EACH}
        crash = waiting(app, "CrashLoopBackOff", exitCode=1, reason="Error") if broken else None
        yield from workload(
            app,
            replicas=PODS_EACH,
            status=status,
            pod=crash,
            spec=spec,
            place=f"node-{index % nodes:04d}",
            namespace=namespace,
        )


def serve(pipe: Connection, nodes: int, pods: int, events: float) -> None:
    """The stand-in, until the process is ended."""

    async def run() -> None:
        server = ApiServer()
        fill(server, objects(nodes, pods))
        rng = random.Random(1)
        keys = list(server.objects["pod"])
        async with server.serve() as address:
            pipe.send(address)
            while True:
                await asyncio.sleep(1 / events)
                server.put("pod", server.objects["pod"][rng.choice(keys)])

    asyncio.run(run())


async def watch(address: str, *, interval_s: float, rounds: int) -> None:
    """Observe, and print what it costs."""

    def connect(kubeconfig: str, context: str) -> Api:
        return HttpApi(httpx2.AsyncClient(base_url=address, timeout=60))

    settings = SubjectSettings(
        "large", lambda: (Target("cluster", "cluster"),), SystemClock(), 120.0, {}
    )
    subject = KubernetesCluster(settings, connect=connect)
    began, cpu = time.monotonic(), time.process_time()
    seen = await subject.observe()
    first = time.monotonic() - began
    sys.stdout.write(
        f"first observation: {first:.1f} s, {time.process_time() - cpu:.1f} s of CPU\n"
    )
    broken = [
        each for each in findings_of(subject.invariants, seen) if each.health is Health.BROKEN
    ]
    sys.stdout.write(f"{len(seen.seen)} targets, {len(broken)} broken invariants\n")
    gc.collect()
    began, cpu = time.monotonic(), time.process_time()
    costs = []
    for _ in range(rounds):
        await asyncio.sleep(interval_s)
        before = time.process_time()
        seen = await subject.observe()
        findings_of(subject.invariants, seen)
        costs.append(time.process_time() - before)
    cores = (time.process_time() - cpu) / (time.monotonic() - began)
    pages = int(Path("/proc/self/statm").read_text().split()[1])  # noqa: ASYNC240  it is over
    memory_mb = pages * resource.getpagesize() / 1e6
    sys.stdout.write(f"an observation: {sorted(costs)[len(costs) // 2]:.2f} s of CPU\n")
    sys.stdout.write(f"steady state: {cores:.2f} cores (at most {CORE_MAX})\n")
    sys.stdout.write(f"memory: {memory_mb:.0f} MB (at most {MEMORY_MB_MAX})\n")
    await subject.close()


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--events", type=float, default=50.0)
    parser.add_argument("--interval", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=6)
    given = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=serve, args=(theirs, given.nodes, given.pods, given.events))
    process.start()
    try:
        asyncio.run(watch(ours.recv(), interval_s=given.interval, rounds=given.rounds))
    finally:
        process.kill()
        process.join()


if __name__ == "__main__":
    main()
