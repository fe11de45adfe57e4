"""For managers: nodes, counters, limits and blocks in the store that all nodes share."""

import logging
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, ConfigDict, Field

from operator_ratelimiter.blocks import Block
from operator_ratelimiter.counters import Counter
from operator_ratelimiter.limits import Limit
from operator_ratelimiter.node import CurrentNode
from operator_ratelimiter.registry import NodeRecord
from operator_ratelimiter.settings import KEY_CHARS_MAX, LIMIT_MAX

__all__ = ["router"]

log = logging.getLogger(__name__)
router = APIRouter()

KeyInPath = Annotated[str, Path(min_length=1, max_length=KEY_CHARS_MAX)]
ItemsMax = Annotated[int, Query(alias="limit", ge=1, le=1000)]


class LimitBody(BaseModel):
    """The limit a key shall have."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    limit: Annotated[int, Field(strict=True, ge=0, le=LIMIT_MAX)]


class BlockBody(BaseModel):
    """Why a key is blocked."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    reason: Annotated[str, Field(max_length=256)] = ""


@dataclass(frozen=True, slots=True)
class NodeList:
    """Every node ever registered, and how long one may be silent before it counts as down."""

    nodes: list[NodeRecord]
    registry_ttl_s: float


@dataclass(frozen=True, slots=True)
class CounterList:
    """Counters within the window, and whether more exist."""

    counters: tuple[Counter, ...]
    truncated: bool
    window_s: float


@dataclass(frozen=True, slots=True)
class CounterReset:
    """How many requests a key's window held before it was emptied."""

    key: str
    removed: int


@dataclass(frozen=True, slots=True)
class CountersExpired:
    """How many windows would have stayed for ever, and no longer do."""

    expired: int


@dataclass(frozen=True, slots=True)
class LimitList:
    """The keys with a limit of their own, and the limit of all others."""

    limits: tuple[Limit, ...]
    truncated: bool
    default_limit: int
    window_s: float


@dataclass(frozen=True, slots=True)
class BlockList:
    """The blocked keys."""

    blocks: tuple[Block, ...]
    truncated: bool


@router.get("/nodes")
async def list_nodes(node: CurrentNode) -> NodeList:
    """Every node ever registered; a silent one is down, not gone."""
    return NodeList(await node.registry.nodes(), node.settings.registry_ttl_s)


@router.get("/counters")
async def list_counters(node: CurrentNode, items_max: ItemsMax = 100) -> CounterList:
    """The counters that exist, at most `limit` of them."""
    found = await node.counters.listing(items_max=items_max)
    return CounterList(found.items, found.truncated, node.settings.window_s)


@router.get("/counters/{key:path}")
async def get_counter(key: KeyInPath, node: CurrentNode) -> Counter:
    """How many requests of `key` are in the window that ends now."""
    return await node.counters.get(key)


@router.delete("/counters/{key:path}")
async def reset_counter(key: KeyInPath, node: CurrentNode) -> CounterReset:
    """Empty the window of `key`."""
    removed = await node.counters.reset(key)
    log.info("counter of %r reset, %d requests removed", key, removed)
    return CounterReset(key, removed)


@router.post("/counters/expire")
async def expire_counters(node: CurrentNode, items_max: ItemsMax = 1000) -> CountersExpired:
    """Let windows that would stay for ever end after one window."""
    expired = await node.counters.expire(items_max=items_max)
    log.info("%d counters without an expiry have one now", expired)
    return CountersExpired(expired)


@router.get("/limits")
async def list_limits(node: CurrentNode, items_max: ItemsMax = 100) -> LimitList:
    """The keys with a limit of their own, at most `limit` of them."""
    found = await node.limits.listing(items_max=items_max)
    settings = node.settings
    return LimitList(found.items, found.truncated, settings.default_limit, settings.window_s)


@router.get("/limits/{key:path}")
async def get_limit(key: KeyInPath, node: CurrentNode) -> Limit:
    """The limit that holds for `key`, its own or the default."""
    return await node.limits.get(key)


@router.put("/limits/{key:path}")
async def put_limit(key: KeyInPath, body: LimitBody, node: CurrentNode) -> Limit:
    """Give `key` its own limit."""
    limit = await node.limits.put(key, body.limit)
    log.info("limit of %r set to %d", key, body.limit)
    return limit


@router.delete("/limits/{key:path}")
async def delete_limit(key: KeyInPath, node: CurrentNode) -> Limit:
    """Let the default limit hold for `key` again."""
    limit = await node.limits.delete(key)
    log.info("limit of %r removed", key)
    return limit


@router.get("/blocks")
async def list_blocks(node: CurrentNode, items_max: ItemsMax = 100) -> BlockList:
    """The blocked keys, at most `limit` of them."""
    found = await node.blocks.listing(items_max=items_max)
    return BlockList(found.items, found.truncated)


@router.put("/blocks/{key:path}")
async def put_block(key: KeyInPath, node: CurrentNode, body: BlockBody | None = None) -> Block:
    """Refuse every request to `key`."""
    block = await node.blocks.put(key, body.reason if body else "")
    log.info("%r blocked: %r", key, block.reason)
    return block


@router.delete("/blocks/{key:path}")
async def delete_block(key: KeyInPath, node: CurrentNode) -> Block:
    """Let the window decide about `key` again."""
    block = await node.blocks.delete(key)
    log.info("%r unblocked", key)
    return block
