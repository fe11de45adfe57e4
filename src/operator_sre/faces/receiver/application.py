"""HTTP around the receiver: bounded bodies in, JSON out, never a traceback."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from operator_protocols.domain.category import ErrorCategory, NextAction
from operator_protocols.errors import MissingExtraError, UsageError
from operator_sre.app.alerts import BODY_BYTES_MAX, Answer, Receiver, refused_answer
from operator_sre.app.listeners import Listener
from operator_sre.codec import to_json
from operator_sre.faces.cli.output import SCHEMA_VERSION
from operator_sre.faces.servers.admission import BodyError, read_bounded
from operator_sre.faces.servers.server import address_of, bind_socket, bounded_server, work

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

__all__ = ["application", "listener_of", "serve"]


def application(receiver: Receiver) -> Starlette:
    """`POST /alerts/NAME` for every trigger, and `GET /healthz` for load balancers."""
    try:
        from starlette.applications import Starlette
        from starlette.exceptions import HTTPException
        from starlette.routing import Route
    except ImportError as error:
        raise MissingExtraError("alerts", needed_for="Receiving alerts") from error

    async def take(request: Request) -> Response:
        try:
            body = await read_bounded(request, bytes_max=BODY_BYTES_MAX)
        except BodyError as error:
            message = "Timeout while reading the request body."
            if error.status == 413:
                message = f"The body is larger than {BODY_BYTES_MAX} bytes."
            return _response(_wrong(error.status, message))
        headers = dict(request.headers)
        sender = request.client.host if request.client else "somebody"
        name = request.path_params["name"]
        return _response(await receiver.receive(name, headers, body, sender=sender))

    async def healthy(request: Request) -> Response:
        return _response(Answer(200, {"status": "ok"}))

    async def unknown(request: Request, error: Exception) -> Response:
        status = getattr(error, "status_code", 500)
        sentence = "Method not allowed." if status == 405 else "Not found."
        return _response(_wrong(status, f"{sentence} Alerts are sent by POST to /alerts/NAME."))

    async def broken(request: Request, error: Exception) -> Response:
        category = ErrorCategory.AGENT_RUNTIME_EXCEPTION
        message = "Internal error. Send the alert again."
        return _response(refused_answer(500, category, message, NextAction.RERUN))

    return Starlette(
        routes=[
            Route("/alerts/{name}", take, methods=["POST"]),
            Route("/healthz", healthy, methods=["GET"]),
        ],
        exception_handlers={HTTPException: unknown, Exception: broken},
    )


def _wrong(status: int, message: str) -> Answer:
    return refused_answer(
        status, ErrorCategory.POLICY_VALIDATION_FAILED, message, NextAction.FIX_CODE
    )


def _response(answer: Answer) -> Response:
    from starlette.responses import JSONResponse

    document = {"schema_version": SCHEMA_VERSION, **to_json(dict(answer.document))}
    return JSONResponse(document, status_code=answer.status)


CONNECTIONS_MAX = 256


def listener_of(text: str) -> Listener:
    """The host and the port of `127.0.0.1:9094` or `[::1]:9094`."""
    host, _, port = text.rpartition(":")
    if not host or not (port.isascii() and port.isdigit() and int(port) < 65536):
        raise UsageError(
            f"{text!r} is not a valid address.", next_step="Write it as 127.0.0.1:9094."
        )
    return Listener(host.strip("[]"), int(port))


async def serve(receiver: Receiver, listen: str, *, ready: Callable[[str], None]) -> None:
    """Take notifications until cancelled; `ready` receives the address."""
    listener = listener_of(listen)
    receiver.check(listener.bind)
    door = application(receiver)
    try:
        server = bounded_server(door, listener, connections_max=CONNECTIONS_MAX)
    except ImportError as error:
        raise MissingExtraError("alerts", needed_for="Receiving alerts") from error
    with bind_socket(listener, options="--listen") as place:
        await work(server, place, receiver.run(), ready=lambda: ready(address_of(place)))
