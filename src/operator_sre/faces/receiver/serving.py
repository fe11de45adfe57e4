"""Serving the receiver by itself, until somebody says stop."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterator

from operator_protocols.errors import MissingExtraError, OperatorError, UsageError
from operator_sre.app.alerts import Receiver
from operator_sre.faces.receiver.application import application

__all__ = ["address_of", "serve"]

CONNECTIONS_MAX = 256
KEEP_ALIVE_S = 5
SHUTDOWN_S_MAX = 5


def address_of(text: str) -> tuple[str, int]:
    """The host and the port of `127.0.0.1:9094` or `[::1]:9094`."""
    host, _, port = text.rpartition(":")
    if not host or not (port.isascii() and port.isdigit() and int(port) < 65536):
        raise UsageError(f"{text!r} is not an address.", next_step="Write it as 127.0.0.1:9094.")
    return host.strip("[]"), int(port)


async def serve(receiver: Receiver, listen: str, *, ready: Callable[[str], None]) -> None:
    """Take notifications until cancelled; `ready` is told where."""
    host, port = address_of(listen)
    receiver.check(host)
    door = application(receiver)
    try:
        import uvicorn
    except ImportError as error:
        raise MissingExtraError("alerts", needed_for="Receiving alerts") from error

    class Server(uvicorn.Server):
        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield  # whoever runs us hears them

    settings = uvicorn.Config(
        door,
        log_config=None,
        access_log=False,
        lifespan="off",
        ws="none",
        server_header=False,
        limit_concurrency=CONNECTIONS_MAX,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=SHUTDOWN_S_MAX,
    )
    with _bound(host, port) as place:
        server = Server(settings)
        serving = asyncio.ensure_future(server.serve(sockets=[place]))
        working = asyncio.ensure_future(receiver.run())
        bound = place.getsockname()
        ready(f"{bound[0]}:{bound[1]}")
        try:
            done, _ = await asyncio.wait([serving, working], return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            server.should_exit = True
            working.cancel()
            await asyncio.wait([serving, working])


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise OperatorError(
            f"{host}:{port} cannot be listened on: {error.strerror or error}.",
            next_step="Choose another address with --listen.",
        ) from error
