"""Run one node: `python -m operator_ratelimiter --name node-1 --port 8001 --store URL`."""

import errno
import logging
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import FrameType

from operator_ratelimiter.settings import Settings, parse_settings

__all__ = ["Sparse", "main"]

_REPEAT_S = 10.0


class Sparse(logging.Filter):
    """Lets the same message pass once in a while only.

    A loop that cannot accept for want of files says so thousands of times a second, which would
    fill a disk while it is already in trouble.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._said: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether this one is written; the format counts, not what is filled in."""
        now_s, message = self._clock(), str(record.msg)[:80]
        if now_s - self._said.get(message, -_REPEAT_S) < _REPEAT_S:
            return False
        if len(self._said) > 100:
            self._said.clear()
        self._said[message] = now_s
        return True


def configure_logging() -> None:
    """Send every log line of this process to stderr as plain text."""
    formatter = logging.Formatter(
        "%(asctime)s.%(msecs)03dZ %(levelname)s %(message)s", datefmt="%Y-%m-%dT%H:%M:%S"
    )
    formatter.converter = time.gmtime
    handler = logging.StreamHandler()
    handler.setFormatter(formatter)
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    # The server's own start and stop lines would repeat the node's.
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    logging.getLogger("asyncio").addFilter(Sparse())


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
