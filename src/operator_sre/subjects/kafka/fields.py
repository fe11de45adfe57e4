"""Fields of messages of the Kafka protocol, in its plain and its compact form. Pure."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TypeVar

__all__ = ["Reader", "compact", "text", "varint"]

T = TypeVar("T")
COUNT_MAX = 2_000_000


class Reader:
    """Reads the fields of an answer in their order; ValueError where it is too short."""

    def __init__(self, data: bytes, *, flexible: bool = False) -> None:
        self._data, self._at, self._flexible = data, 0, flexible

    def number(self, form: str) -> int:
        """An integer of this `struct` form."""
        try:
            (value,) = struct.unpack_from(f">{form}", self._data, self._at)
        except struct.error as problem:
            raise ValueError("the answer is too short") from problem
        self._at += struct.calcsize(f">{form}")
        return int(value)

    def real(self) -> float:
        """A float of 64 bits."""
        return float(struct.unpack(">d", self.raw(8))[0])

    def varint(self) -> int:
        """An unsigned integer of variable length."""
        value = shift = 0
        while shift < 35:
            byte = self.raw(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
        raise ValueError("an integer is too long")

    def raw(self, size: int) -> bytes:
        """So many bytes."""
        if size < 0 or self._at + size > len(self._data):
            raise ValueError("the answer is too short")
        self._at += size
        return self._data[self._at - size : self._at]

    def text(self) -> str:
        """A text; "" for none."""
        size = self.varint() - 1 if self._flexible else self.number("h")
        return self.raw(size).decode("utf-8", "replace") if size > 0 else ""

    def octets(self) -> bytes:
        """Bytes with their length."""
        size = self.varint() - 1 if self._flexible else self.number("i")
        return self.raw(size) if size > 0 else b""

    def many(self, read: Callable[[], T]) -> list[T]:
        """An array."""
        count = self.varint() - 1 if self._flexible else self.number("i")
        if count > COUNT_MAX:
            raise ValueError("an array is too long")
        return [read() for _ in range(max(0, count))]

    def integers(self) -> tuple[int, ...]:
        """An array of integers of 32 bits."""
        count = self.varint() - 1 if self._flexible else self.number("i")
        if count <= 0:
            return ()
        return struct.unpack(f">{count}i", self.raw(4 * count))

    def tags(self) -> None:
        """Skip fields of newer versions."""
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
