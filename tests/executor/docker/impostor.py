"""Something that listens where an engine should, and answers what a test wants."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

__all__ = ["ID", "Script", "answer", "description", "endless", "listening", "says"]

ID = "ab" * 32
Script = Callable[[str, asyncio.StreamWriter], Awaitable[None]]


def answer(content: bytes, *, status: str = "200 OK", kind: str = "application/json") -> bytes:
    """A whole answer of HTTP."""
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(content)}\r\n\r\n"
    return head.encode() + content


def description(**more: str) -> bytes:
    """The least that an engine tells of a container."""
    extra = "".join(f',"{name}":{value}' for name, value in more.items())
    state = '"State":{"Status":"running","Running":true}'
    return f'{{"Id":"{ID}","Name":"/web",{state},"Config":{{}}{extra}}}'.encode()


def says(*pieces: bytes) -> Script:
    """Whatever is asked, these bytes, and then nothing more."""

    async def script(request: str, writer: asyncio.StreamWriter) -> None:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()

    return script


def endless(head: bytes, piece: bytes) -> Script:
    """Whatever is asked, an answer without an end."""

    def forever() -> Iterator[bytes]:
        while True:
            yield piece

    async def script(request: str, writer: asyncio.StreamWriter) -> None:
        await says(head)(request, writer)
        await _pour(forever(), writer)

    return script


async def _pour(pieces: Iterable[bytes], writer: asyncio.StreamWriter) -> None:
    for piece in pieces:
        writer.write(piece)
        await writer.drain()


@asynccontextmanager
async def listening(script: Script, *, hangs: bool = False) -> AsyncIterator[str]:
    """The path of its socket; with `hangs` it never ends an answer by itself."""
    released = asyncio.Event()
    serving: list[asyncio.Task[object] | None] = []

    async def met(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.append(asyncio.current_task())
        with contextlib.suppress(ConnectionError), contextlib.closing(writer):
            head = await reader.readuntil(b"\r\n\r\n")
            await script(head.decode().split("\r\n")[0], writer)
            if hangs:
                await released.wait()

    with tempfile.TemporaryDirectory(prefix="operator-") as folder:
        path = str(Path(folder) / "docker.sock")
        server = await asyncio.start_unix_server(met, path)
        try:
            yield path
        finally:
            released.set()
            server.close()
            await server.wait_closed()
            tasks = [task for task in serving if task is not None]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
