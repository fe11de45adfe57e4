"""Connections that cost nothing to hold: whoever does not speak in time is let go."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from typing import cast

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

__all__ = ["HEAD_S_MAX", "BoundedProtocol", "BoundedServer"]

HEAD_S_MAX = 10.0


class BoundedProtocol(H11Protocol):
    """One connection. Its next request has to begin, and its head to end, within a time."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """It has so long for its first head."""
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody waits for it any more."""
        self._stop()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """A head that came whole ends the wait; the rest is bounded by who reads the body."""
        before = self.cycle
        super().handle_events()
        if self.cycle is not before:
            self._stop()

    def data_received(self, data: bytes) -> None:
        """The first piece of a further head begins a wait of its own."""
        cycle = cast("RequestResponseCycle | None", self.cycle)  # there is none before the first
        if self._timer is None and (cycle is None or cycle.response_complete):
            self._wait()
        super().data_received(data)

    def _wait(self) -> None:
        self._timer = self.loop.call_later(HEAD_S_MAX, self._late)

    def _late(self) -> None:
        self._timer = None
        if not self.transport.is_closing():
            self.transport.close()

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class BoundedServer(uvicorn.Server):
    """Says when it takes requests, and leaves signals to whoever runs it."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.begun = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """From here on requests are taken."""
        await super().startup(sockets)
        self.begun.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Whoever runs us hears them."""
        yield
