"""What can come of one request of a load, and how long it is waited for."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

__all__ = ["REQUEST_S_MAX", "Asked", "Reply"]

REQUEST_S_MAX = 1.0


class Reply(StrEnum):
    """Answered well, answered with an error, not answered in time, or turned away at once."""

    GOOD = "good"
    BAD = "bad"
    LATE = "late"
    REFUSED = "refused"

    @property
    def timed(self) -> bool:
        """Whether the time that it took says how long answers take."""
        return self is not Reply.REFUSED


class Asked(Protocol):
    """One server that load is put on."""

    async def ask(self, turn: int) -> Reply:
        """Send the request of this turn. Never raises for what the server does."""
        ...

    async def close(self) -> None:
        """Hang up."""
        ...
