"""A wrapper that refuses request bodies beyond a size, before they are held in memory."""

from fastapi import HTTPException, status
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["BodyLimit"]


class BodyLimit:
    """The wrapped application, which never sees more than `body_bytes_max` of a body."""

    def __init__(self, app: ASGIApp, *, body_bytes_max: int) -> None:
        self._app = app
        self._body_bytes_max = body_bytes_max

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection; the application answers 413 when its body is too large."""
        received_bytes = 0

        async def receive_bounded() -> Message:
            nonlocal received_bytes
            message = await receive()
            received_bytes += len(message.get("body", b""))
            if received_bytes > self._body_bytes_max:
                raise HTTPException(
                    status.HTTP_413_CONTENT_TOO_LARGE,
                    f"a request body may have at most {self._body_bytes_max} bytes",
                )
            return message

        await self._app(scope, receive_bounded, send)
