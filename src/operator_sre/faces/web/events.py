"""An event stream to one page, until the events end or the page is closed."""

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

# A client that reads nothing for so long is disconnected, and connects again.
SEND_S_MAX = 20.0
STREAM_S_MAX = 3600.0
# A comment that keeps proxies from closing an idle stream.
BEAT = b": still here\n\n"
Say = Callable[[bytes], Awaitable[None]]
log = logging.getLogger(__name__)


class Events(Response):
    """A stream that speaks with `tell` and cleans up with `leave`."""

    media_type = "text/event-stream"

    def __init__(self) -> None:
        super().__init__(None, 200, {"x-accel-buffering": "no"})
        # Starlette counts an empty body; a stream has no length.
        self.raw_headers = [header for header in self.raw_headers if header[0] != b"content-length"]

    @abstractmethod
    async def tell(self, say: Say, gone: asyncio.Future[None]) -> None:
        """Send all events; `gone` is done when the page is closed."""

    @abstractmethod
    def leave(self) -> None:
        """Clean up, however the stream ended."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send what comes."""

        async def say(data: bytes) -> None:
            async with asyncio.timeout(SEND_S_MAX):
                await send({"type": "http.response.body", "body": data, "more_body": True})

        async def wait_for_disconnect() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass

        gone = asyncio.ensure_future(wait_for_disconnect())
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
