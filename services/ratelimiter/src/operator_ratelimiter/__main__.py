"""Run one node: `python -m operator_ratelimiter --name node-1 --port 8001 --store URL`."""

import errno
import signal
import socket
import sys
from collections.abc import Sequence
from dataclasses import replace
from types import FrameType

from operator_ratelimiter.arguments import parse_settings
from operator_ratelimiter.logs import configure_logging
from operator_ratelimiter.settings import Settings

__all__ = ["main"]

_LISTEN_BACKLOG = 2048


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM or SIGINT; returns 0, or exits with one sentence when it cannot start."""
    settings = parse_settings(argv)
    # Listen now: that alone decides whether the port is free, and early callers wait in line.
    try:
        found = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        family, _, _, _, address = found[0]
        listener = socket.create_server(address[:2], family=family, backlog=_LISTEN_BACKLOG)
    except OSError as error:
        where = f"port {settings.port} on {settings.host}"
        if error.errno == errno.EADDRINUSE:
            raise SystemExit(
                f"{where} is already taken: stop what listens there or choose another --port."
            ) from error
        raise SystemExit(f"cannot listen to {where}: {error.strerror or error}.") from error
    # Accepted connections inherit this; without it an answer in two segments waits 40 ms.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    configure_logging()
    _serve(replace(settings, port=listener.getsockname()[1]), listener)
    return 0


def _serve(settings: Settings, listener: socket.socket) -> None:
    # Imported late, so that a taken port is reported before half a second of imports.
    import uvicorn

    from operator_ratelimiter.app import create_app

    config = uvicorn.Config(
        create_app(settings),
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="on",
        backlog=_LISTEN_BACKLOG,
        limit_concurrency=settings.http_connections_max,
        timeout_graceful_shutdown=settings.shutdown_s,
    )
    server = uvicorn.Server(config)

    def stop(signal_number: int, frame: FrameType | None) -> None:
        server.should_exit = True

    # The server raises a caught signal again once it has stopped; without handlers of our own a
    # graceful stop would end in death by signal instead of exit code 0.
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signal_number, stop)
    server.run(sockets=[listener])


if __name__ == "__main__":
    sys.exit(main())
