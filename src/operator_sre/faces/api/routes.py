"""Routes of the API: the role, body, answers and errors of each, and idempotency keys."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

import msgspec
from fastapi import APIRouter, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute

from operator_protocols.domain.category import ErrorCategory, NextAction
from operator_protocols.domain.token import Audience, Reply, Role, Token
from operator_protocols.errors import OperatorError
from operator_sre.app.tokens import role_in_force
from operator_sre.faces.api.response import JSON, Refused, problem, refuse
from operator_sre.faces.servers.admission import (
    BODY_S_MAX,
    ROLE,
    BodyError,
    Caller,
    read_bounded,
    role_of,
)

if TYPE_CHECKING:
    from operator_sre.app.wiring import App

__all__ = [
    "BODY_BYTES_MAX",
    "EVERYWHERE",
    "KEY",
    "Door",
    "ask",
    "ask_long",
    "home_of",
    "opens",
    "read_body",
]

T = TypeVar("T")
# Headers of an answer that a replay repeats.
KEPT = ("etag", "location", "retry-after")
Handler = Callable[[Request], Coroutine[Any, Any, Response]]
Endpoint = Callable[..., Coroutine[Any, Any, Response]]
BODY_BYTES_MAX = 1_000_000
KEY = "idempotency-key"
KEY_MAX = 200
_KEY = re.compile(rf"[!-~]{{1,{KEY_MAX}}}")
KEEP_S = 86_400.0
ANSWERS, ASKS = "x-answers", "x-asks"
# Statuses that every route can answer.
EVERYWHERE = (400, 401, 403, 421, 422, 429, 500, 503)
_TITLES = {
    400: "Invalid request.",
    401: "Missing or invalid token.",
    403: "The token or its owner is not allowed to do this.",
    404: "Not found.",
    408: "Timeout while reading the request body.",
    409: "Conflict: the current state does not allow this. Nothing was changed.",
    412: "Precondition failed: the resource has changed since it was read.",
    413: "Request body too large.",
    415: "The request body is not JSON.",
    421: "Unknown Host header.",
    422: "A parameter or field is invalid.",
    428: "If-Match is required.",
    429: "Too many requests. Retry after Retry-After seconds.",
    500: "Internal error.",
    501: "An optional part of Operator is not installed.",
    503: "The store is not available.",
}


def opens(
    router: APIRouter,
    method: str,
    path: str,
    *,
    role: Role,
    answers: type,
    asks: type | None = None,
    status: int = 200,
    errors: Sequence[int] = (),
    media: str = JSON,
    etag: bool = False,
    pending: type | None = None,
) -> Callable[[Endpoint], Endpoint]:
    """Make a function a route, with its role, request body, answer and errors."""
    posts = method != "GET"
    more = (408, 409, 413, 415) if posts else ()
    responses = {
        code: {"description": _TITLES[code], ANSWERS: "ErrorDocument"}
        for code in sorted({*EVERYWHERE, *errors, *more})
    }
    done: dict[str, Any] = {"description": "Done.", ANSWERS: answers.__name__, "media": media}
    if pending is not None:
        responses[202] = {"description": "Pending approval.", ANSWERS: pending.__name__}
    if etag:
        done["headers"] = {"ETag": {"schema": {"type": "string"}}}
    extra: dict[str, Any] = {ROLE: role.value}
    if asks is not None:
        extra[ASKS] = asks.__name__

    def of(endpoint: Endpoint) -> Endpoint:
        router.add_api_route(
            path,
            endpoint,
            methods=[method],
            response_model=None,
            status_code=status,
            responses={status: done, **responses},
            summary=(endpoint.__doc__ or "").strip().splitlines()[0],
            openapi_extra=extra,
            operation_id=endpoint.__name__,
        )
        return endpoint

    return of


def home_of(request: Request) -> App:
    """The operator home that is served."""
    return cast("App", request.app.state.home)


async def ask(home: App, call: Callable[..., T], *arguments: Any, **options: Any) -> T:
    """Call the app for a quick answer; with a local store a thread would cost more time."""
    if home.store.database.near:
        return call(home, *arguments, **options)
    return await ask_long(home, call, *arguments, **options)


async def ask_long(home: App, call: Callable[..., T], *arguments: Any, **options: Any) -> T:
    """Call the app in a thread, so that a slow answer blocks no other request."""
    return await asyncio.to_thread(call, home, *arguments, **options)


async def read_body(request: Request, kind: type[T]) -> T:
    """The request body, decoded as this type."""
    try:
        return msgspec.json.decode(await request.body(), type=kind)
    except msgspec.ValidationError as error:
        raise Refused(refuse(422, f"Invalid request body: {error}.")) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise Refused(refuse(400, "The request body is not JSON.")) from None


class _Kept(msgspec.Struct, frozen=True):
    """A stored answer."""

    headers: dict[str, str]
    body: str


class Door(APIRoute):
    """A route that needs a role, acts as the owner of the token, and runs once for each key."""

    def get_route_handler(self) -> Handler:
        """The handler, behind the checks of role, query and idempotency key."""
        inner = super().get_route_handler()
        role, posts = role_of(self), "GET" not in (self.methods or ())
        takes_body = ASKS in (self.openapi_extra or {})
        known = frozenset(parameter.alias for parameter in self.dependant.query_params)

        async def admit(request: Request) -> Response:
            token: Token = request.scope["token"]
            held = token.role
            if role is not Role.VIEWER:
                held = await ask(home_of(request), role_in_force, token)
            state = request.app.state
            caller = Caller(token, held, request.scope["source"], Audience.API, state.refusals)
            if message := await caller.lacks(role):
                denied = ErrorCategory.POLICY_DENIED
                return refuse(403, message, category=denied, action=NextAction.ASK_USER)
            with caller.acting():
                try:
                    # A misspelt filter would otherwise show everything.
                    for name in request.query_params:
                        if name not in known:
                            names = ", ".join(sorted(known)) or "none"
                            message = (
                                f"Unknown query parameter {name[:60]!r}. Known parameters: {names}."
                            )
                            raise Refused(refuse(422, message))
                    if not posts:
                        return await inner(request)
                    await _read(request, json=takes_body)
                    return await _once(request, token, inner)
                except Refused as refusal:
                    return refusal.response
                except OperatorError as error:
                    return problem(error)

        return admit


async def _read(request: Request, *, json: bool) -> None:
    """Read the whole body, bounded in size and time."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if json and kind != JSON:
        raise Refused(refuse(415, f"The request body must be {JSON}."))
    try:
        request._body = await read_bounded(request, bytes_max=BODY_BYTES_MAX)
    except BodyError as error:
        message = f"The request body took longer than {BODY_S_MAX:g} s."
        if error.status == 413:
            message = f"The request body is larger than {BODY_BYTES_MAX // 1_000_000} MB."
        raise Refused(refuse(error.status, message)) from None


