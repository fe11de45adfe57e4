"""Routes of the console: each page and form with the role it requires, checked on every request."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from urllib.parse import urlencode

from fastapi import APIRouter, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute

from operator_protocols.domain.token import Audience, Role
from operator_protocols.errors import OperatorError
from operator_sre.faces.servers.admission import ROLE, Caller, role_of
from operator_sre.faces.web.forms import form_of
from operator_sre.faces.web.responses import hub_of, is_part, problem, problem_of
from operator_sre.faces.web.sessions import Session

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = ["SEQ_MAX", "Door", "address", "does", "pages_of", "router_of", "shows"]

SEQ_MAX = 2**63 - 1


class _Numbered(Protocol):
    @property
    def seq(self) -> int: ...


T = TypeVar("T", bound=_Numbered)


def address(place: str, filters: Mapping[str, object]) -> str:
    """A path with its filters as the query; empty filters are left out."""
    query = {name: value for name, value in filters.items() if value not in ("", None, False)}
    return f"{place}?{urlencode(query)}" if query else place


def pages_of(
    place: str, filters: DataclassInstance, found: Sequence[T], most: int
) -> tuple[Sequence[T], str]:
    """The rows of one page, and the address of older rows; "" if there are none."""
    if len(found) <= most:
        return found, ""
    following = replace(filters, before=str(found[most - 1].seq))
    return found[:most], address(place, asdict(following))


ONCE, SEAL = "x-once", "x-seal"
Endpoint = Callable[..., Coroutine[Any, Any, Response]]
Handler = Callable[[Request], Coroutine[Any, Any, Response]]


def router_of(prefix: str = "") -> APIRouter:
    """A router whose routes all check a role."""
    return APIRouter(route_class=Door, prefix=prefix)


def shows(
    router: APIRouter, path: str, *, role: Role = Role.VIEWER
) -> Callable[[Endpoint], Endpoint]:
    """Register a page or a part of one. It changes nothing."""

    def of(endpoint: Endpoint) -> Endpoint:
        extra = {ROLE: role.value}
        router.add_api_route(
            path, endpoint, methods=["GET"], response_model=None, openapi_extra=extra
        )
        return endpoint

    return of


def does(
    router: APIRouter, path: str, *, role: Role, once: bool = True
) -> Callable[[Endpoint], Endpoint]:
    """Register a form that changes something. It carries the session's token, and a one-time seal.

    Without `once` it may be sent again, for a form that is sent while the user types.
    """

    def of(endpoint: Endpoint) -> Endpoint:
        extra = {ROLE: role.value, ONCE: once}
        router.add_api_route(
            path, endpoint, methods=["POST"], response_model=None, openapi_extra=extra
        )
        return endpoint

    return of


class Door(APIRoute):
    """A route for sessions with its role; it acts in the name of the token's person."""

    def get_route_handler(self) -> Handler:
        """What answers a request of a session."""
        inner = super().get_route_handler()
        role, posts = role_of(self), "POST" in (self.methods or ())
        once = (self.openapi_extra or {}).get(ONCE, True)

        async def serve(request: Request) -> Response:
            session: Session = request.scope["session"]
            with _caller(request, session).acting():
                try:
                    response = await _refuse(request, session, role, posts=posts, once=once)
                    if response is None:
                        response = await inner(request)
                except RequestValidationError:
                    response = await problem(request, 404, "There is no page at this address.")
                except OperatorError as error:
                    response = await problem_of(request, error)
                if posts:
                    await hub_of(request).look()
            if posts and once and is_part(request):
                # Its form stays on the screen, and its seal is used up.
                response.headers[SEAL] = session.seal()
            return response

        return serve


async def _refuse(
    request: Request, session: Session, role: Role, *, posts: bool, once: bool
) -> Response | None:
    """The refusal, or None. A form checks the token as it is at this moment."""
    if posts:
        form = await form_of(request)
        token = request.headers.get("x-csrf", "") or form.fields.get("csrf", "")
        if not session.knows(token):
            why = "csrf"
        else:
            why = session.use(form.fields.get("seal", "")) if once else ""
        if why:
            await request.app.state.refusals.record_refusal(
                request.scope["source"], why, token=session.token.id
            )
            words = _WORDS.get(why, "This form belongs to another session.")
            return await problem(
                request, 403, words, "Reload the page and check it before you try again."
            )
    if (posts or role is not Role.VIEWER) and not request.app.state.sessions.renew(session):
        return await problem(
            request, 403, "Your token has expired or was revoked.", "Sign in with another."
        )
    if message := await _caller(request, session).lacks(role):
        return await problem(request, 403, message, f"Ask a person with the role {role}.")
    return None


def _caller(request: Request, session: Session) -> Caller:
    """The caller of a request; the role of a session changes when it is renewed."""
    refusals = request.app.state.refusals
    return Caller(session.token, session.role, request.scope["source"], Audience.WEB, refusals)


_WORDS = {
    "replayed form": "This form was already sent. Nothing was done twice.",
    "too many forms": "This session has sent too many forms. Sign out and sign in again.",
}
