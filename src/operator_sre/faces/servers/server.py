"""Runs a server until stopped: an address, TLS, bounded connections, one clear error."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypedDict

from operator_protocols.errors import OperatorError, UsageError
from operator_sre.app.tokens import record_listener

if TYPE_CHECKING:
    from operator_sre.app.listeners import Listener
    from operator_sre.app.tokens import Refusals
    from operator_sre.app.wiring import App
    from operator_sre.faces.servers.connections import BoundedServer

__all__ = ["address_of", "bind_socket", "bounded_server", "follow", "serve_home", "work"]

BACKLOG = 128
KEEP_ALIVE_S = 5
SHUTDOWN_S_MAX = 5


class Follower(Protocol):
    """A follower of the ledger that feeds the streams of a server."""

    async def run(self) -> None: ...

    def close(self) -> None: ...


class _Tls(TypedDict, total=False):
    ssl_certfile: str
    ssl_keyfile: str


def bind_socket(listener: Listener, *, options: str = "--bind or --port") -> socket.socket:
    """A listening socket; `options` say in errors how to choose another address."""
    host = listener.bind.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, listener.port), family=family, backlog=BACKLOG)
    except OSError as error:
        why = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
        raise OperatorError(
            f"{host}:{listener.port} cannot be listened on: {why}.",
            next_step=f"Choose another one with {options}.",
        ) from error


def address_of(place: socket.socket) -> str:
    """Where it listens, as it stands in a URL."""
    host, port = place.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def bounded_server(
    application: Any,
    listener: Listener,
    *,
    connections_max: int,
    lifespan: Literal["on", "off"] = "off",
) -> BoundedServer:
    """What holds the connections of an application. ImportError where its extra is missing."""
    import uvicorn

    from operator_sre.faces.servers.connections import BoundedProtocol, BoundedServer

    tls: _Tls = {}
    if listener.tls:
        certificate, key = str(listener.tls_cert), str(listener.tls_key)
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
        except (OSError, ssl.SSLError) as error:
            raise UsageError(
                f"The certificate and its key cannot be used: {error}.",
                next_step="Name a certificate and its private key, in PEM.",
            ) from error
        tls = {"ssl_certfile": certificate, "ssl_keyfile": key}
    settings = uvicorn.Config(
        application,
        http=BoundedProtocol,
        log_config=None,
        access_log=False,
        lifespan=lifespan,
        ws="none",
        server_header=False,
        proxy_headers=False,
        limit_concurrency=connections_max,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=SHUTDOWN_S_MAX,
        **tls,
    )
    return BoundedServer(settings)


async def work(
    server: BoundedServer,
    place: socket.socket,
    *beside: Coroutine[Any, Any, None],
    ready: Callable[[], None],
) -> None:
    """Serve, and run the other work beside it, until cancelled or until any of them ends."""
    serving = asyncio.ensure_future(server.serve(sockets=[place]))
    others = [asyncio.ensure_future(work) for work in beside]
    start = asyncio.ensure_future(server.begun.wait())
    every: list[asyncio.Future[Any]] = [serving, *others]
    first: list[asyncio.Future[Any]] = [start, *every]
    try:
        await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
        if start.done():
            ready()
        # Not awaited themselves: a cancellation must not break serving off, but let it end.
        done, _ = await asyncio.wait(every, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        server.should_exit = True
        for task in (start, *others):
            task.cancel()
        await asyncio.gather(*every, return_exceptions=True)


async def follow(follower: Follower) -> None:
    """Run a follower beside a server. Streams have no end of their own, so it ends them."""
    try:
        await follower.run()
    finally:
        follower.close()


async def serve_home(
    home: App,
    listener: Listener,
    place: socket.socket,
    server: BoundedServer,
    *,
    refusals: Sequence[Refusals],
    ready: Callable[[str], None],
    followers: Sequence[Follower] = (),
    path: str = "",
) -> None:
    """Record the address, serve until cancelled, and record the refusals that were counted.

    `ready` receives the URL.
    """
    address = address_of(place)
    url = f"{listener.scheme}://{address}{path}"
    await record_listener(home, address=address, tls=listener.tls, public=listener.public)
    beside = (follow(follower) for follower in followers)
    try:
        await work(server, place, *beside, ready=lambda: ready(url))
    finally:
        for counted in refusals:
            await counted.flush()
