"""A system call of a confined command that is pending, and its refusal."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Call", "RefusedError", "to_signed"]


class RefusedError(Exception):
    """A call that the command may not make; `report` says what it tried, where that is news."""

    def __init__(self, number: int, report: str = "") -> None:
        super().__init__(report)
        self.number = number
        self.report = report


@dataclass(slots=True)
class Call:
    """One call that waits for its answer."""

    id: int
    thread: int
    name: str
    arguments: tuple[int, ...]


def to_signed(value: int) -> int:
    """An argument as the C type `int`."""
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value
