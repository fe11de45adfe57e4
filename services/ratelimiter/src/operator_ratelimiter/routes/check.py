"""For callers: may this request pass?"""

import math
import time
from typing import Annotated

from fastapi import APIRouter
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from operator_ratelimiter.keys import Decision
from operator_ratelimiter.metrics import CheckResult
from operator_ratelimiter.node import CurrentNode
from operator_ratelimiter.settings import KEY_CHARS_MAX, OnStoreLoss
from operator_ratelimiter.store import StoreError

__all__ = ["router"]

router = APIRouter()


class CheckBody(BaseModel):
    """What a caller may say: the key and nothing else, least of all a limit."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    key: Annotated[str, Field(min_length=1, max_length=KEY_CHARS_MAX)]


@router.post("/check")
async def check(body: CheckBody, node: CurrentNode) -> JSONResponse:
    """Decide one request: 200 when allowed, 429 when not, by the loss mode without a store."""
    if node.registry.draining is not None:
        node.metrics.count_turned_away()
        return refuse_drained(node.settings.name)
    started_s = time.perf_counter()
    result: CheckResult
    try:
        decision = await node.window.check(body.key)
    except StoreError:
        on_store_loss = node.settings.on_store_loss
        result, answer = "error", answer_without_store(on_store_loss)
        allowed = on_store_loss is OnStoreLoss.FAIL_OPEN
        node.tally.add(body.key, allowed=allowed, limit=None)
        node.metrics.count_undecided(allowed=allowed)
    else:
        result, answer = "allowed" if decision.allowed else "denied", answer_decision(decision)
        node.tally.add(body.key, allowed=decision.allowed, limit=decision.limit)
    duration_s = time.perf_counter() - started_s
    node.metrics.count_check(result, duration_s)
    node.latency.add(duration_s)
    return answer


def answer_decision(decision: Decision) -> JSONResponse:
    """The answer to a request that the store decided."""
    reset_s = max(1, math.ceil(decision.reset_s))
    headers = {
        "X-RateLimit-Limit": str(decision.limit),
        "X-RateLimit-Remaining": str(decision.remaining),
        "X-RateLimit-Reset": str(reset_s),
    }
    if decision.blocked:
        headers["X-RateLimit-Blocked"] = "1"
    if not decision.allowed:
        headers["Retry-After"] = str(reset_s)
    body = {
        "allowed": decision.allowed,
        "limit": decision.limit,
        "remaining": decision.remaining,
        "reset_s": decision.reset_s,
    }
    return JSONResponse(body, 200 if decision.allowed else 429, headers)


def answer_without_store(on_store_loss: OnStoreLoss) -> JSONResponse:
    """The answer while the store does not decide; unknown numbers are null."""
    allowed = on_store_loss is OnStoreLoss.FAIL_OPEN
    headers = {"X-RateLimit-Degraded": "1"}
    if not allowed:
        headers["Retry-After"] = "1"
    body = {"allowed": allowed, "limit": None, "remaining": None, "reset_s": None}
    return JSONResponse(body, 200 if allowed else 503, headers)


def refuse_drained(name: str) -> JSONResponse:
    """The answer of a node that is drained: another one will serve."""
    detail = f"node {name!r} is drained; ask another one"
    return JSONResponse({"detail": detail}, 503, {"Retry-After": "1"})
