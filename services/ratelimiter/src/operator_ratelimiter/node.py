"""One node: the parts that a request may need, put together once."""

import time
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from operator_ratelimiter.keys import Blocks, Counters, Limits, Window
from operator_ratelimiter.metrics import Metrics
from operator_ratelimiter.registry import Registry
from operator_ratelimiter.settings import Live, Settings
from operator_ratelimiter.store import Store
from operator_ratelimiter.tally import RecentLatency, Tally

__all__ = ["CurrentNode", "Node", "build_node"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """The parts of one node."""

    live: Live
    started_s: float
    store: Store
    window: Window
    limits: Limits
    blocks: Blocks
    counters: Counters
    registry: Registry
    metrics: Metrics
    latency: RecentLatency
    tally: Tally

    @property
    def settings(self) -> Settings:
        """The settings as they are now."""
        return self.live.settings


def build_node(settings: Settings) -> Node:
    """Put a node together; nothing is connected yet."""
    live = Live(settings)
    store = Store(settings)
    limits = Limits(live, store)
    blocks = Blocks(live, store)
    return Node(
        live=live,
        started_s=time.monotonic(),
        store=store,
        window=Window(live, store),
        limits=limits,
        blocks=blocks,
        counters=Counters(live, store, limits, blocks),
        registry=Registry(live, store),
        metrics=Metrics(),
        latency=RecentLatency(),
        tally=Tally(live),
    )


async def _current_node(request: Request) -> Node:
    node: Node = request.app.state.node
    return node


CurrentNode = Annotated[Node, Depends(_current_node)]
