"""For managers: this node alone, its drain and its configuration."""

import logging
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from operator_ratelimiter.configuration import change
from operator_ratelimiter.node import CurrentNode, Node
from operator_ratelimiter.settings import KEY_PREFIX_PATTERN, LIMIT_MAX, SECONDS_MAX, OnStoreLoss
from operator_ratelimiter.store import StoreError

__all__ = ["router"]

log = logging.getLogger(__name__)
router = APIRouter()


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
