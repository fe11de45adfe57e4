"""For watchers: is this node well, and what has it done?"""

import time
from dataclasses import dataclass
from typing import Literal

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST

from operator_ratelimiter.node import CurrentNode, Node
from operator_ratelimiter.store import StoreError

__all__ = ["router"]

router = APIRouter()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeHealth:
    """This node about itself; it answers, so it is up, whatever its store does."""

    name: str
    status: Literal["up"]
    store_connected: bool
    store_error: str | None
    uptime_s: float
    p99_check_ms: float | None


@router.get("/health")
async def health(node: CurrentNode) -> NodeHealth:
    """This node's state, with a fresh look at the store that is bounded in time."""
    connected = await node.store.ping()
    p99_s = node.latency.quantile_s(0.99)
    return NodeHealth(
        name=node.settings.name,
        status="up",
        store_connected=connected,
        store_error=node.store.error,
        uptime_s=round(time.monotonic() - node.started_s, 3),
        p99_check_ms=None if p99_s is None else round(p99_s * 1000, 3),
    )


@router.get("/metrics")
async def metrics(node: CurrentNode) -> Response:
    """This node's metrics in the Prometheus text format."""
    active_counters = await _count_counters(node)
    text = node.metrics.render(node_up=node.store.connected, active_counters=active_counters)
    return Response(text, media_type=CONTENT_TYPE_LATEST)


async def _count_counters(node: Node) -> int | None:
    try:
        return await node.counters.count()
    except StoreError:
        return None
