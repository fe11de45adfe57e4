"""Doors: what one route needs and promises, kept where the route is made."""

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
from starlette.requests import ClientDisconnect

from operator_protocols.domain.category import ErrorCategory, NextAction
from operator_protocols.domain.token import Audience, Reply, Role, Token
from operator_protocols.errors import OperatorError
from operator_sre.app.persons import acting_as
from operator_sre.app.tokens import role_in_force
from operator_sre.faces.api.response import JSON, Refused, problem, refused

if TYPE_CHECKING:
    from operator_sre.app.wiring import App

__all__ = [
    "BODY_BYTES_MAX",
    "BODY_S_MAX",
    "EVERYWHERE",
    "KEY",
    "Door",
    "ask",
    "ask_long",
    "home_of",
    "opens",
    "role_of",
    "told",
]

T = TypeVar("T")
# What an answer says beside its body; to whoever asks the same again it says the same.
KEPT = ("etag", "location", "retry-after")
Handler = Callable[[Request], Coroutine[Any, Any, Response]]
Endpoint = Callable[..., Coroutine[Any, Any, Response]]
BODY_BYTES_MAX = 1_000_000
BODY_S_MAX = 10.0
KEY = "idempotency-key"
KEY_MAX = 200
_KEY = re.compile(rf"[!-~]{{1,{KEY_MAX}}}")
KEEP_S = 86_400.0
ROLE = "x-required-role"
ANSWERS, ASKS = "x-answers", "x-asks"
# What may become of every request, wherever it goes.
EVERYWHERE = (400, 401, 403, 421, 422, 429, 500, 503)
_WORDS = {
    400: "It makes no sense here.",
    401: "There is no token, or it does not count.",
    403: "The token, or whoever it stands for, may not do this.",
    404: "There is no such thing.",
    408: "The body did not come in time.",
    409: "It stands otherwise than that needs; nothing was done.",
    412: "It has changed since it was seen.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    421: "We are not known by that name.",
    422: "A part of the request is not as the document says.",
    428: "Say with If-Match what you have seen.",
    429: "Too much at once; come back after Retry-After seconds.",
    500: "Something unexpected happened.",
    501: "A part of the product is not installed.",
    503: "The store cannot be used at the moment.",
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
    """Make a route of a function: who may, what it is asked, what it answers, how it fails."""
    posts = method != "GET"
    more = (408, 409, 413, 415) if posts else ()
    responses = {
        code: {"description": _WORDS[code], ANSWERS: "ErrorDocument"}
        for code in sorted({*EVERYWHERE, *errors, *more})
    }
    done: dict[str, Any] = {"description": "Done.", ANSWERS: answers.__name__, "media": media}
    if pending is not None:
        responses[202] = {"description": "Asked of a person.", ANSWERS: pending.__name__}
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


def role_of(route: APIRoute) -> Role:
    """Who may use a route; nobody but an admin where it does not say."""
    return Role((route.openapi_extra or {}).get(ROLE, Role.ADMIN))


def home_of(request: Request) -> App:
    """The operator home that is served."""
    return cast("App", request.app.state.home)


async def ask(home: App, call: Callable[..., T], *arguments: Any, **options: Any) -> T:
    """A quick answer of the app. A store in a file is quicker than a change of thread."""
    if home.store.database.near:
        return call(home, *arguments, **options)
    return await ask_long(home, call, *arguments, **options)


async def ask_long(home: App, call: Callable[..., T], *arguments: Any, **options: Any) -> T:
    """An answer that may take a while, without anybody else waiting for it."""
    return await asyncio.to_thread(call, home, *arguments, **options)


async def told(request: Request, kind: type[T]) -> T:
    """What was asked, as this type."""
    try:
        return msgspec.json.decode(await request.body(), type=kind)
    except msgspec.ValidationError as error:
        raise Refused(refused(422, f"The body is not as it should be: {error}.")) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise Refused(refused(400, "The body is not JSON.")) from None


class _Kept(msgspec.Struct, frozen=True):
    """An answer as it is remembered."""

    headers: dict[str, str]
    body: str


class Door(APIRoute):
    """A route that lets in whoever has the role, in the name of its person, and once for a key."""

    def get_route_handler(self) -> Handler:
        """What answers a request of a token."""
        inner = super().get_route_handler()
        role, posts = role_of(self), "GET" not in (self.methods or ())
        takes_body = ASKS in (self.openapi_extra or {})
        asked = frozenset(one.alias for one in self.dependant.query_params)

        async def guarded(request: Request) -> Response:
            token: Token = request.scope["token"]
            held = token.role
            if role is not Role.VIEWER:
                held = await ask(home_of(request), role_in_force, token)
            if not held.may(role):
                await request.app.state.refusals.refused(
                    request.scope["source"], "role", token=token.id
                )
                words = f"A token of the role {held} may not do this; {role} is needed."
                denied = ErrorCategory.POLICY_DENIED
                return refused(403, words, category=denied, action=NextAction.ASK_USER)
            refusals = request.app.state.refusals
            with acting_as(token.created_by, role=held.value, refusals=refusals, door=Audience.API):
                try:
                    _must_be_known(request, asked)
                    if not posts:
                        return await inner(request)
                    await _read(request, json=takes_body)
                    return await _once(request, token, inner)
                except Refused as refusal:
                    return refusal.response
                except OperatorError as error:
                    return problem(error)

        return guarded


def _must_be_known(request: Request, asked: frozenset[str]) -> None:
    """A filter that is misspelt would otherwise show everything."""
    for name in request.query_params:
        if name not in asked:
            there = ", ".join(sorted(asked)) or "none"
            raise Refused(refused(422, f"query {name[:60]!r} is not known; there are: {there}."))


async def _read(request: Request, *, json: bool) -> None:
    """The whole body, bounded in size and time; what does not fit is refused."""
    too_large = refused(413, f"The body is larger than {BODY_BYTES_MAX} bytes.")
    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length[:20]) > BODY_BYTES_MAX:
        raise Refused(too_large)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if json and kind != JSON:
        raise Refused(refused(415, f"The body has to be {JSON}."))
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_S_MAX):
            async for part in request.stream():
                body += part
                if len(body) > BODY_BYTES_MAX:
                    raise Refused(too_large)
    except (TimeoutError, ClientDisconnect):
        raise Refused(refused(408, "The body did not come in time.")) from None
    request._body = bytes(body)


