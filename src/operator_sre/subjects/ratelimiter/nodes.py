"""A node, over HTTP: its health, configuration and tally, and the requests that change it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from operator_protocols.domain.observation import Seen, Value
from operator_protocols.domain.target import Access, Target
from operator_protocols.errors import ObservationError, OperatorError
from operator_protocols.kit.access import Address, addresses_of, authorize, sentence_of, trust_for
from operator_protocols.kit.http import Answer, Request, UnaskableError, exchange

__all__ = ["KeyTally", "NodeReport", "TalkError", "api", "in_path", "observe_node", "unreachable"]

BODY_BYTES_MAX = 256 * 1024
ANSWER_S_MAX = 5.0
DETAIL_CHARS_MAX = 300
TALLY_KEYS_MAX = 200
TEXT_CHARS_MAX = 300
READINGS = (
    *("status", "store_connected", "store_error", "store_address", "store_moves", "degraded"),
    *("draining", "p99_check_ms", "p99_sustained_ms", "uptime_s", "process", "version"),
    *("default_limit", "window_s", "key_prefix", "on_store_loss"),
)
# What a node says of its trouble with its store, and what kind of trouble that is.
STORE_PROBLEMS = (
    ("authentication", ("authentication", "wrongpass", "noauth", "password")),
    ("silence", ("no answer within", "timeout", "timed out")),
    ("refusal", ("connection", "refused", "reset")),
)

Secret = Callable[[str], str]


class TalkError(OperatorError):
    """A node or a store did not do what it was asked; the message says who and why."""


@dataclass(frozen=True, slots=True)
class KeyTally:
    """What one node says of one key within its window."""

    requests: int
    allowed: int
    uncounted: int
    limit: int | None


@dataclass(frozen=True, slots=True)
class NodeReport:
    """One observation of one node; without a `tally` it did not report its counts."""

    seen: Seen
    name: str = ""
    tally: Mapping[str, KeyTally] | None = None
    requests: int = 0
    complete: bool = False

    @property
    def answers(self) -> bool:
        """It was reached and made sense."""
        return not self.seen.problem and self.seen.readings.get("reachable") is True

    def reading(self, name: str) -> Value:
        """One of its readings, None when it has none of that name."""
        return self.seen.readings.get(name)


async def observe_node(target: Target, *, timeout_s: float, secret: Secret) -> NodeReport:
    """Ask one node; whatever it does is a NodeReport."""
    places = addresses_of(target)
    try:
        if not places:
            raise UnaskableError("the target has no port")
        # One limit for all of it: an answer that drips would never end.
        async with asyncio.timeout(timeout_s):
            for at, address in enumerate(places):
                try:
                    async with asyncio.timeout(timeout_s / len(places)):
                        answer = await _ask_node(target, address, "/health", secret=secret)
                    break
                except OSError:
                    if at == len(places) - 1:
                        raise
            health = json.loads(answer.body) if answer.status == 200 else None
            tally = await _ask_tally(target, address, secret)
    except OSError as error:
        return NodeReport(unreachable("node", target, sentence_of(error)))
    except (OperatorError, UnaskableError) as error:
        return NodeReport(Seen(target.name, {"kind": "node"}, f"it cannot be queried: {error}"))
    except (RecursionError, ValueError):
        return NodeReport(Seen(target.name, {"kind": "node"}, "its health is not JSON"))
    return _read_health(target, answer.status, health, tally)


async def _ask_tally(target: Target, address: Address, secret: Secret) -> Any:
    """What a node says it did; None when it does not say, which is no reason to call it down."""
    try:
        path = f"/tally?limit={TALLY_KEYS_MAX}"
        answer = await _ask_node(target, address, path, secret=secret)
        return json.loads(answer.body) if answer.status == 200 else None
    except TimeoutError:
        raise
    except (OSError, RecursionError, ValueError):
        return None


async def _ask_node(
    target: Target,
    address: Address,
    path: str,
    *,
    secret: Secret,
    method: str = "GET",
    body: Mapping[str, Any] | None = None,
) -> Answer:
    """One request; OSError, UnaskableError, or OperatorError where a file cannot be used."""
    access = target.access or Access()
    headers = authorize(access, secret)
    if body is not None:
        headers["content-type"] = "application/json"
    try:
        trust = trust_for(access) if access.tls else None
    except OSError as error:
        raise ObservationError(f"the certificates cannot be read: {error}") from error
    content = b"" if body is None else json.dumps(body).encode()
    request = Request(method, path, headers, content, BODY_BYTES_MAX)
    return await exchange(address, request, trust=trust, server_name=access.server_name)


def _read_health(target: Target, status: int, health: object, tally: object) -> NodeReport:
    if status == 404:
        # Every node has this page: a server without it is another program.
        return NodeReport(unreachable("node", target, "the answer is not from a rate limiter node"))
    if not isinstance(health, dict):
        return NodeReport(Seen(target.name, {"kind": "node"}, f"it answered {status}"))
    if not isinstance(health.get("status"), str) or not isinstance(
        health.get("store_connected"), bool
    ):
        problem = "its health has no status"
        return NodeReport(Seen(target.name, {"kind": "node"}, problem))
    readings: dict[str, Value] = {"kind": "node", "reachable": True}
    for name in READINGS:
        value = health.get(name)
        if name in health and isinstance(value, bool | int | float | str | None):
            readings[name] = value[:TEXT_CHARS_MAX] if isinstance(value, str) else value
    error = str(readings.get("store_error") or "").lower()
    kinds = (kind for kind, signs in STORE_PROBLEMS if any(sign in error for sign in signs))
    readings["store_problem"] = next(kinds, "other" if error else "")
    seen = Seen(target.name, readings)
    keys = _read_tally(tally)
    name = str(health.get("name", target.name))[:TEXT_CHARS_MAX]
    if keys is None or not isinstance(tally, dict):
        return NodeReport(seen, name)
    requests = tally.get("asked")
    complete = tally.get("complete") is True
    return NodeReport(seen, name, keys, requests if isinstance(requests, int) else 0, complete)


def _read_tally(tally: object) -> dict[str, KeyTally] | None:
    rows = tally.get("keys") if isinstance(tally, dict) else None
    if not isinstance(rows, list):
        return None
    found: dict[str, KeyTally] = {}
    for row in rows[:TALLY_KEYS_MAX]:
        if not isinstance(row, dict) or not isinstance(row.get("key"), str):
            return None
        requests, allowed, uncounted = (row.get(name) for name in ("asked", "allowed", "uncounted"))
        limit = row.get("limit")
        if not isinstance(requests, int) or not isinstance(allowed, int):
            return None
        if not isinstance(uncounted, int) or not isinstance(limit, int | None):
            return None
        found[row["key"]] = KeyTally(requests, allowed, uncounted, limit)
    return found


def unreachable(kind: str, target: Target, error: str) -> Seen:
    """A target that does not answer, and why."""
    where = f"{target.host}:{target.port}"
    return Seen(target.name, {"kind": kind, "reachable": False, "error": f"{where}: {error}"})


async def api(
    target: Target,
    method: str,
    path: str,
    *,
    secret: Secret,
    body: Mapping[str, Any] | None = None,
    timeout_s: float = ANSWER_S_MAX,
) -> dict[str, Any]:
    """The JSON answer of a node to one request; TalkError when there is none."""
    places = addresses_of(target)
    if not places:
        raise TalkError(f"{target.name} has no port.")
    try:
        async with asyncio.timeout(timeout_s):
            answer = await _ask_node(
                target, places[0], path, secret=secret, method=method, body=body
            )
        document = json.loads(answer.body)
    except TimeoutError as error:
        raise TalkError(f"{target.name} does not answer within {timeout_s:g} s.") from error
    except (OSError, UnaskableError) as error:
        raise TalkError(f"{target.name} does not answer: {sentence_of(error)}.") from error
    except (RecursionError, ValueError) as error:
        raise TalkError(f"{target.name} returned an invalid answer to {method} {path}.") from error
    if answer.status != 200 or not isinstance(document, dict):
        detail = document.get("detail", document) if isinstance(document, dict) else document
        text = detail if isinstance(detail, str) else json.dumps(detail)
        raise TalkError(f"{target.name} answered {answer.status}: {text[:DETAIL_CHARS_MAX]}")
    return document


def in_path(key: str) -> str:
    """A key as part of a path."""
    return quote(key, safe="")
