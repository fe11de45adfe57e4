"""Serves MCP until stopped: on stdin and stdout of this process, or over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import msgspec

from operator_protocols.domain.token import Audience
from operator_protocols.errors import MissingExtraError
from operator_sre.app.tokens import Refusals
from operator_sre.contract.messages import SCHEMA_VERSION
from operator_sre.faces.servers.admission import (
    Admission,
    Refusal,
    TokenDesk,
    is_ours,
    names_of,
)
from operator_sre.faces.servers.server import bind_socket, bounded_server, serve_home

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from operator_sre.app.listeners import Listener
    from operator_sre.app.wiring import App
    from operator_sre.faces.mcp.server import Desk
    from operator_sre.faces.servers.admission import Admitted

__all__ = ["PATH", "Lines", "McpFace", "serve_http", "serve_pipe"]

PATH = "/mcp"
log = logging.getLogger("operator_sre.mcp")
_HARDENING = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))


@dataclass(frozen=True, slots=True)
class McpFace:
    """Callers of MCP have a token of their own, and are no pages of other sites."""

    desk: TokenDesk
    hosts: frozenset[str]
    log: logging.Logger = log
    hardening: Sequence[tuple[bytes, bytes]] = _HARDENING
    names_secrets: bool = True

    def admit(self, scope: Scope, headers: Mapping[str, str], source: str) -> Admitted:
        """The token of the request."""
        # A page of another site can make a browser send requests here.
        origin = headers.get("origin", "")
        site = origin.partition("://")[2].partition("/")[0]
        if origin and not is_ours(site, self.hosts):
            return Refusal(403, f"Origin {origin[:200]!r} is not allowed.", "origin")
        if scope["path"] != PATH:
            return Refusal(404, f"Not found. The MCP endpoint is {PATH}.", "path")
        return self.desk.admit(headers.get("authorization", ""), source)

    def answer(self, scope: Scope, refusal: Refusal) -> ASGIApp:
        """An error of the protocol."""
        error = {"code": -32600, "message": refusal.message}
        body = msgspec.json.encode(
            {"jsonrpc": "2.0", "id": None, "error": error, "schema_version": SCHEMA_VERSION}
        )
        headers = [(b"content-type", b"application/json")]
        headers.append((b"content-length", str(len(body)).encode()))
        if refusal.status == 401:
            headers.append((b"www-authenticate", b"Bearer"))
        if refusal.wait_s:
            headers.append((b"retry-after", str(refusal.wait_s).encode()))

        async def respond(scope: Scope, receive: Receive, send: Send) -> None:
            start = {"type": "http.response.start", "status": refusal.status, "headers": headers}
            await send(start)
            await send({"type": "http.response.body", "body": body})

        return respond

    def note(self, scope: Scope, status: int, took_s: float) -> bool:
        """Log every request."""
        return True


LINE_BYTES_MAX = 4_000_000
BODY_BYTES_MAX = 1_000_000
CONNECTIONS_MAX = 128
SESSIONS_MAX = 200
SESSION_IDLE_S = 1800.0
STDIN = 0
LINES_MAX = 16
CHUNK_BYTES = 65_536
TOO_LONG = "too long"


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines of a pipe; an endless one costs no more memory than a long one, and is no message."""

    pipe: int

    async def __aiter__(self) -> AsyncIterator[str]:
        """Lines until the end. Stopping before that leaves a thread behind, which is not awaited.

        Reading a pipe cannot be broken off, and Python waits at its end for every other thread.
        """
        loop, slots = asyncio.get_running_loop(), threading.Semaphore(LINES_MAX)
        queue: asyncio.Queue[str | None] = asyncio.Queue()

        def read() -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                for line in self._lines():
                    slots.acquire()
                    loop.call_soon_threadsafe(queue.put_nowait, line)
                loop.call_soon_threadsafe(queue.put_nowait, None)

        threading.Thread(target=read, daemon=True).start()
        while (line := await queue.get()) is not None:
            slots.release()
            yield line

    def _lines(self) -> Iterator[str]:
        rest, lost = b"", False
        while data := os.read(self.pipe, CHUNK_BYTES):
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                yield TOO_LONG if lost else line.decode("utf-8", "replace")
                lost = False
            if len(rest) > LINE_BYTES_MAX:
                rest, lost = b"", True
        if rest and not lost:
            yield rest.decode("utf-8", "replace")


async def serve_pipe(home: App) -> None:
    """Serve on stdin and stdout until the client closes them. Nothing else writes to stdout."""
    desk = _desk(home)
    from mcp.server.stdio import stdio_server

    from operator_sre.faces.mcp.server import server_of

    server = server_of(desk)
    lines: Any = Lines(os.dup(STDIN))
    async with stdio_server(stdin=lines) as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


async def serve_http(home: App, listener: Listener, *, ready: Callable[[str], None]) -> None:
    """Serve HTTP until cancelled; `ready` gets the URL."""
    desk = _desk(home)
    with bind_socket(listener) as place:
        # What holds the connections.
        from mcp.server.transport_security import TransportSecuritySettings

        from operator_sre.faces.mcp.server import server_of

        inner = server_of(desk).streamable_http_app(
            streamable_http_path=PATH,
            json_response=True,
            max_request_body_size=BODY_BYTES_MAX,
            session_idle_timeout=SESSION_IDLE_S,
            max_sessions=SESSIONS_MAX,
            # Admission checks the Host header, because it knows all names of this server.
            transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        )
        hosts = names_of((listener.bind, *listener.hosts))
        tokens = TokenDesk.of(desk.home, Audience.MCP, rate=listener.rate)
        app = Admission(cast("Any", inner), McpFace(tokens, hosts), desk.refusals, hosts)
        server = bounded_server(app, listener, connections_max=CONNECTIONS_MAX, lifespan="on")
        await serve_home(
            home, listener, place, server, refusals=(desk.refusals,), ready=ready, path=PATH
        )


def _desk(home: App) -> Desk:
    """The desk, imported without garbage collection: the objects of the library all stay."""
    gc.disable()
    try:
        from operator_sre.faces.mcp.server import Desk
    except ImportError as error:
        raise MissingExtraError("mcp", needed_for="The MCP server") from error
    finally:
        gc.freeze()
        gc.enable()
    # The library logs every message, and messages may hold secrets.
    logging.getLogger("mcp").setLevel(logging.WARNING)
    return Desk(home, Refusals(home))
