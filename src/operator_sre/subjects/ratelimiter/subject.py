"""Looking at a rate limiter: every node by its management API, the store directly."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Sequence

import httpx2

from operator_protocols.domain.observation import Observation, Seen, Value
from operator_protocols.domain.target import Target
from operator_protocols.errors import ObservationError
from operator_protocols.ports import Invariant, SubjectSettings
from operator_sre.subjects.ratelimiter.invariants import INVARIANTS

__all__ = ["RateLimiter"]

BODY_BYTES_MAX = 64 * 1024
# Nodes speak plain HTTP. Loading the machine's certificate authorities, which a client does for
# itself otherwise, would cost more than the whole look; with none of them all TLS is refused.
NO_AUTHORITIES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
READINGS = ("status", "store_connected", "store_error", "p99_check_ms", "uptime_s")


class RateLimiter:
    """Nodes of kind `node`, which answer HTTP, and their store of kind `store`."""

    def __init__(self, settings: SubjectSettings) -> None:
        self._settings = settings
        self.name = settings.name
        self.invariants: Sequence[Invariant] = INVARIANTS

    def targets(self) -> Sequence[Target]:
        """Its parts as they are now."""
        return self._settings.targets()

    async def observe(self) -> Observation:
        """Look once. ObservationError when there is nothing to look at."""
        targets = self.targets()
        if not targets:
            raise ObservationError(f"{self.name!r} has no targets to look at.")
        nodes = [target for target in targets if target.kind == "node"]
        stores = [target for target in targets if target.kind == "store"]
        timeout_s = self._settings.timeout_s
        async with httpx2.AsyncClient(
            timeout=timeout_s, trust_env=False, verify=NO_AUTHORITIES
        ) as client:
            seen = await asyncio.gather(
                *(_node(client, target, self._settings.timeout_s) for target in nodes)
            )
        # The store last: if a node had lost it, it is seen lost here too, in the same look.
        seen += await asyncio.gather(
            *(_store(target, self._settings.timeout_s) for target in stores)
        )
        strange = [target for target in targets if target.kind not in ("node", "store")]
        seen += [Seen(one.name, problem=f"its kind {one.kind!r} is not known") for one in strange]
        return Observation(self.name, self._settings.clock.now(), tuple(seen))


async def _node(client: httpx2.AsyncClient, target: Target, timeout_s: float) -> Seen:
    readings: dict[str, Value] = {"kind": "node", "reachable": True}
    try:
        # The client limits each read only; an answer that drips would never end.
        async with asyncio.timeout(timeout_s):
            status, body = await _get(client, f"http://{target.host}:{target.port}/health")
        said = json.loads(body) if status == 200 else None
    except (TimeoutError, httpx2.TimeoutException):
        return _unreachable("node", target, "it does not answer in time")
    except httpx2.TransportError as error:
        return _unreachable("node", target, _sentence(error))
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        return Seen(target.name, {"kind": "node"}, f"it cannot be asked: {error}")
    except (RecursionError, ValueError):
        return Seen(target.name, {"kind": "node"}, "its health is not JSON")
    if not isinstance(said, dict):
        return Seen(target.name, {"kind": "node"}, f"it answered {status}")
    if not isinstance(said.get("status"), str) or not isinstance(said.get("store_connected"), bool):
        return Seen(target.name, {"kind": "node"}, "its health says nothing of its status")
    for name in READINGS:
        if name in said and isinstance(said[name], bool | int | float | str | None):
            readings[name] = said[name]
    return Seen(target.name, readings)


async def _get(client: httpx2.AsyncClient, url: str) -> tuple[int, bytes]:
    """The status and the body, of which no more is read than a health can be long."""
    body = b""
    async with client.stream("GET", url) as answer:
        async for part in answer.aiter_bytes():
            body += part
            if len(body) > BODY_BYTES_MAX:
                break
    return answer.status_code, body[:BODY_BYTES_MAX]


async def _store(target: Target, timeout_s: float) -> Seen:
    try:
        async with asyncio.timeout(timeout_s):
            reader, writer = await asyncio.open_connection(target.host, target.port)
            try:
                writer.write(b"PING\r\n")
                said = await reader.read(100)
            finally:
                writer.close()
    except TimeoutError:
        return _unreachable("store", target, "it does not answer in time")
    except OSError as error:
        return _unreachable("store", target, _sentence(error))
    if said.startswith((b"+PONG", b"-NOAUTH", b"-LOADING")):
        return Seen(target.name, {"kind": "store", "reachable": True})
    return Seen(target.name, {"kind": "store"}, f"it answered {said[:40]!r} to PING")


def _unreachable(kind: str, target: Target, error: str) -> Seen:
    where = f"{target.host}:{target.port}"
    return Seen(target.name, {"kind": kind, "reachable": False, "error": f"{where}: {error}"})


def _sentence(error: Exception) -> str:
    text = str(error).lower()
    refused = isinstance(error, ConnectionRefusedError) or "all connection attempts" in text
    return "connection refused" if refused or "refused" in text else (text or "connection lost")
