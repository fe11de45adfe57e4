"""One question to a server, in the protocol that Redis and Valkey speak."""

from __future__ import annotations

import asyncio

from operator_protocols.domain.target import Target

__all__ = ["Reply", "ask"]

Reply = str | int | None | list["Reply"]
REPLY_BYTES_MAX = 1 << 20
ITEMS_MAX = 1_000


async def ask(target: Target, *command: str, password: str = "") -> Reply:
    """The answer to one command. OSError or ValueError when there is none that can be read.

    The caller limits the time.
    """
    reader, writer = await asyncio.open_connection(target.host, target.port, limit=REPLY_BYTES_MAX)
    try:
        if password:
            writer.write(_encoded("AUTH", password))
            await _read(reader)
        writer.write(_encoded(*command))
        await writer.drain()
        return await _read(reader)
    finally:
        writer.close()


def _encoded(*words: str) -> bytes:
    parts = [f"*{len(words)}\r\n".encode()]
    for word in map(str.encode, words):
        parts += [f"${len(word)}\r\n".encode(), word, b"\r\n"]
    return b"".join(parts)


async def _read(reader: asyncio.StreamReader) -> Reply:
    line = (await reader.readline()).decode("utf-8", "replace").rstrip("\r\n")
    kind, rest = line[:1], line[1:]
    if kind == "+":
        return rest
    if kind == "-":
        raise ValueError(rest)
    if kind == ":":
        return int(rest)
    if kind == "$":
        return await _text(reader, int(rest))
    if kind == "*":
        if int(rest) > ITEMS_MAX:
            raise ValueError(f"its answer has {rest} parts")
        return [await _read(reader) for _ in range(int(rest))]
    raise ValueError(f"it answered {line[:40]!r}" if line else "it hung up")


async def _text(reader: asyncio.StreamReader, length: int) -> str | None:
    if length < 0:
        return None
    if length > REPLY_BYTES_MAX:
        raise ValueError(f"its answer is {length} bytes long")
    return (await reader.readexactly(length + 2))[:-2].decode("utf-8", "replace")
