"""Asking the sentinels which store is the primary; bounded in time, never an error."""

import asyncio
from collections import Counter
from typing import Any, Protocol

from valkey.asyncio import Valkey
from valkey.exceptions import ValkeyError

from operator_ratelimiter.settings import Settings

__all__ = ["Address", "Sentinels", "elected"]

Address = tuple[str, int]


class _Client(Protocol):
    async def execute_command(self, *command: str) -> Any: ...
    async def aclose(self) -> None: ...


class Sentinels:
    """All sentinels of one primary, each asked over a connection of its own."""

    def __init__(self, settings: Settings) -> None:
        self._name = settings.sentinel_name
        self._timeout_s = settings.sentinel_timeout_s
        self._clients: list[_Client] = [
            Valkey(
                host=host,
                port=port,
                max_connections=1,
                socket_timeout=None,
                decode_responses=True,
                lib_name=None,
                lib_version=None,
            )
            for host, port in settings.sentinels
        ]

    async def primary(self, current: Address) -> Address:
        """Who is the primary now; `current` when nobody says otherwise."""
        answers = await asyncio.gather(*(self._ask(client) for client in self._clients))
        return elected([answer for answer in answers if answer is not None], current)

    async def close(self) -> None:
        """Close every connection."""
        for client in self._clients:
            await client.aclose()

    async def _ask(self, client: _Client) -> Address | None:
        try:
            async with asyncio.timeout(self._timeout_s):
                said = await client.execute_command("SENTINEL GET-MASTER-ADDR-BY-NAME", self._name)
            return (str(said[0]), int(said[1])) if said else None
        except (TimeoutError, ValkeyError, OSError, ValueError, TypeError, IndexError):
            return None


def elected(answers: list[Address], current: Address) -> Address:
    """What most of them say; where two say as much as each other, nothing changes."""
    votes = Counter(answers).most_common(2)
    if not votes or (len(votes) == 2 and votes[0][1] == votes[1][1]):
        return current
    return votes[0][0]
