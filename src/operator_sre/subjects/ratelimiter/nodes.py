"""Looking at a node: its health, its configuration and its own tally, over HTTP."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import httpx2

from operator_protocols.domain.observation import Seen, Value
from operator_protocols.domain.target import Access, Target
from operator_protocols.errors import OperatorError
from operator_sre.subjects.ratelimiter.resp import addresses_of
from operator_sre.transport import ClosingTransport

__all__ = [
    "KeyTally",
    "NodeLook",
    "client_for",
    "headers_of",
    "look_at_node",
    "sentence",
    "unreachable",
    "url_of",
]

BODY_BYTES_MAX = 256 * 1024
TALLY_KEYS_MAX = 200
# Nodes speak plain HTTP unless they are said to use TLS. Loading the machine's certificate
# authorities, which a client does for itself, would cost more than the whole look.
NO_AUTHORITIES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
TEXT_CHARS_MAX = 300
READINGS = (
    *("status", "store_connected", "store_error", "store_address", "store_moves", "degraded"),
    *("draining", "p99_check_ms", "p99_sustained_ms", "uptime_s", "process", "version"),
    *("default_limit", "window_s", "key_prefix", "on_store_loss"),
)


@dataclass(frozen=True, slots=True)
class KeyTally:
    """What one node says of one key within its window."""

    asked: int
    allowed: int
    uncounted: int
    limit: int | None


@dataclass(frozen=True, slots=True)
class NodeLook:
    """One look at one node; without a `tally` it said nothing of what it did."""

    seen: Seen
    name: str = ""
    tally: Mapping[str, KeyTally] | None = None
    asked: int = 0
    complete: bool = False

    @property
    def answers(self) -> bool:
        """It was reached and made sense."""
        return not self.seen.problem and self.seen.readings.get("reachable") is True

    def reading(self, name: str) -> Value:
        """One of its readings, None when it has none of that name."""
        return self.seen.readings.get(name)


async def look_at_node(
    client: httpx2.AsyncClient, target: Target, *, timeout_s: float, secret: Callable[[str], str]
) -> NodeLook:
    """Ask one node; whatever it does is a NodeLook."""
    try:
        headers = headers_of(target, secret)
        # The client limits each read only; an answer that drips would never end.
        async with asyncio.timeout(timeout_s):
            url, status, body = await _first(client, target, headers, timeout_s)
            said = json.loads(body) if status == 200 else None
            tally = await _tally(client, f"{url}/tally?limit={TALLY_KEYS_MAX}", headers)
    except (TimeoutError, httpx2.TimeoutException):
        return NodeLook(unreachable("node", target, "it does not answer in time"))
    except httpx2.TransportError as error:
        return NodeLook(unreachable("node", target, sentence(error)))
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        return NodeLook(Seen(target.name, {"kind": "node"}, f"it cannot be asked: {error}"))
    except (RecursionError, ValueError):
        return NodeLook(Seen(target.name, {"kind": "node"}, "its health is not JSON"))
    except (OperatorError, OSError) as error:
        return NodeLook(Seen(target.name, {"kind": "node"}, f"it cannot be asked: {error}"))
    return _look(target, status, said, tally)


def _look(target: Target, status: int, said: object, tally: object) -> NodeLook:
    if status == 404:
        # Every node has this page: whoever does not is somebody else.
        return NodeLook(unreachable("node", target, "something that is no node answers there"))
    if not isinstance(said, dict):
        return NodeLook(Seen(target.name, {"kind": "node"}, f"it answered {status}"))
    if not isinstance(said.get("status"), str) or not isinstance(said.get("store_connected"), bool):
        problem = "its health says nothing of its status"
        return NodeLook(Seen(target.name, {"kind": "node"}, problem))
    readings: dict[str, Value] = {"kind": "node", "reachable": True}
    for name in READINGS:
        value = said.get(name)
        if name in said and isinstance(value, bool | int | float | str | None):
            readings[name] = value[:TEXT_CHARS_MAX] if isinstance(value, str) else value
    readings["store_problem"] = _store_problem(str(readings.get("store_error") or ""))
    seen = Seen(target.name, readings)
    keys = _keys(tally)
    name = str(said.get("name", target.name))[:TEXT_CHARS_MAX]
    if keys is None or not isinstance(tally, dict):
        return NodeLook(seen, name)
    asked = tally.get("asked")
    complete = tally.get("complete") is True
    return NodeLook(seen, name, keys, asked if isinstance(asked, int) else 0, complete)


def _store_problem(error: str) -> str:
    """What kind of trouble a node has with its store, in one word."""
    text = error.lower()
    for word, signs in (
        ("authentication", ("authentication", "wrongpass", "noauth", "password")),
        ("silence", ("no answer within", "timeout", "timed out")),
        ("refusal", ("connection", "refused", "reset")),
    ):
        if any(sign in text for sign in signs):
            return word
    return "other" if text else ""


def _keys(tally: object) -> dict[str, KeyTally] | None:
    rows = tally.get("keys") if isinstance(tally, dict) else None
    if not isinstance(rows, list):
        return None
    found: dict[str, KeyTally] = {}
    for row in rows[:TALLY_KEYS_MAX]:
        if not isinstance(row, dict) or not isinstance(row.get("key"), str):
            return None
        asked, allowed, uncounted = (row.get(name) for name in ("asked", "allowed", "uncounted"))
        limit = row.get("limit")
        if not isinstance(asked, int) or not isinstance(allowed, int):
            return None
        if not isinstance(uncounted, int) or not isinstance(limit, int | None):
            return None
        found[row["key"]] = KeyTally(asked, allowed, uncounted, limit)
    return found


async def _tally(client: httpx2.AsyncClient, url: str, headers: Mapping[str, str]) -> Any:
    """What a node says it did; None when it does not say, which is no reason to call it down."""
    try:
        status, body = await _get(client, url, headers)
        return json.loads(body) if status == 200 else None
    except (httpx2.HTTPError, RecursionError, ValueError):
        return None


async def _first(
    client: httpx2.AsyncClient, target: Target, headers: Mapping[str, str], timeout_s: float
) -> tuple[str, int, bytes]:
    """The health by the first of its addresses that answers at all, and which one that is."""
    places = addresses_of(target)
    for at, (host, port) in enumerate(places):
        url = url_of(target, host, port)
        try:
            async with asyncio.timeout(timeout_s / len(places)):
                status, body = await _get(client, f"{url}/health", headers)
        except (TimeoutError, httpx2.TransportError):
            if at == len(places) - 1:
                raise
        else:
            return url, status, body
    raise ValueError("no address")


async def _get(
    client: httpx2.AsyncClient, url: str, headers: Mapping[str, str]
) -> tuple[int, bytes]:
    """The status and the body, of which no more is read than an answer can be long."""
    body = b""
    async with (
        client.stream("GET", url, headers=dict(headers)) as answer,
        aclosing(answer.aiter_bytes()) as parts,
    ):
        async for part in parts:
            body += part
            if len(body) > BODY_BYTES_MAX:
                break
    return answer.status_code, body[:BODY_BYTES_MAX]


def client_for(targets: tuple[Target, ...], timeout_s: float) -> httpx2.AsyncClient:
    """A client that trusts whom the targets say; nobody at all where none uses TLS."""
    access = next((one.access for one in targets if one.access and one.access.tls), None)
    context = NO_AUTHORITIES
    if access is not None:
        context = ssl.create_default_context(cafile=access.ca_file or None)
        if access.certificate_file:
            context.load_cert_chain(access.certificate_file, access.key_file or None)
    limits = httpx2.Limits(max_connections=100)
    # One target with several addresses gets its time for all of them together.
    return httpx2.AsyncClient(
        timeout=httpx2.Timeout(timeout_s, connect=timeout_s / 2),
        trust_env=False,
        transport=ClosingTransport(trust_env=False, verify=context, limits=limits),
    )


def url_of(target: Target, host: str, port: int | None) -> str:
    """Where its API is."""
    scheme = "https" if target.access and target.access.tls else "http"
    place = f"[{host}]" if ":" in host else host
    return f"{scheme}://{place}:{port}"


def headers_of(target: Target, secret: Callable[[str], str]) -> dict[str, str]:
    """What it wants to hear about who asks."""
    access = target.access or Access()
    if access.user:
        password = secret(access.password_file) if access.password_file else ""
        pair = base64.b64encode(f"{access.user}:{password}".encode()).decode()
        return {"Authorization": f"Basic {pair}"}
    if access.token_file:
        return {"Authorization": f"Bearer {secret(access.token_file)}"}
    return {}


def unreachable(kind: str, target: Target, error: str) -> Seen:
    """A target that does not answer, and why."""
    where = f"{target.host}:{target.port}"
    return Seen(target.name, {"kind": kind, "reachable": False, "error": f"{where}: {error}"})


def sentence(error: Exception) -> str:
    """What went wrong with a connection, in few words."""
    text = str(error).lower()
    refused = isinstance(error, ConnectionRefusedError) or "all connection attempts" in text
    return "connection refused" if refused or "refused" in text else (text or "connection lost")
