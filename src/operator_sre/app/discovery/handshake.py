"""One polite question to a server, in its own protocol, that tells what it is."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass

from operator_sre.app.discovery.listeners import Listener

__all__ = ["Heard", "ask"]

ANSWER_S, LISTENER_S = 1.0, 3.0
BYTES_MAX = 8192
HEALTH_PATHS = ("/health", "/healthz", "/-/healthy", "/")
_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})")
_CLUSTER = re.compile(rb'"cluster_id": *"(\d+)"')
_SERVER = re.compile(rb"\r\nserver: *([^\r\n]{1,80})", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Heard:
    """What a server answered: its protocol, and for HTTP the path with its status.

    `locked` when it wants a credential first; `cluster` is the id of the cluster it belongs to.
    """

    protocol: str
    path: str = ""
    status: int = 0
    server: str = ""
    locked: bool = False
    cluster: str = ""


async def ask(listener: Listener, protocol: str) -> Heard | None:
    """What it answered in this protocol; None where it does not speak it."""
    try:
        async with asyncio.timeout(LISTENER_S):
            return await _ask(listener, protocol)
    except (OSError, TimeoutError):
        return None


async def _ask(listener: Listener, protocol: str) -> Heard | None:
    match protocol:
        case "redis":
            answer = await _exchange(listener, b"PING\r\n")
            locked = answer.startswith((b"-NOAUTH", b"-ERR operation not permitted"))
            if locked or answer.startswith((b"+PONG", b"-LOADING", b"-DENIED", b"-MISCONF")):
                return Heard("redis", locked=locked)
        case "etcd":
            # The port for the other members answers the first question and not the second.
            version = await _get(listener, "/version")
            status = await _post(listener, "/v3/maintenance/status")
            if b"etcdserver" in version:
                cluster = _CLUSTER.search(status)
                if cluster or b" 404 " not in status[:20]:
                    return Heard("etcd", cluster=cluster[1].decode() if cluster else "")
        case "http":
            return await _find_page(listener)
    return None


async def _find_page(listener: Listener) -> Heard | None:
    """The first path of a health check that answers with success, else the front page."""
    first: Heard | None = None
    for path in HEALTH_PATHS:
        answer = await _get(listener, path)
        match = _STATUS.match(answer)
        if match is None:
            return first
        server = _SERVER.search(answer)
        name = server[1].decode("ascii", "replace") if server else ""
        first = Heard("http", path, int(match[1]), name)
        if match[1].startswith(b"2"):
            return first
    return first


async def _get(listener: Listener, path: str) -> bytes:
    head = f"GET {path} HTTP/1.1\r\nHost: {listener.place}\r\nUser-Agent: operator\r\n"
    return await _exchange(listener, f"{head}Accept: */*\r\nConnection: close\r\n\r\n".encode())


async def _post(listener: Listener, path: str) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: {listener.place}\r\nUser-Agent: operator\r\n"
    rest = "Content-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"
    return await _exchange(listener, f"{head}{rest}".encode())


async def _exchange(listener: Listener, question: bytes) -> bytes:
    async with asyncio.timeout(ANSWER_S):
        reader, writer = await asyncio.open_connection(listener.host, listener.port)
        try:
            writer.write(question)
            await writer.drain()
            return await reader.read(BYTES_MAX)
        finally:
            writer.close()
