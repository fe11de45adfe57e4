"""One request to the engine: its head, read strictly, and its answer, streamed to the client."""

from __future__ import annotations

import asyncio
import contextlib
import re
from dataclasses import dataclass

from operator_sre.executor.docker.engine import ANSWER_S, EngineError
from operator_sre.executor.porter.rules import Refused

__all__ = [
    "BODY_BYTES_MAX",
    "HEAD_BYTES_MAX",
    "Head",
    "Peer",
    "carry",
    "read_head",
    "relay",
    "request_of",
]

HEAD_BYTES_MAX = 16 * 1024
HEADERS_MAX = 64
# A script goes into a container as variables, and the kernel takes no more than two megabytes.
BODY_BYTES_MAX = 2 * 1024 * 1024
BAD, LENGTH_REQUIRED, TOO_LARGE = 400, 411, 413

_LINE = re.compile(rb"(GET|HEAD|POST) (/[!-~]{0,12000}) HTTP/1\.1")
_OTHER = re.compile(rb"([A-Z]{1,16} /[!-~]{0,150})[!-~]* HTTP/1\.1")
_HEADER = re.compile(rb"([A-Za-z0-9!#$%&'*+.^_`|~-]+):([ -~\t]*)")
_DIGITS = re.compile(r"[0-9]{1,10}")
_CONNECTION = frozenset({"close", "keep-alive", "upgrade"})
# Duplicates would be ambiguous.
_ONCE = ("host", "content-length", "upgrade", "connection")


@dataclass(frozen=True, slots=True)
class Head:
    """One request without its body. `upgrades` when both sides want to speak afterwards."""

    method: str
    path: str
    query: str
    length: int
    upgrades: bool = False


def read_head(raw: bytes) -> Head | Refused:
    """What a head says, which ends with an empty line. Pure."""
    lines = raw.removesuffix(b"\r\n\r\n").split(b"\r\n")
    first = _LINE.fullmatch(lines[0])
    if first is None:
        other = _OTHER.fullmatch(lines[0])
        if other is None:
            return _bad("malformed request line")
        return Refused(f"{other[1].decode()} is not allowed.")
    if len(lines) > HEADERS_MAX:
        return _bad("too many headers")
    headers: dict[str, str] = {}
    for line in lines[1:]:
        found = _HEADER.fullmatch(line)
        if found is None:
            return _bad("malformed header")
        name = found[1].decode().lower()
        if name in headers and name in _ONCE:
            return _bad(f"duplicate header {name}")
        headers[name] = found[2].decode().strip(" \t")
    # The head as a whole: how long its body is, and what becomes of the connection.
    method = first[1].decode()
    target = first[2].decode()
    if "host" not in headers:
        return _bad("missing Host header")
    if "transfer-encoding" in headers or "trailer" in headers or "te" in headers:
        return Refused("Send a Content-Length header: chunked bodies are refused.", LENGTH_REQUIRED)
    if "expect" in headers:
        return _bad("Expect header")
    digits = headers.get("content-length", "0")
    if _DIGITS.fullmatch(digits) is None:
        return _bad("malformed Content-Length")
    length = int(digits)
    if length > BODY_BYTES_MAX:
        return Refused(f"The body is larger than {BODY_BYTES_MAX // 1024**2} MB.", TOO_LARGE)
    if length and method != "POST":
        return _bad("unexpected body")
    words = {each.strip().lower() for each in headers.get("connection", "close").split(",")}
    if not words <= _CONNECTION:
        return _bad("malformed Connection header")
    upgrades = "upgrade" in words
    if upgrades is not ("upgrade" in headers) or headers.get("upgrade", "tcp").lower() != "tcp":
        return Refused("A connection can only be upgraded to a plain stream.")
    path, _, query = target.partition("?")
    return Head(method, path, query, length, upgrades)


def _bad(reason: str) -> Refused:
    return Refused(f"This request is not valid: {reason}.", BAD)


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