async def _once(request: Request, token: Token, inner: Handler) -> Response:
    """Do it; with a key, once, and answer the same to whoever asks the same again."""
    key = request.headers.get(KEY)
    if key is None:
        return await inner(request)
    # An empty one is none, and whoever sends it believes that they have one.
    if not _KEY.fullmatch(key):
        words = f"{KEY} has 1 to {KEY_MAX} visible ASCII characters, without blanks."
        raise Refused(refused(400, words))
    home, path = home_of(request), request.url.path
    asking = hashlib.sha256(f"{request.method}\n{path}\n{key}".encode()).hexdigest()
    name = f"{token.id}/{asking}"
    seen = request.headers.get("if-match", "")
    asked = hashlib.sha256(seen.encode() + b"\n" + await request.body()).hexdigest()
    replies = home.store.replies
    known = await replies.begin(Reply(name, asked, home.clock.now()), keep_s=KEEP_S)
    if known is not None:
        return _again(known, asked)
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
        headers = {one: response.headers[one] for one in KEPT if one in response.headers}
        kept = _Kept(headers, bytes(response.body).decode())
        await replies.end(
            name, status=response.status_code, body=msgspec.json.encode(kept).decode()
        )
    return response


def _again(known: Reply, asked: str) -> Response:
    if known.digest != asked:
        return refused(409, f"This {KEY} was used for something else.")
    if not known.status:
        words = "The same request is being done, or was broken off; look before you ask anew."
        return refused(409, words, action=NextAction.RERUN)
    kept = msgspec.json.decode(known.body, type=_Kept)
    headers = {**kept.headers, "idempotent-replay": "true"}
    return Response(kept.body, known.status, headers, media_type=JSON)
