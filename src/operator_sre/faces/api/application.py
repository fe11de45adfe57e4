"""The application: routes behind admission, every error in one shape."""

from __future__ import annotations

import asyncio
import logging
from functools import cache, partial
from typing import TYPE_CHECKING, Any, cast

import msgspec
from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from operator_protocols.domain.category import ErrorCategory, NextAction
from operator_protocols.domain.token import Audience, Role
from operator_protocols.errors import OperatorError
from operator_sre import __version__
from operator_sre.app.telemetry import METRICS_TYPE, Meter, Scraped
from operator_sre.app.tokens import Refusals
from operator_sre.contract.messages import SCHEMA_VERSION
from operator_sre.faces.api import actions, events, schema
from operator_sre.faces.api.admission import OPEN_PATH, ApiFace, Counts
from operator_sre.faces.api.operations import router_of
from operator_sre.faces.api.response import answer, problem, refuse
from operator_sre.faces.api.routes import Door, opens
from operator_sre.faces.api.schema import document_of
from operator_sre.faces.servers.admission import (
    STRANGER_PER_S,
    Admission,
    TokenDesk,
    names_of,
)
from operator_sre.operations import all_operations

if TYPE_CHECKING:
    from collections.abc import Iterable

    from operator_sre.app.wiring import App

__all__ = ["application"]

_MODULES = (
    schema,
    actions,
    events,
)
OPENAPI_TYPE = "application/vnd.oai.openapi+json"
log = logging.getLogger(__name__)


def application(
    home: App,
    *,
    hosts: Iterable[str] = (),
    rate: float = 100.0,
    stranger_rate: float = STRANGER_PER_S,
) -> FastAPI:
    """The API of a home, for these host names besides IP addresses and `localhost`."""
    app = FastAPI(
        title="Operator", version=__version__, docs_url=None, redoc_url=None, openapi_url=None
    )
    derived = router_of(tuple(all_operations()))
    for router in (*(module.router for module in _MODULES), derived):
        # Routes are copied, so that the application has one flat list of them.
        app.router.routes.extend(router.routes)
    app.add_api_route(
        OPEN_PATH,
        _answer_alive,
        methods=["GET"],
        operation_id="alive",
        summary="Liveness: the server answers.",
        response_model=None,
        responses=_ALIVE,
    )
    texts = APIRouter(route_class=Door)
    opens(texts, "GET", "/metrics", role=Role.VIEWER, answers=str, media="text/plain")(
        scrape_metrics
    )
    opens(texts, "GET", "/v1/openapi.json", role=Role.VIEWER, answers=dict, media=OPENAPI_TYPE)(
        show_openapi
    )
    app.router.routes.extend(texts.routes)
    app.add_exception_handler(RequestValidationError, _answer_error)
    app.add_exception_handler(HTTPException, _answer_error)
    app.add_exception_handler(OperatorError, _answer_error)
    app.add_exception_handler(Exception, _answer_error)
    counts, refusals = Counts(), Refusals(home)
    state = app.state
    state.home, state.refusals, state.counts = home, refusals, counts
    state.feed = events.Feed(home, counts)
    state.scraped = Scraped(Meter(home, lambda: ()))
    desk = TokenDesk.of(home, Audience.API, rate=rate, stranger_rate=stranger_rate)
    app.add_middleware(
        cast("Any", Admission),
        face=ApiFace(desk, counts),
        refusals=refusals,
        hosts=names_of(hosts),
    )
    app.openapi = cache(partial(document_of, app))  # type: ignore[method-assign]
    return app


_ALIVE: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The server answers.",
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "required": ["status", "schema_version"],
                    "properties": {
                        "status": {"type": "string", "const": "ok"},
                        "schema_version": {"type": "string"},
                    },
                }
            }
        },
    },
    421: {"description": "Unknown Host header.", "x-answers": "ErrorDocument"},
    429: {
        "description": "Too many requests.",
        "x-answers": "ErrorDocument",
    },
}


async def scrape_metrics(request: Request) -> Response:
    """Metrics of Operator itself, in the text format of Prometheus."""
    state = request.app.state
    text: bytes = await asyncio.to_thread(state.scraped.text)
    return Response(text + state.counts.lines().encode(), media_type=METRICS_TYPE)


async def show_openapi(request: Request) -> Response:
    """The description of this API, OpenAPI 3.1."""
    document = await asyncio.to_thread(request.app.openapi)
    return Response(msgspec.json.encode(document), media_type=OPENAPI_TYPE)


async def _answer_alive() -> Response:
    return answer({"status": "ok", "schema_version": SCHEMA_VERSION})


async def _answer_error(request: Request, error: Exception) -> Response:
    """The document of what went wrong."""
    match error:
        case RequestValidationError():
            first = error.errors()[0]
            where = " ".join(str(part) for part in first["loc"])
            return refuse(422, f"{where[:200]}: {first['msg']}.")
        case HTTPException():
            messages = {404: "Not found: no such route.", 405: "Method not allowed on this route."}
            text = messages.get(error.status_code, "The request cannot be served.")
            return refuse(error.status_code, text, headers=error.headers)
        case OperatorError():
            return problem(error)
    log.error("a request failed: %s %s: %r", request.method, type(error).__name__, str(error)[:500])
    category, action = ErrorCategory.AGENT_RUNTIME_EXCEPTION, NextAction.RERUN
    message = "Internal error. See the log of the server."
    return refuse(500, message, category=category, action=action)
