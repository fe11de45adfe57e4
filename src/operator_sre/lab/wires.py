"""One connection through a link: passed on at once, delayed, or silent."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections import deque
from collections.abc import Callable
from enum import Enum, auto

from operator_sre.lab.manifest import HOST

__all__ = ["Wire"]

WAITING_BYTES_MAX = 16 << 20
# A timer may fire a little early; what is due within this time is due.
EARLY_S = 0.001


class _End(Enum):
    """What comes after the last byte: one side has no more to say, or is gone."""

    EOF = auto()
    CLOSED = auto()


class _Side(asyncio.Protocol):
    """One of the two ends of a wire, and what waits to be written to it."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.peer = self
        self.transport: asyncio.Transport | None = None
        self._waiting: deque[tuple[float, bytes | _End]] = deque()
        self._waiting_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._blocked = False
        self._said_all = False
        self._told_all = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if isinstance(transport, asyncio.Transport):
            self.transport = transport
        self.wire.made(self)

    def data_received(self, data: bytes) -> None:
        wire, to = self.wire, self.peer
        if wire.plain and to.transport is not None and not to._waiting:
            to.transport.write(data)
        elif not wire.silent:
            to.put(data, wire.delay_s)

    def eof_received(self) -> bool:
        if self.wire.silent:
            return False
        self._said_all = True
        self.peer.put(_End.EOF, self.wire.delay_s)
        # Half-closed until both have said all.
        return not self._told_all

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        if not self.wire.silent:
            self.peer.put(_End.CLOSED, self.wire.delay_s)
        self.wire.lost()

    def pause_writing(self) -> None:
        self._blocked = True
        self._govern()

    def resume_writing(self) -> None:
        self._blocked = False
        self._govern()

    def put(self, item: bytes | _End, delay_s: float) -> None:
        """Write it when its time has come, never before what came earlier."""
        loop = asyncio.get_running_loop()
        due = loop.time() + delay_s
        if self._waiting:
            due = max(due, self._waiting[-1][0])
        self._waiting.append((due, item))
        self._waiting_bytes += len(item) if isinstance(item, bytes) else 0
        if self.wire.connected:
            self.flush(loop.time())
        self._govern()

    def flush(self, until: float) -> None:
        """Write what is due until then."""
        while self._waiting and self._waiting[0][0] <= until + EARLY_S:
            _, item = self._waiting.popleft()
            self._waiting_bytes -= len(item) if isinstance(item, bytes) else 0
            self._write(item)
        self._govern()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._waiting:
            loop = asyncio.get_running_loop()
            due = self._waiting[0][0]
            self._timer = loop.call_at(due, lambda: self.flush(loop.time()))

    def forget(self) -> None:
        """What waits is lost."""
        self._waiting.clear()
        self._waiting_bytes = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._govern()

    def close(self, *, reset: bool = False) -> None:
        """Hang up; with `reset`, as a port does on which nobody listens."""
        self.forget()
        if self.transport is None:
            return
        if reset:
            sock = self.transport.get_extra_info("socket")
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    def _write(self, item: bytes | _End) -> None:
        if self.transport is None or self.transport.is_closing():
            return
        if isinstance(item, bytes):
            self.transport.write(item)
        elif item is _End.CLOSED or self._said_all:
            self.transport.close()
        else:
            self._told_all = True
            with contextlib.suppress(OSError):
                self.transport.write_eof()

    def _govern(self) -> None:
        """Nobody may send faster than the other side takes it."""
        sender = self.peer.transport
        if sender is None or sender.is_closing():
            return
        if not self.wire.silent and (self._blocked or self._waiting_bytes > WAITING_BYTES_MAX):
            sender.pause_reading()
        else:
            sender.resume_reading()


class Wire:
    """A caller, the process that it called, and what may pass between them now."""

    def __init__(self, port: int, *, opened: Callable[[Wire], None]) -> None:
        self._port = port
        self._opened = opened
        self._dialling: asyncio.Task[None] | None = None
        self.caller, self._called = _Side(self), _Side(self)
        self.caller.peer, self._called.peer = self._called, self.caller
        self.ended: Callable[[Wire], None] = lambda wire: None
        self.refused: Callable[[], None] = lambda: None
        self.ends = (0, 0)
        self.connected = False
        self.silent = False
        self.delay_s = 0.0
        # Nothing has to be asked of a wire that is plain.
        self.plain = False

    def made(self, side: _Side) -> None:
        """One side is there; the first is the caller."""
        if side is self.caller and side.transport is not None:
            far = side.transport.get_extra_info("peername")
            near = side.transport.get_extra_info("sockname")
            self.ends = (far[1], near[1])
            self._opened(self)

    def rule(self, *, cut: bool, delay_s: float) -> None:
        """From now on this holds; what was silent and is not any more is closed."""
        if cut:
            self.silent, self.plain = True, False
            self._stop_dialling()
            for side in (self.caller, self._called):
                side.forget()
            return
        if self.silent:
            self.close()
            return
        shorter = delay_s < self.delay_s
        self.delay_s = delay_s
        self.plain = self.connected and not delay_s
        if self.connected and shorter:
            for side in (self.caller, self._called):
                side.flush(float("inf"))
        if not self.connected and self._dialling is None:
            self._dialling = asyncio.get_running_loop().create_task(self._dial())

    def lost(self) -> None:
        """One side is gone."""
        if self.caller.transport is None:
            self._stop_dialling()
            if self._called.transport is None:
                self.ended(self)

    def close(self, *, reset: bool = False) -> None:
        """Hang up on both sides."""
        self._stop_dialling()
        for side in (self.caller, self._called):
            side.close(reset=reset)

    async def _dial(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.create_connection(lambda: self._called, HOST, self._port)
        except OSError:
            self.refused()
            self.close(reset=True)
            return
        self.connected = True
        self.plain = not self.delay_s and not self.silent
        self._called.flush(loop.time())

    def _stop_dialling(self) -> None:
        if self._dialling is not None and not self.connected:
            self._dialling.cancel()
