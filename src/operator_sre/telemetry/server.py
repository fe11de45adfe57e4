"""The smallest server that Prometheus can scrape: one path, bounded in every way."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

__all__ = ["MetricsServer"]

REQUEST_BYTES_MAX = 8192
REQUEST_S_MAX = 5.0
ANSWER_S_MAX = 30.0
CONNECTIONS_MAX = 32
log = logging.getLogger(__name__)


class MetricsServer:
    """Answers `GET /metrics`, for the length of an `async with`."""

    def __init__(
        self, host: str, port: int, *, content_type: str, render: Callable[[], Awaitable[bytes]]
    ) -> None:
        self._host, self._port = host, port
        self._content_type = content_type
        self._render = render
        self._open = 0
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> MetricsServer:
        self._server = await asyncio.start_server(
            self._talk, self._host, self._port, limit=REQUEST_BYTES_MAX
        )
        return self

    async def __aexit__(self, *error: object) -> None:
        assert self._server is not None
        self._server.close()
        await self._server.wait_closed()

    @property
    def port(self) -> int:
        """Where it listens."""
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            async with asyncio.timeout(ANSWER_S_MAX):
                status, kind, body = await self._answer(reader)
                head = (
                    f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
                    "Connection: close\r\n\r\n"
                )
                writer.write(head.encode() + body)
                await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError):
            log.debug("a scrape was given up")
        finally:
            self._open -= 1
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader) -> tuple[str, str, bytes]:
        text = "text/plain; charset=utf-8"
        if self._open > CONNECTIONS_MAX:
            return "503 Service Unavailable", text, b"Too many at once.\n"
        try:
            async with asyncio.timeout(REQUEST_S_MAX):
                head = await reader.readuntil(b"\r\n\r\n")
        except (asyncio.LimitOverrunError, ValueError):
            return "431 Request Header Fields Too Large", text, b"That is too much.\n"
        method, _, rest = head.partition(b" ")
        path = rest.partition(b" ")[0].partition(b"?")[0]
        if method != b"GET":
            return "405 Method Not Allowed", text, b"Only GET.\n"
        if path != b"/metrics":
            return "404 Not Found", text, b"The figures are at /metrics.\n"
        return "200 OK", self._content_type, await self._render()