async def _once(request: Request, token: Token, inner: Handler) -> Response:
    """Handle the request; with a key only once, and repeat the answer to later requests."""
    key = request.headers.get(KEY)
    if key is None:
        return await inner(request)
    # An empty key would not protect a client that believes it has one.
    if not _KEY.fullmatch(key):
        message = f"{KEY} must have 1 to {KEY_MAX} visible ASCII characters and no spaces."
        raise Refused(refuse(400, message))
    home, path = home_of(request), request.url.path
    asking = hashlib.sha256(f"{request.method}\n{path}\n{key}".encode()).hexdigest()
    name = f"{token.id}/{asking}"
    seen = request.headers.get("if-match", "")
    digest = hashlib.sha256(seen.encode() + b"\n" + await request.body()).hexdigest()
    replies = home.store.replies
    known = await replies.begin(Reply(name, digest, home.clock.now()), keep_s=KEEP_S)
    if known is not None:
        if known.digest != digest:
            return refuse(409, f"Conflict: this {KEY} was used for another request.")
        if not known.status:
            message = (
                "Conflict: the same request is in progress or was interrupted."
                " Check the current state before you send it again."
            )
            return refuse(409, message, action=NextAction.RERUN)
        kept = msgspec.json.decode(known.body, type=_Kept)
        headers = {**kept.headers, "idempotent-replay": "true"}
        return Response(kept.body, known.status, headers, media_type=JSON)
    try:
        response = await inner(request)
    except Refused as refusal:
        response = refusal.response
    except OperatorError as error:
        response = problem(error)
    except RequestValidationError:
        await replies.drop(name)
        raise
    if response.status_code >= 500:
        await replies.drop(name)
    else:
        headers = {name: response.headers[name] for name in KEPT if name in response.headers}
        kept = _Kept(headers, bytes(response.body).decode())
        await replies.end(
            name, status=response.status_code, body=msgspec.json.encode(kept).decode()
        )
    return response
