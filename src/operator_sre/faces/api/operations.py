"""Routes of the API, made from operations, and the pages of their lists."""

from __future__ import annotations

import asyncio
import base64
import binascii
import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec
from fastapi import APIRouter, Header, Path, Query, Request, Response

from operator_protocols.domain.action import digest_of
from operator_protocols.errors import UsageError
from operator_sre.app import confirmations
from operator_sre.faces.api.response import Refused, answer, etag_of, refuse
from operator_sre.faces.api.routes import Door, ask, ask_long, home_of, opens, read_body
from operator_sre.operations import all_operations
from operator_sre.operations.confirmations import Pending
from operator_sre.operations.operation import load, struct_for

if TYPE_CHECKING:
    from operator_sre.app.wiring import App
    from operator_sre.operations.operation import Operation, Parameter, Route

__all__ = [
    "LIMIT_MAX",
    "Cursor",
    "Limit",
    "body_of",
    "cursor_at",
    "documents",
    "number_of",
    "page_of",
    "place_of",
    "router_of",
    "signature_of",
]

T = TypeVar("T")
LIMIT = 50
LIMIT_MAX = 500
CURSOR_MAX = 300
Limit = Annotated[int, Query(ge=1, le=LIMIT_MAX, description="Maximum number of rows.")]
Cursor = Annotated[
    str,
    Query(
        max_length=CURSOR_MAX,
        description="`next_cursor` of the previous page; keep the filter.",
    ),
]


