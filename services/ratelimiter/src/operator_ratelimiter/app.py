"""The application of one node: its routes, its heartbeat, and how it says no."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, HTTPException, Request, Response, status
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from operator_ratelimiter import __version__
from operator_ratelimiter.node import Node, build_node
from operator_ratelimiter.routes import check, management
from operator_ratelimiter.routes import status as status_routes
from operator_ratelimiter.settings import Settings
from operator_ratelimiter.store import StoreError

__all__ = ["BodyLimit", "create_app"]


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


log = logging.getLogger(__name__)


def create_app(settings: Settings) -> FastAPI:
    """Build one node's application; it starts and serves also while the store is away."""
    app = FastAPI(
        title="operator-ratelimiter",
        version=__version__,
        lifespan=_lifespan,
        # The stock documentation pages load scripts from the internet.
        docs_url=None,
        redoc_url=None,
    )
    app.state.node = build_node(settings)
    for router in (check.router, management.router, status_routes.router):
        app.include_router(router)
    app.add_middleware(BodyLimit, body_bytes_max=settings.body_bytes_max)

    @app.exception_handler(StoreError)
    async def answer_store_error(request: Request, error: StoreError) -> Response:
        return JSONResponse({"detail": f"the store does not serve: {error}"}, 503)

    @app.exception_handler(RequestValidationError)
    async def answer_invalid(request: Request, error: RequestValidationError) -> Response:
        """Say what is wrong without echoing the input, which may not even be encodable."""
        found = [{name: each[name] for name in ("type", "loc", "msg")} for each in error.errors()]
        return Response(
            json.dumps({"detail": found}),
            status.HTTP_422_UNPROCESSABLE_CONTENT,
            media_type="application/json",
        )

    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    node: Node = app.state.node
    settings = node.settings
    loops = [
        asyncio.create_task(node.store.follow()),
        asyncio.create_task(node.registry.keep_registered()),
    ]
    log.info(
        "node %r started on %s with store %s, limit %d in %g s, %s",
        settings.name,
        settings.address,
        settings.store_address,
        settings.default_limit,
        settings.window_s,
        settings.on_store_loss.value,
    )
    try:
        yield
    finally:
        for loop in loops:
            loop.cancel()
        await asyncio.gather(*loops, return_exceptions=True)
        await node.store.close()
        log.info("node %r stopped", settings.name)
