"""One node: the parts that a request may need, put together once."""

import time
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from operator_ratelimiter.blocks import Blocks
from operator_ratelimiter.counters import Counters
from operator_ratelimiter.latency import RecentLatency
from operator_ratelimiter.limits import Limits
from operator_ratelimiter.metrics import Metrics
from operator_ratelimiter.registry import Registry
from operator_ratelimiter.settings import Settings
from operator_ratelimiter.store import Store
from operator_ratelimiter.window import Window

__all__ = ["CurrentNode", "Node", "build_node"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """The parts of one node."""

    settings: Settings
    started_s: float
    store: Store
    window: Window
    limits: Limits
    blocks: Blocks
    counters: Counters
    registry: Registry
    metrics: Metrics
    latency: RecentLatency


def build_node(settings: Settings) -> Node:
    """Put a node together; nothing is connected yet."""
    store = Store(settings)
    limits = Limits(settings, store)
    blocks = Blocks(settings, store)
    return Node(
        settings=settings,
        started_s=time.monotonic(),
        store=store,
        window=Window(settings, store),
        limits=limits,
        blocks=blocks,
        counters=Counters(settings, store, limits, blocks),
        registry=Registry(settings, store),
        metrics=Metrics(),
        latency=RecentLatency(),
    )


async def _current_node(request: Request) -> Node:
    node: Node = request.app.state.node
    return node


CurrentNode = Annotated[Node, Depends(_current_node)]
