"""A connection to a runner, kept for the next job: making one costs more than using it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import weakref
from pathlib import Path

import msgspec

from operator_protocols.errors import ExecutorError
from operator_sre.processes.runner.places import peer_of, reachable
from operator_sre.processes.runner.wire import (
    LINE_BYTES_MAX,
    PROTOCOL,
    Done,
    More,
    Request,
    Started,
    Unknown,
    decode_event,
    encode,
)

__all__ = ["Line", "dial"]

ANSWER_S_MAX = 10.0
READ_BYTES = 64 * 1024
# What a connection takes at once when nothing waits in it.
OFFER_BYTES_MAX = 64 * 1024


def dial(folder: Path) -> Line:
    """A new connection; OSError if no runner listens."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as made, reachable(folder) as path:
        made.settimeout(ANSWER_S_MAX)
        made.connect(path)
        if (owner := peer_of(made)) not in (None, os.geteuid()):
            raise ExecutorError(
                f"The runner of {str(folder)!r} belongs to the user with uid {owner}.",
                next_step="Use your own home.",
            )
        return Line(made.detach())


class Line:
    """Asks, and hears events. It belongs to no loop, so that it may outlive one."""

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self._fd = fd
        self._heard = bytearray()
        self._greeted = False
        self.close = weakref.finalize(self, os.close, fd)

    def offer(self, request: Request) -> bool:
        """Send a short request if nothing needs to be waited for; False when it was not sent."""
        text = encode(request)
        if not self._greeted or len(text) > OFFER_BYTES_MAX:
            return False
        try:
            if os.write(self._fd, text) == len(text):
                return True
        except OSError:
            pass
        self.close()  # the other side may have half of it
        return False

    async def send(self, request: Request) -> None:
        """Send a request; ConnectionError when the runner is gone."""
        text = encode(request)
        if len(text) > LINE_BYTES_MAX:
            raise ExecutorError(
                f"The command and its input are larger than {LINE_BYTES_MAX // 1024**2} MB."
            )
        left = memoryview(text)
        while left:
            try:
                left = left[os.write(self._fd, left) :]
            except BlockingIOError:
                await self._ready(writing=True)

    async def next(self) -> Started | More | Unknown | Done:
        """The next event; ConnectionError when there will be none."""
        if not self._greeted:
            # A runner of another version understands no order, so it has started nothing.
            if await self._line() != PROTOCOL.encode():
                raise ExecutorError(
                    "The runner of this home has another version.",
                    next_step=(
                        "Wait half a minute without commands: the runner then exits by itself."
                    ),
                )
            self._greeted = True
        try:
            return decode_event(await self._line())
        except msgspec.MsgspecError as problem:
            raise ConnectionAbortedError(str(problem)) from problem

    async def end(self) -> None:
        """Wait until the other side hangs up."""
        with contextlib.suppress(ConnectionError):
            while True:
                await self._line()

    async def _line(self) -> bytes:
        searched = 0
        while (end := self._heard.find(b"\n", searched)) < 0:
            searched = len(self._heard)
            if searched > LINE_BYTES_MAX:
                raise ConnectionAbortedError("the runner sent too much")
            self._heard += await self._read()
        line = bytes(self._heard[: end + 1])
        del self._heard[: end + 1]
        return line

    async def _read(self) -> bytes:
        while True:
            try:
                data = os.read(self._fd, READ_BYTES)
            except BlockingIOError:
                await self._ready(writing=False)
                continue
            if not data:
                raise ConnectionResetError("the runner closed the connection")
            return data

    async def _ready(self, *, writing: bool) -> None:
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = loop.create_future()

        def wake() -> None:
            if not ready.done():
                ready.set_result(None)

        (loop.add_writer if writing else loop.add_reader)(self._fd, wake)
        try:
            await ready
        finally:
            (loop.remove_writer if writing else loop.remove_reader)(self._fd)
