"""Bounded connections: a client that does not send in time is disconnected."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from typing import cast

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

__all__ = ["HEAD_S_MAX", "SPARE", "UNREAD_S_MAX", "BoundedProtocol", "BoundedServer"]

HEAD_S_MAX = 10.0
# How long sent data may wait to be read, and how often that is checked.
UNREAD_S_MAX = 20.0
LOOK_S = 1.0
# What the system keeps for who has not read yet: little, so that it is seen soon whether they read.
SEND_BUFFER_BYTES = 128 * 1024
# How many connections beyond the limit get an answer; all others are closed at once.
SPARE = 64


class BoundedProtocol(H11Protocol):
    """One connection. Its next request has to begin, and its head to end, within a time.

    What is sent to it must be read within a time. A connection beyond the limit gets an answer,
    and the earlier ones are served on.
    """

    _timer: asyncio.TimerHandle | None = None
    _looking: asyncio.TimerHandle | None = None
    _unread_bytes: int = 0
    _unread_since_s: float = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """It has so long for its first head."""
        super().connection_made(transport)
        most = self.limit_concurrency
        if most is not None:
            many = len(self.connections)
            self.limit_concurrency = 0 if many > most else None  # 0 lets nothing be asked
            if many > most + SPARE:
                transport.abort()
                return
        if (place := transport.get_extra_info("socket")) is not None:
            place.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        self._wait()
        self._looking = self.loop.call_later(LOOK_S, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop its timers when the connection ends."""
        self._stop()
        if self._looking is not None:
            self._looking.cancel()
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

    def _look(self) -> None:
        """Let go of who does not read: what waits for them, also when we have closed, is ours."""
        unread, now = self.transport.get_write_buffer_size(), self.loop.time()
        if not unread or unread < self._unread_bytes or not self._unread_bytes:
            self._unread_since_s = now
        self._unread_bytes = unread
        if unread and now - self._unread_since_s >= UNREAD_S_MAX:
            self.transport.abort()
            return
        self._looking = self.loop.call_later(LOOK_S, self._look)

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
    """Reports when it takes requests, and leaves signals to its caller."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.begun = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """From here on requests are taken."""
        await super().startup(sockets)
        self.begun.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """The caller handles them."""
        yield