class _Place(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The last row of a page, and a digest of the criteria of the list."""

    after: str
    criteria: str


def cursor_at(after: object, *criteria: object) -> str:
    """The cursor of the rows after this one, for the same criteria."""
    place = _Place(str(after), _digest(criteria))
    return base64.urlsafe_b64encode(msgspec.json.encode(place)).decode().rstrip("=")


def place_of(cursor: str, *criteria: object) -> str:
    """The last row of the previous page; empty for the first page. UsageError if it is not ours."""
    if not cursor:
        return ""
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        place = msgspec.json.decode(
            base64.b64decode(padded, altchars=b"-_", validate=True), type=_Place
        )
    except (ValueError, binascii.Error, msgspec.MsgspecError):
        raise UsageError(
            "The cursor is not valid.", next_step="Start again without a cursor."
        ) from None
    if place.criteria != _digest(criteria):
        raise UsageError(
            "The cursor belongs to another filter.",
            next_step="Repeat the filter, or start again without a cursor.",
        )
    return place.after


def number_of(place: str) -> int:
    """A place that is a number; 0 for none."""
    return int(place) if place.isascii() and place.isdigit() and len(place) < 19 else 0


def page_of(
    found: Sequence[T], key: Callable[[T], object], limit: int, *criteria: object
) -> tuple[tuple[T, ...], str]:
    """The page of the rows found, one more than fit, and the cursor of the rest if there is one."""
    part = tuple(found[:limit])
    return part, cursor_at(key(part[-1]), *criteria) if len(found) > limit else ""


def _digest(criteria: Sequence[object]) -> str:
    return digest_of([str(criterion) for criterion in criteria]).removeprefix("sha256:")[:16]


_IN_PATH = re.compile(r"{(\w+)}")
IfMatch = Annotated[
    str, Header(max_length=100, description="The ETag of the version that was read. Required.")
]


def router_of(operations: tuple[Operation, ...]) -> APIRouter:
    """Routes of those operations that the API serves."""
    router = APIRouter(route_class=Door)
    for operation in operations:
        if route := operation.route:
            opens(
                router,
                route.method,
                route.path,
                role=operation.role,
                answers=operation.result,
                asks=body_of(operation),
                status=route.status,
                errors=route.errors,
                etag=bool(route.etag),
                pending=Pending if operation.confirmation else None,
            )(_endpoint(operation, route))
    return router


def documents() -> dict[str, type[Any]]:
    """What operations are asked and answer, by the names in the OpenAPI document."""
    served = [operation for operation in all_operations() if operation.route]
    bodies = [body for operation in served if (body := body_of(operation)) is not None]
    kinds: tuple[type[Any], ...] = (Pending, *bodies, *(operation.result for operation in served))
    return {kind.__name__: kind for kind in kinds}


@cache
def body_of(operation: Operation) -> type[msgspec.Struct] | None:
    """What a POST is given beside its path; None for a GET."""
    route = operation.route
    if route is None or route.method == "GET":
        return None
    outside = _IN_PATH.findall(route.path)
    inside = [parameter.name for parameter in operation.parameters if parameter.wire not in outside]
    doc = {"__doc__": operation.request.__doc__}
    return struct_for("api", route.body, operation, inside, namespace=doc)


def signature_of(operation: Operation) -> inspect.Signature:
    """The parameters of a request as FastAPI reads them: those of its path, query and headers."""
    route = operation.route
    assert route is not None
    paged = ("limit", operation.page.place) if operation.page else ()
    outside = _IN_PATH.findall(route.path)
    found: list[tuple[str, Any, Any]] = [("request", Request, inspect.Parameter.empty)]
    for parameter in operation.parameters:
        if parameter.wire in outside or (route.method == "GET" and parameter.name not in paged):
            found += _read_by_fastapi(parameter, is_path=parameter.wire in outside)
    if operation.page:
        found += [("limit", Limit, LIMIT), ("cursor", Cursor, "")]
    if route.shown:
        found.append(("if_match", IfMatch, ""))
    return inspect.Signature(
        [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=first)
            for name, kind, first in found
        ]
    )


def _read_by_fastapi(parameter: Parameter, *, is_path: bool) -> list[tuple[str, Any, Any]]:
    meta = parameter.meta_for("api")
    if meta is None:
        return []
    limits: dict[str, Any] = {
        "ge": meta.ge,
        "le": meta.le,
        "min_length": meta.min_length,
        "max_length": meta.max_length,
        "pattern": meta.pattern,
        "description": meta.description,
    }
    place = Path(**limits) if is_path else Query(**limits)
    kind, default = (
        parameter.kind,
        inspect.Parameter.empty if parameter.required else parameter.default,
    )
    if parameter.many:
        kind, default = list[kind.__args__[0]] | None, None  # type: ignore[name-defined]
    return [(parameter.query, Annotated[kind, place], default)]


def _endpoint(operation: Operation, route: Route) -> Any:
    lock, kept = asyncio.Lock(), _Kept()

    async def serve(request: Request, **given: Any) -> Response:
        home, body = home_of(request), body_of(operation)
        values: dict[str, Any] = {}
        for parameter in operation.parameters:
            if parameter.query in given and not (operation.page and parameter.name == "limit"):
                value = given[parameter.query]
                values[parameter.name] = tuple(value or ()) if parameter.many else value
        if body is not None:
            values |= msgspec.structs.asdict(await read_body(request, body))
        if route.shown:
            values["seen"] = await _check_version(home, route, values, given["if_match"])
        if operation.confirmation:
            wanted = operation.request(**values)
            change = await ask(home, lambda home: operation.to_confirm(home, wanted))
            if change is not None:
                confirmation = await confirmations.request(home, change)
                where = {"location": f"/v1/confirmations/{confirmation.id}"}
                return answer(Pending(confirmation), status=202, headers=where)
        if operation.page is not None:
            return await _answer_page(home, operation, values, given["limit"], given["cursor"])
        if route.kept_s:
            # A long walk, which no client may trigger again and again.
            async with lock:
                now = home.clock.monotonic()
                if kept.document is None or now - kept.at_s >= route.kept_s:
                    kept.document = await _perform(home, operation, values)
                    kept.at_s = now
            return answer(kept.document)
        document = await _perform(home, operation, values)
        headers = {"etag": etag_of(getattr(document, route.etag))} if route.etag else {}
        return answer(document, status=route.status, headers=headers)

    serve.__name__ = route.id
    serve.__doc__ = route.summary or operation.summary
    serve.__signature__ = signature_of(operation)  # type: ignore[attr-defined]
    serve.__annotations__ = {}
    return serve


class _Kept:
    """A cached answer, and when it was made."""

    document: Any = None
    at_s: float = 0.0


async def _check_version(home: App, route: Route, values: dict[str, Any], if_match: str) -> int:
    """The version of what is changed, when that is what the caller has seen."""
    path = {name: values[name] for name in _IN_PATH.findall(route.path)}
    state = getattr(await ask(home, load(route.shown), **path), route.etag)
    if not if_match or if_match.strip() == "*":
        words = "Send If-Match with the ETag of the version that you read."
        raise Refused(refuse(428, words))
    if if_match.strip() != etag_of(state):
        ((noun, name),) = path.items()
        message = f"{noun.capitalize()} {name!r} has changed since you read it. Read it again."
        raise Refused(refuse(412, message))
    version: int = state.version
    return version


async def _answer_page(
    home: App, operation: Operation, values: dict[str, Any], limit: int, cursor: str
) -> Response:
    """One page; one row more than is shown says whether there is another."""
    page, criteria = operation.page, (operation.name, *values.values())
    assert page is not None
    if place := place_of(cursor, *criteria):
        (kind,) = (
            parameter.kind for parameter in operation.parameters if parameter.name == page.place
        )
        values = {**values, page.place: place if kind is str else number_of(place)}
    document = await _perform(home, operation, {**values, "limit": limit + 1})
    found = getattr(document, operation.rows)
    rows, rest = page_of(found, attrgetter(page.key), limit, *criteria)
    return answer(replace(document, **{operation.rows: rows, "next_cursor": rest}))


async def _perform(home: App, operation: Operation, values: dict[str, Any]) -> Any:
    request = operation.request(**values)
    wait = ask_long if operation.slow else ask
    found = await wait(home, lambda home: operation.perform(home, request))
    return operation.document(await found if inspect.isawaitable(found) else found)
