"""For managers: what all nodes share in the store, and the drain and configuration of this node."""

import logging
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, ConfigDict, Field

from operator_ratelimiter.keys import Block, Counter, Limit
from operator_ratelimiter.node import CurrentNode, Node
from operator_ratelimiter.registry import NodeRecord
from operator_ratelimiter.settings import (
    KEY_CHARS_MAX,
    KEY_PREFIX_PATTERN,
    LIMIT_MAX,
    SECONDS_MAX,
    OnStoreLoss,
    change,
)
from operator_ratelimiter.store import StoreError

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


class DrainBody(BaseModel):
    """Why a node shall take no checks."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    reason: Annotated[str, Field(max_length=256)] = ""


class ConfigBody(BaseModel):
    """What shall be different; what is left out stays."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    default_limit: Annotated[int, Field(strict=True, ge=0, le=LIMIT_MAX)] | None = None
    window_s: Annotated[float, Field(ge=0.001, le=SECONDS_MAX, allow_inf_nan=False)] | None = None
    key_prefix: Annotated[str, Field(pattern=KEY_PREFIX_PATTERN)] | None = None
    on_store_loss: OnStoreLoss | None = None


@dataclass(frozen=True, slots=True)
class Drain:
    """Whether a node takes no checks, and why."""

    name: str
    draining: bool
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """What of a node can be changed while it runs; `kept` when it also holds after a restart."""

    name: str
    default_limit: int
    window_s: float
    key_prefix: str
    on_store_loss: str
    kept: bool


@router.get("/drain")
async def get_drain(node: CurrentNode) -> Drain:
    """Whether this node is drained."""
    return _drain(node)


@router.put("/drain")
async def put_drain(node: CurrentNode, body: DrainBody | None = None) -> Drain:
    """Take no more checks; everything else is still answered."""
    return await _set_drain(node, body.reason if body else "")


@router.delete("/drain")
async def delete_drain(node: CurrentNode) -> Drain:
    """Take checks again."""
    return await _set_drain(node, None)


@router.get("/config")
async def get_config(node: CurrentNode) -> Configuration:
    """What holds now."""
    return _configuration(node)


@router.put("/config")
async def put_config(body: ConfigBody, node: CurrentNode) -> Configuration:
    """Change what is named, at once and for good where the node has a configuration file."""
    wanted = body.model_dump(exclude_none=True)
    before = node.settings
    node.live.settings = change(before, wanted)
    if node.settings.window_s != before.window_s:
        node.tally.clear()
    log.warning("configuration changed: %s", ", ".join(sorted(wanted)) or "nothing")
    return _configuration(node)


async def _set_drain(node: Node, reason: str | None) -> Drain:
    node.registry.draining = reason
    log.info("node %r is %s", node.settings.name, "open" if reason is None else "drained")
    try:
        await node.registry.beat()
    except StoreError as error:
        log.warning("the registry will hear of it later: %s", error)
    return _drain(node)


def _drain(node: Node) -> Drain:
    reason = node.registry.draining
    return Drain(node.settings.name, reason is not None, reason)


def _configuration(node: Node) -> Configuration:
    settings = node.settings
    return Configuration(
        name=settings.name,
        default_limit=settings.default_limit,
        window_s=settings.window_s,
        key_prefix=settings.key_prefix,
        on_store_loss=settings.on_store_loss.value,
        kept=settings.config_file is not None,
    )
