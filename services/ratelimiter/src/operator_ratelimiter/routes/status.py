"""For monitors: the health of this node, and its work so far."""

import time
from dataclasses import dataclass
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Response
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import Field

from operator_ratelimiter import __version__
from operator_ratelimiter.node import CurrentNode
from operator_ratelimiter.store import StoreError
from operator_ratelimiter.tally import KeyTally

__all__ = ["router"]

router = APIRouter()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeHealth:
    """This node about itself; it answers, so it is up, whatever its store does.

    `process` is what its members in the windows are marked with. `draining` is why it takes no
    checks, None when it does. `degraded` says that checks are answered without the store. The
    latency is that of the last minute; the sustained one is high only while it stays high.
    """

    name: str
    status: Literal["up", "draining"]
    process: str
    version: str
    store_connected: bool
    store_error: str | None
    store_address: str
    store_moves: int
    degraded: bool
    draining: str | None
    uptime_s: float
    p99_check_ms: float | None
    p99_sustained_ms: float | None
    default_limit: int
    window_s: float
    key_prefix: str
    on_store_loss: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTally:
    """The requests of this node, by its own memory; `complete` when it remembers all of them."""

    name: str
    process: str
    window_s: float
    requests: Annotated[int, Field(serialization_alias="asked")]
    complete: bool
    keys: list[KeyTally]


@router.get("/health")
async def health(node: CurrentNode) -> NodeHealth:
    """This node's state, with a fresh check of the store that is bounded in time."""
    connected = await node.store.ping()
    settings, draining = node.settings, node.registry.draining
    return NodeHealth(
        name=settings.name,
        status="up" if draining is None else "draining",
        process=node.window.process,
        version=__version__,
        store_connected=connected,
        store_error=node.store.error,
        store_address=node.store.address,
        store_moves=node.store.moves,
        degraded=node.store.degraded,
        draining=draining,
        uptime_s=round(time.monotonic() - node.started_s, 3),
        p99_check_ms=_milliseconds(node.latency.quantile_s(0.99)),
        p99_sustained_ms=_milliseconds(node.latency.sustained_s(0.99)),
        default_limit=settings.default_limit,
        window_s=settings.window_s,
        key_prefix=settings.key_prefix,
        on_store_loss=settings.on_store_loss.value,
    )


@router.get("/tally")
async def tally(
    node: CurrentNode, items_max: Annotated[int, Query(alias="limit", ge=1, le=1000)] = 100
) -> NodeTally:
    """The busiest keys of this node within the window; needs no store."""
    found = node.tally.listing(items_max=items_max)
    requests = node.tally.count_requests()
    return NodeTally(
        name=node.settings.name,
        process=node.window.process,
        window_s=node.settings.window_s,
        requests=requests,
        complete=not node.tally.dropped and sum(each.requests for each in found) == requests,
        keys=found,
    )


@router.get("/metrics")
async def metrics(node: CurrentNode) -> Response:
    """This node's metrics in the Prometheus text format."""
    try:
        active_counters = await node.counters.count()
    except StoreError:
        active_counters = None
    text = node.metrics.render(
        node_up=node.store.connected,
        active_counters=active_counters,
        degraded=node.store.degraded,
        draining=node.registry.draining is not None,
        moves=node.store.moves,
    )
    return Response(text, media_type=CONTENT_TYPE_LATEST)


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 3)
