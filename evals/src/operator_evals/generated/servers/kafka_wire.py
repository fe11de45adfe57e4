"""One request of the Kafka protocol and the fields of its answer."""

from __future__ import annotations

import asyncio
import struct

__all__ = ["Fields", "ask", "compact", "text", "varint"]

ANSWER_BYTES_MAX = 8 << 20
NUMBER = 1


async def ask(port: int, key: int, version: int, body: bytes, *, flexible: bool) -> Fields:
    """Connect, ask and hang up. OSError, EOFError or ValueError where that fails."""
    head = struct.pack(">hhi", key, version, NUMBER) + text("judge")
    message = head + (b"\0" if flexible else b"") + body
    writer: asyncio.StreamWriter | None = None
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(struct.pack(">i", len(message)) + message)
        (size,) = struct.unpack(">i", await reader.readexactly(4))
        if not 4 <= size <= ANSWER_BYTES_MAX:
            raise ValueError("it does not speak Kafka")
        fields = Fields(await reader.readexactly(size), flexible=flexible)
    finally:
        if writer is not None:
            writer.transport.abort()
    if fields.number("i") != NUMBER:
        raise ValueError("it does not speak Kafka")
    fields.tags()
    return fields


class Fields:
    """Reads the fields of an answer in their order; ValueError where it is too short."""

    def __init__(self, data: bytes, *, flexible: bool) -> None:
        self._data, self._flexible = data, flexible

    def raw(self, size: int) -> bytes:
        """So many bytes."""
        if not 0 <= size <= len(self._data):
            raise ValueError("the answer is too short")
        found, self._data = self._data[:size], self._data[size:]
        return found

    def number(self, form: str) -> int:
        """An integer of this `struct` form."""
        (value,) = struct.unpack(f">{form}", self.raw(struct.calcsize(f">{form}")))
        return int(value)

    def varint(self) -> int:
        """An unsigned integer of variable length."""
        value = 0
        for shift in range(0, 35, 7):
            byte = self.raw(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
        return value

    def text(self) -> str:
        """A text; "" for none."""
        size = self.varint() - 1 if self._flexible else self.number("h")
        return self.raw(max(0, size)).decode("utf-8", "replace")

    def tags(self) -> None:
        """Skip the fields of newer versions."""
        for _ in range(self.varint() if self._flexible else 0):
            self.varint()
            self.raw(self.varint())


def text(value: str) -> bytes:
    data = value.encode()
    return struct.pack(">h", len(data)) + data


def compact(value: str) -> bytes:
    data = value.encode()
    return varint(len(data) + 1) + data


def varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*found, value))
