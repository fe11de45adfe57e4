"""A subject that watches a stand-in of a small, healthy cluster."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx2

from operator_protocols.domain.health import Health
from operator_protocols.domain.observation import Observation
from operator_protocols.domain.target import Target
from operator_protocols.ports import SubjectSettings
from operator_sre.clock import SystemClock
from operator_sre.monitor import findings_of
from operator_sre.subjects.kubernetes.connection import Api, HttpApi
from operator_sre.subjects.kubernetes.subject import KubernetesCluster
from tests.subjects.kubernetes.api_server import ApiServer, fill
from tests.subjects.kubernetes.live_objects import (
    node,
    pod_spec,
    workload,
)

TIMEOUT_S = 10.0
Object = dict[str, Any]
UNSETTLED = {"availableReplicas": 0, "readyReplicas": 0, "updatedReplicas": 1}


def plugin_targets() -> tuple[Target, ...]:
    """What a configured subject is given."""
    return (Target("cluster", "cluster"),)


@asynccontextmanager
async def watching(server: ApiServer, **options: Any) -> AsyncIterator[KubernetesCluster]:
    """A subject that watches the stand-in."""
    async with server.serve() as address:

        def connect(kubeconfig: str, context: str) -> Api:
            return HttpApi(httpx2.AsyncClient(base_url=address))

        settings = SubjectSettings("c", plugin_targets, SystemClock(), TIMEOUT_S, options)
        subject = KubernetesCluster(settings, connect=connect)
        try:
            yield subject
        finally:
            await subject.close()


async def until(subject: KubernetesCluster, holds: Callable[[Observation], bool]) -> Observation:
    """Observe until something is so."""
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            seen = await subject.observe()
            if holds(seen):
                return seen
            await SystemClock().sleep(0.02)


def broken(subject: KubernetesCluster, seen: Observation) -> set[tuple[str, str]]:
    """Which invariants are broken at which targets."""
    found = findings_of(subject.invariants, seen)
    return {(each.invariant, each.target) for each in found if each.health is not Health.HEALTHY}


def blamed(seen: Observation) -> dict[str, str]:
    """The cause that is shown at each target."""
    return {
        each.target: str(each.readings["cause"]) for each in seen.seen if "cause" in each.readings
    }


def bakery() -> ApiServer:
    """A healthy cluster: two nodes and three workloads."""
    server = ApiServer()
    fill(server, [("node", node("one")), ("node", node("two"))])
    fill(server, workload("page", spec=calling("orders")))
    fill(server, workload("orders"))
    fill(server, workload("ledger"))
    return server


def calling(name: str) -> Object:
    """What a page asks for that calls this service."""
    return pod_spec("page", env=[{"name": "ORDERS_URL", "value": f"http://{name}:80"}])
