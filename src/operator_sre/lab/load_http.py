"""Requests of a load over HTTP, on connections that are used again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping

from operator_sre.lab.load_reply import REQUEST_S_MAX, Reply

__all__ = ["HttpNode"]

NUMBERS = 100
IDLE_MAX = 32
HEAD_BYTES_MAX = 1 << 16
BODY_BYTES_MAX = 1 << 16

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class HttpNode:
    """One server, with the connections to it that wait for the next request."""

    def __init__(self, host: str, port: int, *, path: str, body: Mapping[str, str]) -> None:
        self._host, self._port = host, port
        self._idle: list[Connection] = []
        numbers = range(NUMBERS if any("{n}" in value for value in body.values()) else 1)
        self._requests = [_request(f"{host}:{port}", path, body, number) for number in numbers]

    async def ask(self, turn: int) -> Reply:
        """Send one request; GOOD when it is answered in time and below 500."""
        try:
            async with asyncio.timeout(REQUEST_S_MAX):
                status = await self._exchange(self._requests[turn % len(self._requests)])
        except TimeoutError:
            return Reply.LATE
        except (OSError, ValueError, EOFError, asyncio.LimitOverrunError):
            return Reply.REFUSED
        return Reply.GOOD if status < 500 else Reply.BAD

    async def close(self) -> None:
        """Hang up."""
        for _, writer in self._idle:
            writer.close()

    async def _exchange(self, request: bytes) -> int:
        reader, writer = await self._connection()
        reusable = False
        try:
            writer.write(request)
            status, reusable = await _answer(reader)
        finally:
            if reusable and len(self._idle) < IDLE_MAX:
                self._idle.append((reader, writer))
            else:
                # Not `close`, which would wait for somebody who does not read any more.
                writer.transport.abort()
        return status

    async def _connection(self) -> Connection:
        while self._idle:
            reader, writer = self._idle.pop()
            if not reader.at_eof() and not writer.is_closing():
                return reader, writer
            writer.close()
        return await asyncio.open_connection(self._host, self._port, limit=HEAD_BYTES_MAX)


def _request(host: str, path: str, body: Mapping[str, str], number: int) -> bytes:
    filled = {name: value.replace("{n}", str(number)) for name, value in body.items()}
    content = json.dumps(filled).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {host}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
    )
    return head.encode() + content


async def _answer(reader: asyncio.StreamReader) -> tuple[int, bool]:
    """Read one answer: its status, and whether its connection can be used again."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    first, *lines = head.split("\r\n")
    version, status = first.split(" ")[:2]
    if not version.startswith("http/"):
        raise ValueError("it does not speak HTTP")
    fields = {name.strip(): value.strip() for name, _, value in (s.partition(":") for s in lines)}
    length = int(fields.get("content-length", "-1"))
    whole = 0 <= length <= BODY_BYTES_MAX
    if whole:
        await reader.readexactly(length)
    return int(status), whole and version == "http/1.1" and fields.get("connection") != "close"
