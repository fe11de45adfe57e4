"""Small real servers on loopback, each with one way to behave."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

__all__ = [
    "Behave",
    "Crowd",
    "closes",
    "drips",
    "floods",
    "hangs",
    "http",
    "resets",
    "says",
    "serving",
    "until",
    "unused_port",
]

Behave = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextlib.asynccontextmanager
async def serving(behave: Behave, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """The port of a server that treats every caller in this way; no connection outlives it."""
    tasks: set[asyncio.Task[None]] = set()

    async def attend(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            try:
                await behave(reader, writer)
            finally:
                writer.close()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(attend(reader, writer))
        tasks.add(task)

    server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()


@contextlib.contextmanager
def unused_port() -> Iterator[int]:
    """A port that is taken, so that nobody else gets it, and on which nobody listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


def says(answer: bytes) -> Behave:
    """Waits for the caller's first words, answers, and hangs up."""

    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(answer)
        await writer.drain()

    return behave


def http(status: int, body: object, *, headers: str = "") -> Behave:
    """An HTTP server with one answer; what is not bytes goes out as JSON."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = f"HTTP/1.1 {status} X\r\ncontent-length: {len(content)}\r\nconnection: close\r\n"
    return says(f"{head}{headers}\r\n".encode() + content)


class Crowd:
    """Callers who are all kept waiting until they hang up; the most of them at once are counted."""

    def __init__(self) -> None:
        self.most = self._now = 0

    async def behave(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Say nothing for as long as the caller stays."""
        self._now += 1
        self.most = max(self.most, self._now)
        try:
            while await reader.read(65536):
                pass
        finally:
            self._now -= 1


async def hangs(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Accepts and never says a word."""
    await asyncio.Event().wait()


async def closes(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Accepts and hangs up without a word."""


async def resets(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Listens, then cuts the connection off."""
    await reader.read(1)
    connection = writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def until(over: asyncio.Event, behave: Behave) -> Behave:
    """Behaves so until the event is set, then hangs up."""

    async def behave_until(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks = [asyncio.ensure_future(behave(reader, writer)), asyncio.ensure_future(over.wait())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    return behave_until


def drips(begin: bytes, *, every_s: float) -> Behave:
    """Answers without an end, one byte after another."""

    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(begin)
        beat = asyncio.Event()
        while True:
            writer.write(b" ")
            await writer.drain()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(beat.wait(), every_s)

    return behave


def floods(begin: bytes) -> Behave:
    """Answers without an end, as fast as it is read."""

    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(begin)
        while True:
            writer.write(b" " * 65536)
            await writer.drain()

    return behave
