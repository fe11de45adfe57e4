"""Events that are sent as they come: to one page, until they end or nobody looks any more."""

from __future__ import annotations

import asyncio
import logging
from abc import abstractmethod
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from fastapi import Response

from operator_protocols.errors import OperatorError

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

__all__ = ["BEAT", "STREAM_S_MAX", "Events", "Say"]

# Whoever takes nothing for so long is let go, and comes back.
SEND_S_MAX = 20.0
STREAM_S_MAX = 3600.0
# What nobody hears but whoever stands between us, and would think that we are gone.
BEAT = b": still here\n\n"
Say = Callable[[bytes], Awaitable[None]]
log = logging.getLogger(__name__)


class Events(Response):
    """A stream that speaks with `tell` and cleans up with `leave`."""

    media_type = "text/event-stream"

    def __init__(self) -> None:
        super().__init__(None, 200, {"x-accel-buffering": "no"})
        # Starlette counts an empty body; a stream has no length.
        self.raw_headers = [one for one in self.raw_headers if one[0] != b"content-length"]

    @abstractmethod
    async def tell(self, say: Say, gone: asyncio.Future[None]) -> None:
        """Say everything; `gone` is done when nobody looks any more."""

    @abstractmethod
    def leave(self) -> None:
        """It is over, however it ended."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send what comes."""

        async def say(data: bytes) -> None:
            async with asyncio.timeout(SEND_S_MAX):
                await send({"type": "http.response.body", "body": data, "more_body": True})

        gone = asyncio.ensure_future(_gone(receive))
        try:
            start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
            await send(start)
            await self.tell(say, gone)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except (TimeoutError, OperatorError) as error:
            # A page that is still there comes back, and misses nothing.
            log.warning("a stream ended early: %s", str(error) or "the client stopped reading")
        finally:
            self.leave()
            gone.cancel()
            await asyncio.gather(gone, return_exceptions=True)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
