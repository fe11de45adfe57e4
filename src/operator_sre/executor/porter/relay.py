"""One request to the engine, with its answer streamed back to the client."""

from __future__ import annotations

import asyncio
import contextlib

from operator_sre.executor.docker.engine import ANSWER_S, EngineError

__all__ = ["Peer", "carry", "relay", "request_of"]

PIECE_BYTES = 64 * 1024
ANSWER_HEAD_BYTES_MAX = 64 * 1024
CONNECT_S = 3.0
UPGRADED = b"HTTP/1.1 101 "

Peer = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def request_of(method: str, target: str, body: bytes, *, upgrades: bool) -> bytes:
    """A request, written by us from its first byte to its last. Pure."""
    lines = [
        f"{method} {target} HTTP/1.1",
        "Host: docker",
        "User-Agent: operator-porter",
        f"Content-Length: {len(body)}" if method == "POST" else "",
        "Content-Type: application/json" if body else "",
        *(("Connection: Upgrade", "Upgrade: tcp") if upgrades else ("Connection: close",)),
    ]
    return "\r\n".join([*filter(None, lines), "", ""]).encode("ascii") + body


async def relay(near: Peer, engine: str, request: bytes, *, upgrades: bool) -> None:
    """Ask the engine on this socket and pass its answer on; EngineError where there is none.

    Data from the client is passed on only after the engine has agreed to a stream.
    Before that it could be a second request, which has not been checked.
    """
    try:
        async with asyncio.timeout(CONNECT_S):
            far = await asyncio.open_unix_connection(engine, limit=ANSWER_HEAD_BYTES_MAX)
    except OSError:  # that of time is one
        raise EngineError(f"No Docker engine answers at {engine!r}.") from None
    try:
        far[1].write(request)
        if not upgrades:
            await _answer(near, far)
        elif await _agreed(near, far):
            # Both directions are open; the stream ends with the engine's output.
            saying = asyncio.ensure_future(carry(near[0], far[1]))
            try:
                await carry(far[0], near[1])
            finally:
                await _cancel(saying)
        else:  # the engine was not asked to close, so it needs the end of the stream
            far[1].write_eof()
            await _answer(near, far)
    finally:
        far[1].close()


async def _agreed(near: Peer, far: Peer) -> bool:
    """Pass the head of the engine's answer on; whether it makes a stream of the connection."""
    try:
        async with asyncio.timeout(ANSWER_S):
            head = await far[0].readuntil(b"\r\n\r\n")
    except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        raise EngineError("Docker did not answer.") from None
    near[1].write(head)
    return head.startswith(UPGRADED)


async def _answer(near: Peer, far: Peer) -> None:
    """Pass the answer of the engine on to its end, or until the client closes."""
    leaving = asyncio.ensure_future(_wait_until_closed(near[0]))
    carrying = asyncio.ensure_future(carry(far[0], near[1]))
    try:
        await asyncio.wait({leaving, carrying}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await _cancel(leaving)
        await _cancel(carrying)


async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass on all data from one side, then its end."""
    while piece := await reader.read(PIECE_BYTES):
        writer.write(piece)
        await writer.drain()
    with contextlib.suppress(OSError):
        writer.write_eof()


async def _wait_until_closed(reader: asyncio.StreamReader) -> None:
    """Return when the client closes; its data is discarded."""
    while await reader.read(PIECE_BYTES):
        pass


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled() and (error := task.exception()) and not isinstance(error, OSError):
        raise error
