"""HTTP for the stand-ins: a small server and a small client, both over loopback."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from email.utils import formatdate
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

__all__ = ["Reply", "Request", "ask", "conversation", "port_of", "serve"]

HEAD_BYTES_MAX = 64 << 10
BODY_BYTES_MAX = 4 << 20
IDLE_S_MAX = 30.0
REASONS = {200: "OK", 404: "Not Found", 410: "Gone", 500: "Internal Server Error"}


@dataclass(frozen=True, slots=True)
class Request:
    """What somebody asks."""

    method: str
    path: str
    query: Mapping[str, list[str]]
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> dict[str, Any]:
        """Its body; nothing where it is no object."""
        try:
            found = json.loads(self.body or b"{}")
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}

    @property
    def target(self) -> str:
        """Path and query, to be passed on."""
        words = urlencode(self.query, doseq=True)
        return f"{self.path}?{words}" if words else self.path


@dataclass(frozen=True, slots=True)
class Reply:
    """What it is told: text, or JSON the way PD writes it."""

    status: int = 200
    body: bytes = b""
    kind: str = "text/plain; charset=utf-8"

    @classmethod
    def of(cls, value: object, status: int = 200) -> Reply:
        """A value in JSON."""
        text = json.dumps(value, indent=2) + "\n"
        return cls(status, text.encode(), "application/json; charset=UTF-8")

    def json(self) -> Any:
        """What it says, or None where that is no JSON."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None


Handler = Callable[[Request], Awaitable[Reply]]


def conversation(handler: Handler) -> Callable[..., Awaitable[None]]:
    """How a connection is answered: it is kept as long as the other side likes."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, EOFError, ValueError, TimeoutError):
            while (request := await _request(reader)) is not None:
                reply = await handler(request)
                writer.write(_reply_bytes(reply))
                await writer.drain()
                if request.headers.get("connection", "").lower() == "close":
                    break
        writer.close()

    return talk


async def serve(host: str, port: int, handler: Handler) -> asyncio.Server:
    """Answer until the process ends."""
    talk = conversation(handler)
    return await asyncio.start_server(talk, host, port, limit=HEAD_BYTES_MAX, backlog=128)


async def _request(reader: asyncio.StreamReader) -> Request | None:
    async with asyncio.timeout(IDLE_S_MAX):
        head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ", 2)
    headers = _headers(lines)
    length = int(headers.get("content-length", "0"))
    if length > BODY_BYTES_MAX:
        return None
    parts = urlsplit(target)
    query = parse_qs(parts.query, keep_blank_values=True)
    return Request(method, parts.path, query, headers, await reader.readexactly(length))


def _headers(lines: list[str]) -> dict[str, str]:
    pairs = (line.partition(":") for line in lines if line)
    return {name.strip().lower(): value.strip() for name, _, value in pairs}


def _reply_bytes(reply: Reply) -> bytes:
    words = {
        "Content-Type": reply.kind,
        "Date": formatdate(usegmt=True),
        "Content-Length": str(len(reply.body)),
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in words.items())
    reason = REASONS.get(reply.status, "Status")
    return f"HTTP/1.1 {reply.status} {reason}\r\n{head}\r\n".encode("latin-1") + reply.body


async def ask(
    url: str,
    body: object = None,
    *,
    method: str = "",
    timeout_s: float = 1.0,
    headers: Mapping[str, str] | None = None,
) -> Reply:
    """One question on a connection of its own. OSError or TimeoutError when nobody answers."""
    parts = urlsplit(url)
    data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    target = f"{parts.path or '/'}{'?' + parts.query if parts.query else ''}"
    words = {
        "Host": parts.netloc,
        "Connection": "close",
        "Content-Length": str(len(data)),
        **(headers or {}),
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in words.items())
    verb = method or ("GET" if body is None else "POST")
    writer: asyncio.StreamWriter | None = None
    try:
        async with asyncio.timeout(timeout_s):
            reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
            writer.write(f"{verb} {target} HTTP/1.1\r\n{head}\r\n".encode("latin-1") + data)
            return await _answer(reader)
    except (EOFError, ValueError) as problem:
        raise OSError(f"no answer: {problem}") from problem
    finally:
        if writer is not None:
            writer.close()


async def _answer(reader: asyncio.StreamReader) -> Reply:
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = _headers(lines)
    if headers.get("transfer-encoding", "").lower() == "chunked":
        body = await _chunks(reader)
    else:
        body = await _exactly(reader, int(headers.get("content-length", "0")))
    return Reply(int(first.split(" ")[1]), body, headers.get("content-type", ""))


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    """A body in pieces, as a follower of the real PD passes on what its leader says."""
    body = b""
    while size := int((await reader.readuntil(b"\r\n")).partition(b";")[0], 16):
        body += await _exactly(reader, size)
        await reader.readuntil(b"\r\n")
        if len(body) > BODY_BYTES_MAX:
            raise ValueError("too long")
    return body


async def _exactly(reader: asyncio.StreamReader, length: int) -> bytes:
    if length > BODY_BYTES_MAX:
        raise ValueError("too long")
    return await reader.readexactly(length)


def port_of(url: str) -> tuple[str, int]:
    """Host and port of a URL or an address."""
    parts = urlsplit(url if "//" in url else f"//{url}")
    if parts.hostname is None or parts.port is None:
        raise SystemExit(f"{url!r} is not an address with a port")
    return parts.hostname, parts.port
